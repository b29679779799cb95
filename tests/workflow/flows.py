"""Workflows in one line, and looking at them."""

import uuid
from collections.abc import Sequence
from typing import Any

from psycopg.types.json import Jsonb

from skiplane.tests.support.engine import Claim, Document, Engine

Spec = list[Document]
ENDED = ("SUCCEEDED", "FAILED", "CANCELLED", "DEAD")


def tasks(line: str, **options: Any) -> Spec:
    """Write ``"a b<a c<a,b:all_done"`` as tasks: a name, what it depends on, its trigger.

    The task type is the name; tasks are not retried unless ``options`` say so.
    """
    made: Spec = []
    for word in line.split():
        rest, _, trigger = word.partition(":")
        name, _, parents = rest.partition("<")
        task: Document = {"name": name, "task_type": name, "max_retries": 0, **options}
        task["dependencies"] = [parent for parent in parents.split(",") if parent]
        if trigger:
            task["trigger"] = trigger
        made.append(task)
    return made


class Flow:
    """A submitted workflow."""

    def __init__(self, engine: Engine, spec: str | Spec, /, **options: Any) -> None:
        self.engine = engine
        given = tasks(spec) if isinstance(spec, str) else spec
        self.answer: Document = engine.value(
            "submit_workflow", name="flow", tasks=Jsonb(given), **options
        )
        self.id = uuid.UUID(self.answer["workflow_id"])
        self.ids = {t["name"]: uuid.UUID(t["task_id"]) for t in self.answer.get("tasks", [])}

    def on(self, engine: Engine) -> "Flow":
        """Look at it through another session."""
        other = object.__new__(Flow)
        other.__dict__.update(self.__dict__, engine=engine)
        return other

    @property
    def graph(self) -> Document:
        """Its picture."""
        document = self.engine.value("workflow_graph", workflow_id=self.id)
        assert isinstance(document, dict)
        return document

    @property
    def status(self) -> str:
        """Its state."""
        return str(self.engine.value("workflow_status", workflow_id=self.id))

    @property
    def states(self) -> str:
        """All states in one line: ``"a=SUCCEEDED b=PENDING"``."""
        return " ".join(f"{n['name']}={n['status']}" for n in self.graph["nodes"])

    def node(self, name: str) -> Document:
        """One task in the picture."""
        [found] = [n for n in self.graph["nodes"] if n["name"] == name]
        return dict(found)

    def claim(self, *names: str) -> Claim:
        """Claim tasks by name, in one lease."""
        claim = self.engine.claim(1000, task_types=list(names))
        assert {t["task_type"] for t in claim.tasks} == set(names)
        return claim

    def run(self, *names: str) -> None:
        """Let tasks succeed, each with its name as the result."""
        claim = self.claim(*names)
        results = {uuid.UUID(t["task_id"]): t["task_type"] for t in claim.tasks}
        assert self.engine.finish(claim, results) == []

    def fail(self, *names: str, kind: str = "error") -> None:
        """Let tasks fail."""
        claim = self.claim(*names)
        assert self.engine.fail(claim, kind, error_type="Boom", error_message="boom") == []


def ready(engine: Engine) -> Sequence[str]:
    """Task types of all that a claim would give, once for each."""
    found = engine.conn.execute(
        "select t.task_type from skiplane.ready r join skiplane.task t on t.id = r.id order by 1"
    )
    return [row[0] for row in found]


STUCK = """
    select b.id from skiplane.blocked b
    join skiplane.workflow_task m on m.id = b.id
    join skiplane.workflow_state s on s.id = m.workflow_id
    where s.status <> 'RUNNING'
        or not exists (
            select from unnest(m.parents) p (id)
            where not exists (select from skiplane.outcome o where o.id = p.id))
    union all
    select s.id from skiplane.workflow_state s
    join skiplane.workflow w on w.id = s.id
    cross join lateral (
        select count(*) filter (where o.id is null) as pending,
            count(*) filter (where o.status in ('FAILED', 'DEAD')) as failed,
            count(*) filter (
                where o.status = 'CANCELLED' and o.error_type is distinct from 'Skipped'
            ) as cancelled
        from skiplane.workflow_task m left join skiplane.outcome o on o.id = m.id
        where m.workflow_id = s.id
    ) c
    where (s.pending, s.failed, s.cancelled) <> (c.pending, c.failed, c.cancelled)
"""


def stuck(engine: Engine) -> list[Any]:
    """Give BLOCKED tasks that wait for nothing, and workflows whose counts are wrong."""
    return engine.conn.execute(STUCK.encode()).fetchall()

"""The engine's verbs as calls with named arguments, for tests that speak to SQL directly."""

import contextlib
import json
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.types.json import Jsonb

Connection = psycopg.Connection[tuple[Any, ...]]
Document = dict[str, Any]


@dataclass(frozen=True)
class Claim:
    """What a claim gave."""

    worker: uuid.UUID
    lease_id: int | None
    tasks: list[Document]
    cursor: Document | None

    @property
    def ids(self) -> list[uuid.UUID]:
        """Ids of the tasks, in their order."""
        return [uuid.UUID(task["task_id"]) for task in self.tasks]


class Engine:
    """Verbs on one connection."""

    def __init__(self, conn: Connection) -> None:
        self.conn = conn
        self.worker = uuid.uuid4()

    def rows(self, function: str, /, **arguments: Any) -> list[tuple[Any, ...]]:
        """Call a function of the schema; dicts go in as jsonb."""
        named = sql.SQL(", ").join(
            sql.SQL("{} => {}").format(sql.Identifier(f"p_{name}"), sql.Placeholder(name))
            for name in arguments
        )
        query = sql.SQL("select * from skiplane.{}({})").format(sql.Identifier(function), named)
        bound = {k: Jsonb(v) if isinstance(v, dict) else v for k, v in arguments.items()}
        return self.conn.execute(query, bound).fetchall()

    def value(self, function: str, /, **arguments: Any) -> Any:
        """Call a function that gives one row, and give its only column or the row."""
        [row] = self.rows(function, **arguments)
        return row[0] if len(row) == 1 else row

    def one(self, query: str, parameters: Sequence[Any] = ()) -> Any:
        """Run a query for one value."""
        row = self.conn.execute(query.encode(), parameters).fetchone()
        assert row is not None
        return row[0] if len(row) == 1 else row

    def submit(self, task_type: str = "work", payload: Any = None, **options: Any) -> uuid.UUID:
        """Submit one task and give its id."""
        row = self.value(
            "submit_task", task_type=task_type, payload=Jsonb(payload or {}), **options
        )
        return uuid.UUID(str(row[1]))

    def many(self, count: int, task_type: str = "work", **options: Any) -> list[uuid.UUID]:
        """Submit tasks that are alike and give their ids."""
        payloads = [json.dumps({"n": n}) for n in range(count)]
        return list(self.value("submit_batch", task_type=task_type, payloads=payloads, **options))

    def claim(
        self,
        limit: int = 1,
        *,
        queues: Sequence[str] = ("default",),
        worker: uuid.UUID | None = None,
        **options: Any,
    ) -> Claim:
        """Claim for a worker, by default the one of this object."""
        worker = worker or self.worker
        lease_id, tasks, cursor = self.value(
            "claim_tasks", worker_id=worker, queues=list(queues), limit=limit, **options
        )
        return Claim(worker, lease_id, json.loads(tasks) if tasks else [], cursor)

    def finish(
        self,
        claim: Claim,
        results: dict[uuid.UUID, Any] | None = None,
        failures: Sequence[Document] = (),
        **options: Any,
    ) -> list[uuid.UUID]:
        """Finish tasks of a claim: results by id, all of them by default; give the stale ids."""
        if results is None:
            results = {} if failures else dict.fromkeys(claim.ids)
        options.setdefault("worker_id", claim.worker)
        return list(
            self.value(
                "finish_tasks",
                lease_id=claim.lease_id,
                task_ids=list(results),
                results=[json.dumps(result) for result in results.values()],
                failures=json.dumps(list(failures), default=str) if failures else None,
                **options,
            )
        )

    def swap(self, claim: Claim, limit: int, count: int | None = None) -> Claim:
        """Finish the first tasks of a claim (all by default) and claim, in one call."""
        done = claim.ids[:count]
        stale, lease_id, tasks, cursor = self.value(
            "finish_and_claim",
            worker_id=claim.worker,
            lease_id=claim.lease_id,
            task_ids=done,
            results=[None] * len(done),
            started_us=None,
            took_us=None,
            failures=None,
            queues=["default"],
            limit=limit,
            cursor=claim.cursor,
        )
        assert not stale
        return Claim(claim.worker, lease_id, json.loads(tasks) if tasks else [], cursor)

    def running(self) -> int:
        """Count the tasks that are in leases."""
        return int(self.one("select coalesce(sum(cardinality(ids)), 0) from skiplane.lease"))

    def fail(self, claim: Claim, kind: str = "error", **fields: Any) -> list[uuid.UUID]:
        """Finish all tasks of a claim with one kind of failure."""
        return self.finish(
            claim, failures=[{"task_id": i, "kind": kind, **fields} for i in claim.ids]
        )

    def get(self, task_id: uuid.UUID) -> Document:
        """Give a task's document."""
        document = self.value("get_task", task_id=task_id)
        assert isinstance(document, dict)
        return document

    def status(self, task_id: uuid.UUID) -> str:
        """Give a task's state."""
        return str(self.get(task_id)["status"])

    def places(self, task_id: uuid.UUID) -> list[str]:
        """Name the tables in which a task is; there must always be exactly one."""
        found = self.conn.execute(
            "select 'timer' from skiplane.timer where id = %(id)s"
            " union all select 'timer_far' from skiplane.timer_far where id = %(id)s"
            " union all select 'blocked' from skiplane.blocked where id = %(id)s"
            " union all select 'ready' from skiplane.ready where id = %(id)s"
            " union all select 'lease' from skiplane.lease, unnest(ids) u (id) where u.id = %(id)s"
            " union all select 'outcome' from skiplane.outcome where id = %(id)s",
            {"id": task_id},
        )
        return [row[0] for row in found]

    def count_ends(self) -> None:
        """Let half a minute pass and count what has ended in it; the rollup must have begun."""
        self.skip(30)
        while self.value("refresh_rollup") < 0.5:
            pass

    def skip(self, seconds: float) -> None:
        """Move the engine's clock of this session on; it stands still from then on."""
        self.conn.execute(
            "select set_config('skiplane.now',"
            " (skiplane.clock() + make_interval(secs => %s))::text, false)",
            [seconds],
        )


@contextlib.contextmanager
def refused(
    conn: Connection, sqlstate: str, column: str | None = None, detail: str | None = None
) -> Iterator[pytest.ExceptionInfo[psycopg.Error]]:
    """Expect a refusal that names field, value and remedy, and roll back what led to it."""
    with pytest.raises(psycopg.Error) as caught, conn.transaction():
        yield caught
    error = caught.value
    assert error.sqlstate == sqlstate, error
    if sqlstate.startswith("SK"):
        assert error.diag.message_hint
    if column is not None:
        assert error.diag.column_name == column, error
    if detail is not None:
        assert (error.diag.message_detail or "") == detail, error

"""All verbs in random order never lose, double or hide a task."""

from collections.abc import Iterator

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import precondition, rule, run_state_machine_as_test

from skiplane.tests.support.engine import Engine

from .machine import CHANGES, ENDED, PICK, EngineMachine

BOUNDED = settings(
    max_examples=25,
    stateful_step_count=40,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)


class AllVerbs(EngineMachine):
    """What operators and the scheduler do, besides what producers and workers do."""

    @precondition(lambda self: self.model.tasks)
    @rule(number=PICK)
    def cancel(self, number: int) -> None:
        self.tick()
        task_id = self.pick(number)
        task = self.model.tasks[task_id]
        code, _ = self.refusal("cancel_task", task_id=task_id)
        assert code == ("SK003" if task.status in ENDED else None)
        if code is None:
            if task.status == "RUNNING":
                self.model.leave(self.model.lease_of(task_id), task_id)
            task.status, task.due = "CANCELLED", None

    @precondition(lambda self: self.model.tasks)
    @rule(number=PICK, changes=CHANGES, stale=PICK)
    def edit(self, number: int, changes: dict[str, object], stale: int) -> None:
        now = self.tick()
        task_id = self.pick(number)
        task = self.model.tasks[task_id]
        version = task.version if stale % 5 else task.version + 1
        code, _ = self.refusal("edit_task", task_id=task_id, version=version, changes=changes)
        if task.status not in ("SCHEDULED", "PENDING", "RETRYING"):
            assert code == "SK003"
        elif version != task.version:
            assert code == "SK005"
        else:
            assert code == self.model.edit(task, changes, now)

    @precondition(lambda self: self.model.tasks)
    @rule(number=PICK)
    def retry(self, number: int) -> None:
        now = self.tick()
        task_id = self.pick(number)
        task = self.model.tasks[task_id]
        code, _ = self.refusal("retry_task", task_id=task_id)
        assert code == (None if task.status in ("FAILED", "CANCELLED", "DEAD") else "SK003")
        if code is None:
            task.status, task.attempt, task.letter = "PENDING", 0, False
            task.ends.clear()
            if task.expires_at is not None and task.expires_at <= now:
                task.expires_at = None

    @precondition(lambda self: any(task.letter for task in self.model.tasks.values()))
    @rule(number=PICK)
    def discard(self, number: int) -> None:
        self.tick()
        letters = [i for i, task in self.model.tasks.items() if task.letter]
        task_id = letters[number % len(letters)]
        assert self.engine.value("discard_dead_letter", task_id=task_id)["status"] == "DEAD"
        self.model.tasks[task_id].letter = False

    @rule(full=PICK)
    def promote(self, full: int) -> None:
        now = self.tick()
        promoted, _, self.after["promote"] = self.engine.value(
            "promote_tasks", after=self.after["promote"] if full % 4 else None
        )
        due = [t for t in self.model.tasks.values() if t.due is not None and t.due <= now]
        assert promoted == len(due)
        for task in due:
            task.status, task.due = "PENDING", None

    @rule(full=PICK)
    def sweep(self, full: int) -> None:
        now = self.tick()
        returned, self.after["sweep"] = self.engine.value(
            "sweep_leases", after=self.after["sweep"] if full % 4 else None
        )
        assert returned == self.model.sweep(now)

    @rule()
    def expire(self) -> None:
        now = self.tick()
        expired = [
            task
            for task in self.model.tasks.values()
            if task.status == "PENDING" and task.expires_at and task.expires_at <= now
        ]
        assert self.engine.value("expire_tasks") == len(expired)
        for task in expired:
            task.status = "FAILED"


@pytest.fixture
def producer(dsn: str) -> Iterator[Engine]:
    """A second session, which may keep a transaction open."""
    with psycopg.connect(dsn, autocommit=True) as conn:
        yield Engine(conn)


def test_no_order_of_verbs_loses_doubles_or_hides_a_task(
    conn: psycopg.Connection[tuple[object, ...]], producer: Engine
):
    class Machine(AllVerbs):
        """The machine on the database of this test."""

    Machine.engine = Engine(conn)
    Machine.producer = producer
    run_state_machine_as_test(Machine, settings=BOUNDED)

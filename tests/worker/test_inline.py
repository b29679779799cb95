"""A worker inside the test's own process."""

import asyncio
import contextlib
from time import monotonic

import pytest

from skiplane.tests.support import wait_until_async
from skiplane.tests.worker.helpers import Tasks
from skiplane.worker.inline import run_until_idle
from skiplane.worker.registry import Registry, TaskDefinition


class App:
    """As much of an app as a worker needs."""

    def __init__(self) -> None:
        self.registry = Registry()
        self.seen: list[int] = []
        self.registry.add(TaskDefinition(name="note", function=self.note, mode="async"))
        self.registry.add(TaskDefinition(name="nap", function=self.nap, mode="async"))
        self.registry.add(TaskDefinition(name="plain", function=self.plain, mode="process"))

    async def note(self, n: int) -> int:
        self.seen.append(n)
        return n

    async def nap(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def plain(self, n: int) -> int:
        self.seen.append(n)
        return n


async def test_it_runs_what_is_there_and_returns(dsn: str, tasks: Tasks):
    app = App()
    ids = [tasks.submit("note", {"n": n}) for n in range(30)]
    ids += [tasks.submit("plain", {"n": n}) for n in range(30, 40)]
    await run_until_idle(app, dsn)
    assert sorted(app.seen) == list(range(40))
    assert {tasks.status(task_id) for task_id in ids} == {"SUCCEEDED"}
    await run_until_idle(app, dsn)  # nothing there: it returns too
    assert tasks.scalar("select count(*) from skiplane.worker") == 0


async def test_tasks_run_side_by_side_up_to_the_limit(dsn: str, tasks: Tasks):
    for _ in range(10):
        tasks.submit("nap", {"seconds": 1})
    began = monotonic()
    await run_until_idle(App(), dsn, concurrency=5)
    assert 2 <= monotonic() - began < 9


async def test_only_named_types_and_queues_are_taken(dsn: str, tasks: Tasks):
    app = App()
    taken = tasks.submit("note", {"n": 1}, queue="mail")
    other_type = tasks.submit("nap", {"seconds": 0}, queue="mail")
    other_queue = tasks.submit("note", {"n": 2})
    await run_until_idle(app, dsn, queues=["mail"], task_types=["note"])
    states = [tasks.status(task_id) for task_id in (taken, other_type, other_queue)]
    assert states == ["SUCCEEDED", "PENDING", "PENDING"]


async def test_cancelled_it_hands_back_what_runs(dsn: str, tasks: Tasks):
    task_id = tasks.submit("nap", {"seconds": 1000})
    running = asyncio.ensure_future(run_until_idle(App(), dsn, grace_seconds=0.1))
    await wait_until_async(lambda: tasks.status(task_id) == "RUNNING")
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
    task = tasks.get(task_id)
    assert (task["status"], task["attempt"]) == ("PENDING", 0)


def test_a_name_is_given_once():
    app = App()
    with pytest.raises(ValueError, match="defined twice"):
        app.registry.add(TaskDefinition(name="note", function=app.note, mode="async"))
    with pytest.raises(ValueError, match="no async function"):
        app.registry.add(TaskDefinition(name="other", function=app.plain, mode="async"))

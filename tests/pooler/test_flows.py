"""Schedules and workflows behind a pooler, where no session lasts."""

import asyncio
from pathlib import Path

import pytest

from skiplane import Skiplane
from skiplane.schema.workflow_records import WorkflowStatus
from skiplane.tests.cron.test_schedulers import LOST, TWICE
from skiplane.tests.scheduler.helpers import running_scheduler
from skiplane.tests.support import wait_until
from skiplane.tests.worker.helpers import Tasks, running_worker

from .pgbouncer import Pooler
from .test_pooler import check_sessions, pooler, tasks

__all__ = ["pooler", "tasks"]


async def submit_flows(app: Skiplane) -> tuple[dict[WorkflowStatus, int], list[int]]:
    """Submit workflows by every door; cancel one and retry it; give all ends and a result."""
    made = []
    for number in range(10):
        flow = app.workflow("diamond")
        first = flow.task("echo", {"value": number}, name="first")
        sides = [flow.task("sync_echo", {"value": n}, after=first) for n in range(3)]
        flow.task("echo", {"value": number}, name="last", after=sides)
        made.append(flow)
    keys = [f"flow-{number}" for number in range(10)]
    calls = [app.submit_workflows(made, idempotency_keys=keys) for _ in range(2)]
    many, again = await asyncio.gather(*calls)
    assert many == again
    alone = await asyncio.gather(*(flow.submit() for flow in made))
    slow = app.workflow("slow")
    slow.task("echo", {"value": 1}, name="end", after=slow.task("sleep", {"seconds": 600}))
    stopped = await slow.submit()
    await stopped.cancel("enough")
    failing = app.workflow("failing")
    failing.task("echo", {"value": 1}, after=failing.task("fail", {"name": "KeyError"}))
    failed = await failing.submit()
    ends = [await one.wait(timeout=60) for one in [*many, *alone, stopped, failed]]
    record = await failed.retry()
    assert [action.verb for action in record.actions] == ["retry"]
    await failed.wait(timeout=60)
    statuses = [end.status for end in ends]
    results = [(await one.results())["last"] for one in alone]
    return {status: statuses.count(status) for status in statuses}, results


@pytest.mark.timeout(150)
def test_schedules_and_workflows_leave_nothing_on_shared_sessions(
    pooler: Pooler, tasks: Tasks, tmp_path: Path
):
    """Two schedulers, of which neither can hold anything on a session, fire each second once."""
    with (
        running_scheduler(pooler.dsn, tmp_path) as first,
        running_scheduler(pooler.dsn, tmp_path) as second,
        running_worker(pooler.dsn, tmp_path, "--concurrency", "4") as worker,
        Skiplane(pooler.dsn, prepare=pooler.prepares or None) as app,
    ):
        for number in range(10):
            app.schedule(
                f"s{number}", "* * * * * *", "echo", {"value": number}, overlap_policy="queue"
            )
        assert {one.change for one in app.cron.sync_sync("pooled")} == {"create"}
        ends, results = asyncio.run(in_a_loop(pooler))
        assert ends == {"SUCCEEDED": 20, "CANCELLED": 1, "FAILED": 1}
        assert results == list(range(10))
        fired = "select min(n) from (select count(*) from skiplane.fire group by schedule_id) x (n)"
        wait_until(lambda: (tasks.scalar(fired) or 0) >= 4, 60, "each schedule to fire")
        for schedule in app.cron.list_sync():
            app.cron.pause_sync(schedule.cron_id)
        left = "select count(*) from skiplane.schedule_queue"
        wait_until(lambda: tasks.scalar(left) == 0, 60, "queued tasks to run")
        assert tasks.conn.execute(TWICE.encode()).fetchall() == []
        assert tasks.conn.execute(LOST.encode()).fetchall() == []
        for scheduler in (first, second):
            assert not scheduler.lines("a turn of a loop failed")
            assert scheduler.stop()[0] == 0
        assert not worker.lines("a loop failed")
        assert worker.stop() == 0
    check_sessions(pooler)


async def in_a_loop(pooler: Pooler) -> tuple[dict[WorkflowStatus, int], list[int]]:
    async with Skiplane(pooler.dsn, prepare=pooler.prepares or None) as app:
        return await submit_flows(app)

"""The test helpers."""

import asyncio
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from skiplane import Context, InvalidInput, Postpone, Retry, Skiplane, Status, SyncContext
from skiplane.schema.errors import SkiplaneError
from skiplane.testing import FakeAttempt, drain, run_task, run_task_sync, travel, travel_async
from skiplane.worker.outcome import ResultNotStorable

offline = Skiplane("dbname=nowhere")


@offline.task("look")
async def look(ctx: Context, day: datetime) -> dict[str, Any]:
    await ctx.checkpoint({"day": day})
    await ctx.progress(0.5, "half")
    return {"day": day, "attempt": ctx.attempt, "tenant": ctx.tenant_id, **ctx.metadata}


@offline.task("plain")
def plain(ctx: SyncContext, n: int) -> Any:
    ctx.checkpoint([n, *(ctx.last_checkpoint or [])])
    return None if ctx.cancelled else n


@offline.task("bad")
async def bad() -> Any:
    return object()


async def test_a_task_runs_without_a_database() -> None:
    attempt = FakeAttempt(attempt=3, metadata={"a": 1}, tenant_id="acme")
    day = datetime(2026, 7, 1, tzinfo=UTC)
    assert await run_task(look, day, ctx=attempt) == {
        "day": day,
        "attempt": 3,
        "tenant": "acme",
        "a": 1,
    }
    assert attempt.checkpoints == [{"day": "2026-07-01T00:00:00Z"}]  # as it would come back
    assert attempt.reports == [(0.5, "half")]


def test_a_plain_task_runs_too() -> None:
    attempt = FakeAttempt(checkpoint=[1])
    assert run_task_sync(plain, 2, ctx=attempt) == 2
    assert attempt.checkpoints == [[2, 1]]
    assert run_task_sync(plain, 2, ctx=FakeAttempt(cancelled=True)) is None


async def test_what_would_be_refused_in_earnest_is_refused_here() -> None:
    with pytest.raises(InvalidInput, match="n"):
        await run_task(plain, "two")
    with pytest.raises(ResultNotStorable):
        await run_task(bad)


async def test_a_transaction_needs_a_connection(aconn: psycopg.AsyncConnection) -> None:
    @offline.task("write")
    async def write(ctx: Context, n: int) -> None:
        async with ctx.transaction() as connection:
            await connection.execute("insert into t values (%s)", [n])
            ctx.set_result({"n": n})
            if n < 0:
                raise ValueError("no debts")

    with pytest.raises(SkiplaneError, match="FakeAttempt"):
        await run_task(write, 1)
    await aconn.execute("create temp table t (n int)")
    attempt = FakeAttempt(connection=aconn)
    await run_task(write, 1, ctx=attempt)
    with pytest.raises(ValueError, match="no debts"):
        await run_task(write, -1, ctx=FakeAttempt(connection=aconn))
    assert attempt.result == {"n": 1}
    assert attempt.recorded
    assert await (await aconn.execute("select n from t")).fetchall() == [(1,)]


async def test_drain_runs_what_is_ready_and_what_that_makes_ready(app: Skiplane) -> None:
    @app.task("down", queue="q")
    async def down(n: int) -> int:
        if n:
            await down.submit(n - 1)
        return n

    first = await down.submit(3)
    ran = await drain(app)
    assert [task.result for task in ran] == [3, 2, 1, 0]
    assert ran[0].task_id == first.id
    assert all(task.status is Status.SUCCEEDED for task in ran)
    assert await drain(app) == []


async def test_drain_runs_every_mode_in_this_process(app: Skiplane) -> None:
    @app.task("process")
    def process() -> int:
        return threading.get_native_id()

    @app.task("thread", mode="thread")
    def thread(ctx: SyncContext) -> None:
        ctx.checkpoint({"a": 1})
        raise RuntimeError

    await process.submit()
    await thread.submit()
    ran = {task.task_type: task for task in await drain(app)}
    assert ran["process"].status is Status.SUCCEEDED
    assert ran["thread"].status is Status.RETRYING
    assert ran["thread"].checkpoint == {"a": 1}


async def test_drain_leaves_other_queues_and_types_alone(app: Skiplane) -> None:
    @app.task("mine", queue="q")
    async def mine() -> None: ...

    other = await app.submit("theirs", queue="q")
    await mine.options(queue="elsewhere").submit()
    await mine.submit()
    assert len(await drain(app)) == 1
    assert await other.status() is Status.PENDING
    assert len(await drain(app, ["elsewhere"])) == 1


async def test_drain_can_look_ahead(app: Skiplane) -> None:
    @app.task("later")
    async def later(ctx: Context) -> int:
        if ctx.attempt == 1:
            raise Retry(after=600)
        return ctx.attempt

    handle = await later.options(delay=timedelta(hours=1)).submit()
    assert await drain(app) == []
    assert [task.status for task in await drain(app, ahead=3600)] == [Status.RETRYING]
    assert [task.status for task in await drain(app, ahead=timedelta(hours=2))] == [
        Status.SUCCEEDED
    ]
    assert await handle.result(timeout=30) == 2


async def test_a_postponed_task_is_not_charged(app: Skiplane) -> None:
    @app.task("wait", max_retries=0)
    async def wait(ctx: Context) -> str:
        if ctx.fence == 1:
            raise Postpone(delay=60)
        return "done"

    handle = await wait.submit()
    await drain(app)
    assert not (await handle.status()).final
    await drain(app, ahead=120)
    assert (await handle.get()).status in (Status.SUCCEEDED, Status.SCHEDULED)


async def test_drain_stops_a_late_async_task(app: Skiplane) -> None:
    @app.task("slow", timeout=0.05, max_retries=0)
    async def slow() -> None:
        await asyncio.sleep(60)

    await slow.submit()
    [task] = await drain(app)
    assert (task.status, task.error_type) == (Status.DEAD, "TimeoutError")


async def test_drain_ends_a_series_without_an_end(app: Skiplane) -> None:
    @app.task("again")
    async def again() -> None:
        await again.submit()

    await again.submit()
    with pytest.raises(SkiplaneError, match="limit"):
        await drain(app, limit=10)


async def test_the_clock_of_a_connection_can_be_set(
    conn: psycopg.Connection, aconn: psycopg.AsyncConnection
) -> None:
    when = datetime(2030, 1, 1, tzinfo=UTC)
    travel(conn, when)
    assert conn.execute("select skiplane.clock()").fetchone() == (when,)
    travel(conn, None)
    await travel_async(aconn, timedelta(days=2))
    row = await (await aconn.execute("select skiplane.clock() - now()")).fetchone()
    assert row is not None
    assert abs(row[0] - timedelta(days=2)) < timedelta(minutes=1)
    row = conn.execute("select skiplane.clock() - now()").fetchone()
    assert row is not None
    assert abs(row[0]) < timedelta(minutes=1)


async def test_work_submitted_in_the_future_is_dated_there(
    app: Skiplane, conn: psycopg.Connection
) -> None:
    when = datetime.now(UTC) + timedelta(days=2)
    travel(conn, when)
    handle = app.submit_sync("a", connection=conn)
    assert (await handle.get()).created_at == when

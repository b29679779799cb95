"""The scheduler process: how it starts, what it survives, how it ends."""

import asyncio
import signal
import time
from pathlib import Path
from typing import Any, ClassVar

import psycopg
import pytest

from skiplane.scheduler import process
from skiplane.scheduler.loop import Loop
from skiplane.scheduler.process import Scheduler
from skiplane.tests.scheduler.helpers import running_scheduler
from skiplane.tests.support import Databases, wait_until, wait_until_async
from skiplane.tests.support.engine import Engine
from skiplane.tests.worker.proxy import proxy_before

Connection = psycopg.Connection[tuple[Any, ...]]


def submit_soon(engine: Engine) -> str:
    return str(engine.rows("submit_task", task_type="t", delay_seconds=0.1)[0][1])


def wait_pending(engine: Engine, task_id: str, timeout: float = 60) -> None:
    query = "select skiplane.get_task(%s::uuid) ->> 'status'"
    wait_until(lambda: engine.one(query, [task_id]) == "PENDING", timeout, "the task to be due")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_stops_it_within_a_second(dsn: str, tmp_path: Path, number: signal.Signals):
    with running_scheduler(dsn, tmp_path) as scheduler:
        code, seconds = scheduler.stop(number)
        assert code == 0
        assert seconds < 1
        assert scheduler.lines("scheduler stopped")


def test_signal_stops_one_that_waits_for_the_database(dsn: str, tmp_path: Path):
    with proxy_before(dsn) as proxy:
        proxy.cut()
        with running_scheduler(proxy.dsn, tmp_path, ready=False) as scheduler:
            scheduler.wait_for("the database is away")
            code, seconds = scheduler.stop()
            assert code == 0
            assert seconds < 1


def test_signal_stops_one_whose_statement_hangs(dsn: str, conn: Connection, tmp_path: Path):
    with running_scheduler(dsn, tmp_path) as scheduler, conn.transaction():
        # No SKIP LOCKED helps against this one.
        conn.execute("lock table skiplane.watermark in access exclusive mode")
        wait_until(
            lambda: conn.execute("select from pg_locks where not granted").fetchone() is not None,
            what="the scheduler to wait for the lock",
        )
        code, seconds = scheduler.stop()
        assert code == 0
        assert seconds < 1.2


def test_database_without_schema_is_refused_in_one_sentence(empty_dsn: str, tmp_path: Path):
    with running_scheduler(empty_dsn, tmp_path, ready=False) as scheduler:
        assert scheduler.process.wait(20) == 1
        said = scheduler.log.read_text()
        assert "run skiplane migrate" in said
        assert "Traceback" not in said


def test_it_goes_on_after_an_outage_and_says_so_once(dsn: str, conn: Connection, tmp_path: Path):
    engine = Engine(conn)
    with proxy_before(dsn) as proxy, running_scheduler(proxy.dsn, tmp_path) as scheduler:
        for number in (1, 2):
            proxy.cut()
            scheduler.wait_for("the database is away", number)
            task_id = submit_soon(engine)
            proxy.restore()
            scheduler.wait_for("the database is back", number)
            wait_pending(engine, task_id)
        assert scheduler.process.poll() is None
        assert len(scheduler.lines("the database is away")) == 2
        assert not scheduler.lines("a turn of a loop failed")


def test_killed_backends_are_replaced_without_a_flood(dsn: str, conn: Connection, tmp_path: Path):
    engine = Engine(conn)
    kill = (
        "select count(pg_terminate_backend(pid, 5000)) from pg_stat_activity"
        " where starts_with(application_name, 'skiplane scheduler')"
    )
    with running_scheduler(dsn, tmp_path) as scheduler:
        for _ in range(5):
            wait_until(lambda: engine.one(kill) > 0, what="a connection to kill")
        wait_pending(engine, submit_soon(engine))
        assert scheduler.process.poll() is None
        assert len(scheduler.log.read_text().splitlines()) < 20


def test_lost_right_is_complained_of_rarely_and_recovered_from(
    databases: Databases, dsn: str, conn: Connection, tmp_path: Path
):
    engine = Engine(conn)
    promote = "skiplane.promote_tasks(integer, timestamptz, smallint)"
    with databases.role() as role:
        conn.execute(f"grant skiplane_worker to {role.name}".encode())
        own = databases.dsn(conn.info.dbname, role)
        with running_scheduler(own, tmp_path) as scheduler:
            conn.execute(f"revoke execute on function {promote} from skiplane_worker".encode())
            failed = scheduler.wait_for("a turn of a loop failed")
            assert failed["loop"] == "promote"
            assert "permission denied" in failed["cause"]
            # The other loops go on meanwhile.
            began = time.monotonic()
            samples = "select coalesce(max(n), 0) from skiplane.watermark"
            before = engine.one(samples)
            wait_until(lambda: engine.one(samples) > before + 2)
            wait_until(lambda: time.monotonic() > began + 1)
            rarely = 1 + (time.monotonic() - began) / 10
            assert len(scheduler.lines("a turn of a loop failed")) <= rarely
            conn.execute(f"grant execute on function {promote} to skiplane_worker".encode())
            assert scheduler.wait_for("a loop works again")["loop"] == "promote"
            wait_pending(engine, submit_soon(engine))


def test_it_works_behind_a_pooler(pooled: str, conn: Connection, tmp_path: Path):
    engine = Engine(conn)
    with running_scheduler(pooled, tmp_path) as scheduler:
        for _ in range(5):
            wait_pending(engine, submit_soon(engine))
        wait_until(lambda: engine.one("select count(*) from skiplane.depth") > 0)
        assert not scheduler.lines("a turn of a loop failed")
        assert scheduler.stop()[0] == 0


def test_three_side_by_side_one_of_them_killed(dsn: str, conn: Connection, tmp_path: Path):
    engine = Engine(conn)
    with (
        running_scheduler(dsn, tmp_path) as first,
        running_scheduler(dsn, tmp_path) as second,
        running_scheduler(dsn, tmp_path) as third,
    ):
        wait_pending(engine, submit_soon(engine))
        first.process.kill()
        first.process.wait()
        wait_pending(engine, submit_soon(engine))
        for scheduler in (second, third):
            assert scheduler.stop()[0] == 0
            assert not scheduler.lines("a turn of a loop failed")


class Stuck(Loop):
    name: ClassVar[str] = "stuck"
    patience: ClassVar[float] = 0.2

    async def run_once(self) -> float:
        async with self.link.session():
            await asyncio.sleep(3600)
        return 0


class Dying(Loop):
    name: ClassVar[str] = "dying"

    async def run_once(self) -> float:
        raise asyncio.CancelledError


class Failing(Loop):
    name: ClassVar[str] = "failing"
    patience: ClassVar[float] = 0.2

    async def run_once(self) -> float:
        async with self.link.session() as conn:
            await conn.execute("select 1/0")
        return 0


@pytest.mark.parametrize("kind", [Stuck, Dying, Failing])
async def test_loop_without_progress_ends_the_process_badly(
    dsn: str, kind: type[Loop], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(process, "LOOK_SECONDS", 0.05)
    scheduler = Scheduler(dsn, 25)
    monkeypatch.setattr(scheduler, "_make_loops", lambda shards: [kind(scheduler._clock)])
    async with asyncio.timeout(20):
        assert not await scheduler.run(asyncio.Event())


def lateness(loop: Loop) -> float:
    """Give the seconds since a loop should have had its next good turn, whatever is to blame."""
    return time.monotonic() - loop._due_at


async def test_long_outage_does_not_end_the_process(dsn: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(process, "LOOK_SECONDS", 0.05)
    stop = asyncio.Event()
    with proxy_before(dsn) as proxy:
        scheduler = Scheduler(proxy.dsn, 25)
        running = asyncio.create_task(scheduler.run(stop))
        await wait_until_async(lambda: scheduler.loops)
        for loop in scheduler.loops:
            monkeypatch.setattr(loop, "patience", 0.3)
        proxy.cut()
        # Late enough for many looks, if the outage counted.
        await wait_until_async(lambda: max(map(lateness, scheduler.loops)) > 3 * 0.3)
        assert not running.done()
        restored = time.monotonic()
        proxy.restore()
        await wait_until_async(
            lambda: time.monotonic() - restored > max(map(lateness, scheduler.loops))
        )
        assert not running.done()
        stop.set()
        assert await running

"""SDK, workers and schedulers behind one pooler of five sessions, where no session lasts."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from skiplane import Skiplane
from skiplane.schema.errors import TaskCancelled
from skiplane.tests.scheduler.helpers import running_scheduler
from skiplane.tests.support import Databases, wait_until
from skiplane.tests.worker.helpers import Tasks, running_worker

from .pgbouncer import POOL_SIZE, Pooler, running_pooler

# What the pooler itself sets on the sessions that it shares out.
OWN_SETTINGS = {
    "application_name",
    "client_encoding",
    "DateStyle",
    "standard_conforming_strings",
    "TimeZone",
}
SETTINGS = """
select name from pg_settings
where source in ('session', 'client') and setting is distinct from reset_val
union all select 'skiplane.now' where current_setting('skiplane.now', true) <> ''
"""
# What a role or a database may have for the sake of web requests.
STRICT = {
    "statement_timeout": "5s",
    "lock_timeout": "1s",
    "idle_in_transaction_session_timeout": "10s",
    "default_transaction_isolation": "serializable",
}
LOCKS = "select count(*) from pg_locks where locktype = 'advisory' and pid = any(%s)"


@pytest.fixture(params=[0, 200], ids=["no prepared statements", "prepared statements"])
def pooler(request: pytest.FixtureRequest, dsn: str) -> Iterator[Pooler]:
    """A pooler before the fresh database."""
    with running_pooler(dsn, request.param) as made:
        yield made


@pytest.fixture
def tasks(conn: psycopg.Connection[tuple[Any, ...]]) -> Tasks:
    """The tasks of the fresh database, past the pooler."""
    return Tasks(conn)


async def submit_all(pooler: Pooler) -> list[str]:
    """Submit 199 tasks by every door, from several places at once, and wait for one of them."""
    async with Skiplane(pooler.dsn, prepare=pooler.prepares or None) as app:
        singles = [app.submit("echo", {"value": n}) for n in range(40)]
        later = [app.submit("echo", {"value": n}, delay=0.5) for n in range(10)]
        keyed = [
            app.submit("echo", {"value": n % 10}, idempotency_key=f"key-{n % 10}")
            for n in range(20)
        ]
        many = app.submit_many("echo", [{"value": n} for n in range(100)])
        slow = app.submit_many("sync_echo", [{"value": n} for n in range(39)])
        handles = await asyncio.gather(*singles, *later, *keyed)
        bulk = await asyncio.gather(many, slow)
        ids = [*(handle.id for handle in handles), *bulk[0], *bulk[1]]
        assert await handles[0].result(timeout=30) == 0
    return [*dict.fromkeys(map(str, ids))]


def cancel_one(dsn: str, tasks: Tasks) -> str:
    """Cancel a task while it runs."""
    with Skiplane(dsn) as app:
        handle = app.submit_sync("sleep", {"seconds": 600})
        tasks.wait(str(handle.id), "RUNNING")
        handle.cancel_sync("enough")
        with pytest.raises(TaskCancelled):
            handle.result_sync(timeout=30)
    return str(handle.id)


def check_sessions(pooler: Pooler) -> None:
    """Look at every shared session: nothing of one client may be there for the next."""
    with pooler.all_sessions() as clients:
        pids = [client.execute("select pg_backend_pid()").fetchone() for client in clients]
        assert len(set(pids)) == POOL_SIZE
        for client, pid in zip(clients, pids, strict=True):
            assert pid is not None
            assert {row[0] for row in client.execute(SETTINGS.encode())} <= OWN_SETTINGS
            assert client.execute("select pg_listening_channels()").fetchall() == []
            assert client.execute(LOCKS.encode(), [list(pid)]).fetchone() == (0,)
            isolation = client.execute("show transaction_isolation").fetchone()
            assert isolation == ("read committed",)


@pytest.mark.parametrize("direct", [True, False], ids=["listens past it", "cannot listen"])
def test_everything_works_and_leaves_nothing_on_shared_sessions(
    dsn: str, pooler: Pooler, tasks: Tasks, tmp_path: Path, direct: bool
):
    options = ["--concurrency", "4"]
    options += ["--listen-dsn", dsn] if direct else []
    options += ["--prepare"] if pooler.prepares else []
    with (
        running_scheduler(pooler.dsn, tmp_path) as scheduler,
        running_worker(pooler.dsn, tmp_path, *options) as worker,
    ):
        ids = asyncio.run(submit_all(pooler))
        assert len(ids) == 199
        cancelled = cancel_one(pooler.dsn, tasks)
        tasks.wait_all([*ids, cancelled], timeout=60)
        ends = [tasks.get(task_id) for task_id in ids]
        assert {(end["status"], end["attempt"]) for end in ends} == {("SUCCEEDED", 1)}
        assert tasks.status(cancelled) == "CANCELLED"
        # While all are connected: what belongs to a session is on none that is shared.
        assert 0 < len(pooler.server_pids()) <= POOL_SIZE
        assert tasks.scalar(LOCKS, [pooler.server_pids()]) == 0
        assert not worker.lines("a loop failed")
        assert not scheduler.lines("a turn of a loop failed")
        assert worker.stop() == 0
        assert scheduler.stop()[0] == 0
    assert tasks.scalar("select count(*) from skiplane.lease") == 0
    check_sessions(pooler)


def test_a_cancel_reaches_a_worker_that_listens_past_the_pooler(
    dsn: str, pooler: Pooler, tasks: Tasks, tmp_path: Path
):
    """Long before its heartbeat would tell it."""
    mark = tmp_path / "mark"
    options = ("--listen-dsn", dsn, "--lease-seconds", "60")
    with running_worker(pooler.dsn, tmp_path, *options), Skiplane(pooler.dsn) as app:
        handle = app.submit_sync("watch_cancel", {"mark": str(mark)})
        wait_until(mark.exists, 60, "the task to run")
        handle.cancel_sync()
        wait_until(lambda: mark.read_text() == "cancelled=True", 3, "it to be told")


def test_strict_settings_come_through_the_pooler_and_stop_nothing(
    databases: Databases, dsn: str, pooler: Pooler, tasks: Tasks, tmp_path: Path
):
    """A pooler takes no start-up options: each transaction has to say what it needs."""
    with databases.admin() as admin:
        for name, value in STRICT.items():
            admin.execute(
                sql.SQL("alter database {} set {} = {}").format(
                    sql.Identifier(tasks.conn.info.dbname), sql.Identifier(name), sql.Literal(value)
                )
            )
    with (
        running_scheduler(pooler.dsn, tmp_path) as scheduler,
        running_worker(pooler.dsn, tmp_path) as first,
        running_worker(pooler.dsn, tmp_path) as second,
    ):
        ids = asyncio.run(submit_all(pooler))
        # Longer than a statement may take.
        ids.append(tasks.submit("sleep", {"seconds": 6}))
        tasks.wait_all(ids, timeout=60)
        assert {tasks.status(task_id) for task_id in ids} == {"SUCCEEDED"}
        assert not scheduler.lines("a turn of a loop failed")
        for worker in (first, second):
            assert not worker.lines("a loop failed")
            assert worker.stop() == 0

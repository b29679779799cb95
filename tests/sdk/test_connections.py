"""The app's own connections."""

import asyncio
import json
import os
import threading
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from skiplane import NotInstalled, Skiplane, Unavailable
from skiplane.app import find_dsn
from skiplane.schema.call import Call

PID: Call[int] = Call("select pg_backend_pid()", (), lambda rows: int(rows[0][0]), True)
Connection = psycopg.Connection[tuple[Any, ...]]


def terminate_all(conn: Connection) -> None:
    conn.execute(
        "select pg_terminate_backend(pid, 5000) from pg_stat_activity"
        " where datname = current_database() and pid <> pg_backend_pid()"
    )


async def test_one_connection_serves_calls_that_follow_each_other(app: Skiplane) -> None:
    assert len({await app.run(PID) for _ in range(20)}) == 1


async def test_no_more_connections_than_the_size(dsn: str) -> None:
    slow: Call[int] = Call(
        "select pg_backend_pid() from pg_sleep(0.01)", (), lambda rows: int(rows[0][0])
    )
    async with Skiplane(dsn, pool_size=3) as app:
        pids = await asyncio.gather(*(app.run(slow) for _ in range(30)))
    assert len(set(pids)) == 3


async def test_a_submission_is_one_round_trip(app: Skiplane, conn: Connection) -> None:
    await app.submit("a")
    async with app.pool().connection() as mine:
        pid = mine.info.backend_pid
        cursor = await mine.execute(
            "select name from pg_prepared_statements where statement like '%submit_task%'"
        )
        assert await cursor.fetchall()
    await app.submit("a")
    # No "begin", "commit" or check around it: the last statement is the submission itself.
    row = conn.execute("select query from pg_stat_activity where pid = %s", [pid]).fetchone()
    assert row is not None
    assert "skiplane.submit_task" in row[0]


async def test_connections_that_the_server_closed_are_not_used(
    app: Skiplane, conn: Connection
) -> None:
    first = await app.run(PID)
    await asyncio.to_thread(app.run_sync, PID)
    terminate_all(conn)
    assert (await app.submit("a")).submitted is not None  # not repeatable, so it had to be right
    assert await app.run(PID) != first
    await asyncio.to_thread(app.submit_sync, "a")


async def test_a_call_that_is_cancelled_leaves_a_good_connection(app: Skiplane) -> None:
    sleep: Call[None] = Call("select pg_sleep(60)", (), lambda rows: None)
    for _ in range(3):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await app.run(sleep)
        await app.submit("a")
    assert len(await app.list()) == 3


async def test_an_unreachable_server_is_named_at_once() -> None:
    app = Skiplane("host=/nonexistent dbname=x")
    with pytest.raises(Unavailable, match="nonexistent"):
        await app.submit("a")
    with pytest.raises(Unavailable):
        await app.open()
    with pytest.raises(Unavailable):
        app.submit_sync("a")


async def test_a_database_without_the_schema_says_what_to_do(empty_dsn: str) -> None:
    async with Skiplane(empty_dsn) as app:
        with pytest.raises(NotInstalled, match="skiplane migrate"):
            await app.submit("a")


def test_an_app_serves_one_event_loop_after_the_other(dsn: str) -> None:
    app = Skiplane(dsn)

    async def submit() -> None:
        await app.submit("a")

    for _ in range(3):
        asyncio.run(submit())
    with app:
        assert len(app.list_sync()) == 3


def test_an_app_serves_many_threads(dsn: str) -> None:
    with Skiplane(dsn, pool_size=2) as app:
        threads = [threading.Thread(target=app.submit_sync, args=("a",)) for _ in range(10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(app.list_sync()) == 10


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_process_has_connections_of_its_own(dsn: str) -> None:
    with Skiplane(dsn) as app:
        parent = app.run_sync(PID)
        read, write = os.pipe()
        child = os.fork()
        if child == 0:  # pragma: no cover
            try:
                os.write(write, str(app.run_sync(PID)).encode())
                app.close_sync()
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        os.close(write)
        with os.fdopen(read) as answer:
            assert int(answer.read()) != parent
        assert app.run_sync(PID) == parent


def test_a_closed_app_opens_again(dsn: str) -> None:
    app = Skiplane(dsn)
    first = app.run_sync(PID)
    app.close_sync()
    assert app.run_sync(PID) != first
    app.close_sync()


@pytest.fixture
def no_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    for name in list(os.environ):
        if name.startswith("SKIPLANE_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SKIPLANE_DATA", str(tmp_path))
    return tmp_path


def test_a_database_that_was_not_configured_is_a_clear_error(no_settings: Path) -> None:
    app = Skiplane()
    with pytest.raises(Unavailable, match=r"SKIPLANE_DSN.*skiplane up") as refusal:
        app.submit_sync("a")
    assert refusal.value.field == "dsn"


def test_the_configured_database_is_used(
    no_settings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SKIPLANE_DSN", "dbname=configured")
    assert find_dsn() == "dbname=configured"
    assert Skiplane("dbname=given").dsn == "dbname=given"


def test_a_running_up_is_found(no_settings: Path) -> None:
    endpoint = no_settings / "endpoint.json"
    endpoint.write_text(json.dumps({"dsn": "dbname=up", "pid": os.getpid()}))
    assert Skiplane().dsn == "dbname=up"


def test_what_a_crashed_up_left_behind_is_not_believed(no_settings: Path) -> None:
    endpoint = no_settings / "endpoint.json"
    child = os.fork()
    if child == 0:  # pragma: no cover
        os._exit(0)
    os.waitpid(child, 0)
    endpoint.write_text(json.dumps({"dsn": "dbname=up", "pid": child}))
    with pytest.raises(Unavailable):
        find_dsn()


async def test_a_deadlock_is_tried_again(app: Skiplane) -> None:
    tries = 0

    def fail_once(rows: Any) -> int:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise psycopg.errors.SerializationFailure
        return tries

    call: Call[int] = Call("select 1", (), fail_once)
    # The driver's error has its SQLSTATE as a class attribute.
    assert await app.run(call) == 2


async def test_the_connection_shows_who_it_is(app: Skiplane) -> None:
    name: Call[str] = Call("show application_name", (), lambda rows: str(rows[0][0]))
    assert await app.run(name) == "skiplane app"
    other = Skiplane(make_conninfo(app.dsn, application_name="shop"))
    assert await other.run(name) == "shop"
    await other.close()

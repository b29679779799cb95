"""Several schedulers side by side: nothing is fired twice, nothing is lost."""

import asyncio
import os
import signal
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest

from skiplane.scheduler.cron import Cron
from skiplane.scheduler.link import LinkLost
from skiplane.schema import cron_loop_calls as calls
from skiplane.tests.cron.helpers import at, create, fires, get, linked_at, stand, tasks, turns
from skiplane.tests.scheduler.helpers import running_scheduler
from skiplane.tests.support import wait_until
from skiplane.tests.support.engine import Engine
from skiplane.tests.support.plans import explained, rows_read, told

TWICE = """
    select schedule_id, fire_time from skiplane.fire group by 1, 2 having count(*) > 1"""
# What each schedule fired against every second between its first and its last.
LOST = """
    select schedule_id, extract(epoch from max(fire_time) - min(fire_time)) + 1, count(*)
    from skiplane.fire where outcome <> 'missed' group by 1
    having extract(epoch from max(fire_time) - min(fire_time)) + 1 <> count(*)"""


async def test_two_turns_at_once_share_what_is_due(dsn: str, engine: Engine):
    stand(engine, "2030-01-01T00:00:00")
    for n in range(100):
        create(engine, "* * * * *", f"s{n}")
    await turns(dsn, "2030-01-01T00:00:00")
    links = [linked_at(dsn, "2030-01-01T00:01:00") for _ in range(3)]
    loops = [Cron(link, [0], 0.025) for link in links]
    for loop in loops:
        loop.limit = 10
    for _ in range(12):
        await asyncio.gather(*(loop.run_once() for loop in loops))
    for link in links:
        link.abort()
    assert len(tasks(engine)) == 100
    assert engine.conn.execute(TWICE.encode()).fetchall() == []


async def test_fire_whose_scheduler_died_halfway_is_made_by_the_next(
    dsn: str, engine: Engine, monkeypatch: pytest.MonkeyPatch
):
    stand(engine, "2030-01-01T00:00:00")
    cron_id = create(engine, "* * * * *")
    await turns(dsn, "2030-01-01T00:00:00")
    whole = calls.fire_schedules

    async def killed(conn: Any, moves: list[calls.Move], shard: int) -> int:
        await whole(conn, moves, shard)
        engine.conn.execute(f"select pg_terminate_backend({conn.info.backend_pid})".encode())
        return await whole(conn, moves, shard)

    monkeypatch.setattr(calls, "fire_schedules", killed)
    with pytest.raises(LinkLost):
        await turns(dsn, "2030-01-01T00:01:00")
    assert tasks(engine) == []
    monkeypatch.undo()
    await turns(dsn, "2030-01-01T00:01:01")
    assert fires(engine, cron_id) == [at("2030-01-01T00:01")]
    assert len(tasks(engine)) == 1


async def test_locked_schedule_is_left_and_fired_later(
    dsn: str, engine: Engine, two: tuple[psycopg.Connection[Any], psycopg.Connection[Any]]
):
    stand(engine, "2030-01-01T00:00:00")
    held, free = create(engine, "* * * * *", "held"), create(engine, "* * * * *", "free")
    await turns(dsn, "2030-01-01T00:00:00")
    with two[0].transaction():
        two[0].execute("select from skiplane.schedule where id = %s for update", [held])
        await turns(dsn, "2030-01-01T00:01:00")
        assert (len(fires(engine, held)), len(fires(engine, free))) == (0, 1)
    await turns(dsn, "2030-01-01T00:01:01")
    assert fires(engine, held) == [at("2030-01-01T00:01")]


async def test_schedule_that_was_locked_when_it_was_passed_is_fired_within_seconds(
    dsn: str, engine: Engine, two: tuple[psycopg.Connection[Any], psycopg.Connection[Any]]
):
    made = engine.one("select skiplane.clock()")
    cron_id = create(engine, "0 0 1 1 *", next_fire_time=made)
    link = linked_at(dsn, None)
    loop = Cron(link, [0], 0.025)
    with two[0].transaction():
        two[0].execute("select from skiplane.schedule where id = %s for update", [cron_id])
        for _ in range(3):
            engine.value("refresh_lanes")
            await loop.run_once()
        assert fires(engine, cron_id) == []

    try:
        async with asyncio.timeout(10):
            while not fires(engine, cron_id):
                engine.value("refresh_lanes")
                await loop.sleep(await loop.run_once())
    finally:
        link.abort()


@pytest.mark.timeout(90)
def test_processes_that_stop_wake_up_and_die_fire_each_second_once(
    dsn: str, engine: Engine, tmp_path: Path
):
    ids = [create(engine, "* * * * * *", f"s{n}", overlap_policy="queue") for n in range(20)]
    with ExitStack() as stack:
        schedulers = [
            stack.enter_context(running_scheduler(dsn, tmp_path, ready=False)) for _ in range(3)
        ]

        def fired(count: int) -> bool:
            return all(len(fires(engine, cron_id)) >= count for cron_id in ids)

        wait_until(lambda: fired(2), 30, "the first fires")
        os.kill(schedulers[0].process.pid, signal.SIGSTOP)
        wait_until(lambda: fired(5), 30, "fires while one is stopped")
        os.kill(schedulers[0].process.pid, signal.SIGCONT)
        schedulers[1].process.kill()
        wait_until(lambda: fired(8), 30, "fires after one has died")
        for scheduler in (schedulers[0], schedulers[2]):
            assert scheduler.stop()[0] == 0
            assert [line for line in scheduler.lines() if line["level"] == "error"] == []
    assert engine.conn.execute(TWICE.encode()).fetchall() == []
    assert engine.conn.execute(LOST.encode()).fetchall() == []
    made = sum(len(fires(engine, cron_id)) for cron_id in ids)
    assert engine.one("select count(*) from skiplane.tasks") == made


def test_sql_schedule_is_read_within_a_second(dsn: str, engine: Engine, tmp_path: Path):
    with running_scheduler(dsn, tmp_path):
        good, bad = create(engine, "@daily"), create(engine, "60 * * * *", "bad")
        wait_until(lambda: get(engine, good)["next_fire_time"], 1)
        wait_until(lambda: get(engine, bad)["status"] == "INVALID", 1)


def test_turn_reads_as_little_among_a_hundred_thousand_schedules(databases: Any, dsn: str):
    with psycopg.connect(dsn, autocommit=True) as owner:
        name = owner.info.dbname
        owner.execute(
            "insert into skiplane.schedule (id, shard, tenant_id, name, expression, zone, status,"
            " next_fire_time, since, overlap_policy, missed_policy, missed_limit, jitter_s,"
            " task_type, payload, queue, priority, created_at)"
            " select gen_random_uuid(), 0, 'default', 's' || i, '@yearly', 'UTC', 'ACTIVE',"
            " timestamptz '2030-01-01Z' + i * interval '1 second', now(), 'skip', 'once', 10, 0,"
            " 'work', '{}', 'default', 5, now() from generate_series(1, 100000) i"
        )
    with databases.admin(name) as conn, explained(conn) as plans:
        conn.execute("set skiplane.now = '2030-01-01 00:00:03Z'")
        # The catalog is read at the first call.
        conn.execute("select skiplane.take_due_schedules()")
        plans.found.clear()
        row = conn.execute("select due::text from skiplane.take_due_schedules()").fetchone()
        assert row is not None
        assert row[0].count("@yearly") == 3
        for node, query in plans.scans():
            assert rows_read(node) <= 10, told(node, query)
        assert plans.buffers() < 300

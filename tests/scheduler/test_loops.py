"""What each loop does for tasks, one turn at a time."""

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from skiplane.scheduler import loops
from skiplane.scheduler.link import Link
from skiplane.schema import scheduler_calls as calls
from skiplane.tests.scheduler.helpers import linked
from skiplane.tests.support import wait_until_async
from skiplane.tests.support.engine import Engine

TICK = 0.025


@pytest.fixture
async def link(dsn: str) -> Any:
    async with linked(dsn) as made:
        yield made


async def turn_clock(link: Link, seconds: float) -> None:
    """Stop the engine's clock for a link, this much after the present."""
    async with link.session() as conn:
        await conn.execute(
            "select set_config('skiplane.now',"
            " (clock_timestamp() + make_interval(secs => %s))::text, false)",
            [seconds],
        )


def submit(engine: Engine, **options: Any) -> str:
    return str(engine.rows("submit_task", task_type="t", **options)[0][1])


def status(engine: Engine, task_id: str) -> str:
    return str(engine.one("select skiplane.get_task(%s::uuid) ->> 'status'", [task_id]))


async def test_due_task_is_promoted_and_one_that_is_not_due_stays(link: Link, engine: Engine):
    promote = loops.Promote(link, [0], TICK)
    due = submit(engine, delay_seconds=1)
    later = submit(engine, delay_seconds=60)
    await promote.run_once()
    assert status(engine, due) == "SCHEDULED"
    await turn_clock(link, 1)
    await promote.run_once()
    assert status(engine, due) == "PENDING"
    assert status(engine, later) == "SCHEDULED"


async def test_pause_ends_when_the_next_task_is_due(link: Link, engine: Engine):
    promote = loops.Promote(link, [0], tick=10)
    assert await promote.run_once() == 10
    submit(engine, delay_seconds=5)
    assert 3 < await promote.run_once() <= 5


async def test_sleep_until_a_task_is_due_is_exact_and_never_short(link: Link):
    promote = loops.Promote(link, [0], TICK)
    over = []
    for _ in range(20):
        began = time.perf_counter()
        await promote.sleep(0.0105)
        over.append(time.perf_counter() - began - 0.0105)
    assert min(over) >= 0
    # Other processes may take the CPU away, but not every time.
    assert sorted(over)[2] < 0.0005


async def test_full_batch_is_followed_by_the_next_at_once(
    link: Link, engine: Engine, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(loops.Promote, "limit", 2)
    promote = loops.Promote(link, [0], tick=10)
    ids = [submit(engine, delay_seconds=1) for _ in range(5)]
    await turn_clock(link, 1)
    assert await promote.run_once() == 0
    assert await promote.run_once() == 0
    await promote.run_once()
    assert {status(engine, task_id) for task_id in ids} == {"PENDING"}


async def test_task_that_commits_late_is_promoted(
    link: Link, engine: Engine, two: tuple[psycopg.Connection[Any], psycopg.Connection[Any]]
):
    promote = loops.Promote(link, [0], TICK)
    await promote.run_once()
    producer = Engine(two[0])
    with two[0].transaction():
        task_id = submit(producer, delay_seconds=0.01)
        for seconds in range(10):
            await turn_clock(link, seconds)
            await promote.run_once()
    await promote.run_once()
    assert status(engine, task_id) == "PENDING"


async def test_two_schedulers_promote_each_task_once(dsn: str, engine: Engine):
    at = datetime.now(UTC) + timedelta(seconds=0.3)
    ids = [submit(engine, scheduled_at=at) for _ in range(200)]
    async with linked(dsn) as first, linked(dsn) as second:
        both = [loops.Promote(link, [0], TICK) for link in (first, second)]
        for promote in both:
            promote.limit = 7
            promote.start()
        await wait_until_async(
            lambda: not engine.one("select count(*) from skiplane.timer"), 20, "all to be promoted"
        )
        for promote in both:
            await promote.stop(1)
    assert engine.one("select count(*) from skiplane.ready") == len(ids)


async def test_tasks_of_a_lost_worker_run_again(link: Link, engine: Engine):
    task_id = submit(engine)
    engine.value("claim_tasks", worker_id=engine.worker, queues=["default"], lease_seconds=1.0)
    leases = loops.Leases(link, [0])
    assert await leases.run_once() == leases.pause
    assert status(engine, task_id) == "RUNNING"
    engine.conn.execute("update skiplane.lease set until = clock_timestamp() - interval '1 s'")
    # There may be more of them.
    assert await leases.run_once() == 0
    assert status(engine, task_id) == "PENDING"


async def test_expired_task_fails_and_says_so(link: Link, engine: Engine):
    task_id = submit(engine, expires_at=datetime.now(UTC) + timedelta(seconds=1))
    expire = loops.Expire(link, [0])
    await expire.run_once()
    assert status(engine, task_id) == "PENDING"
    await turn_clock(link, 1)
    await expire.run_once()
    assert status(engine, task_id) == "FAILED"


async def test_idle_worker_is_woken_for_what_is_ready(
    link: Link, engine: Engine, two: tuple[psycopg.Connection[Any], psycopg.Connection[Any]]
):
    submit(engine)
    worker = two[0]
    channel = engine.one("select skiplane.queue_channel('default')")
    worker.execute(f"listen {channel}".encode())
    worker.execute("select skiplane.wait_for_work('{default}')")
    await loops.Wake(link, [0], TICK).run_once()
    assert [n.channel for n in worker.notifies(timeout=30, stop_after=1)] == [channel]


async def test_depth_is_counted_and_says_when_to_count_again(link: Link, engine: Engine):
    for _ in range(3):
        submit(engine, queue="email", priority="high")
    assert await loops.Depth(link, [0]).run_once() >= 1
    assert engine.one("select queue, priority, depth from skiplane.queues") == ("email", 10, 3)


async def test_lanes_keep_their_state_from_turn_to_turn(
    link: Link, engine: Engine, monkeypatch: pytest.MonkeyPatch
):
    seen: list[Any] = []
    real = calls.refresh_lanes

    async def spy(conn: Any, state: Any, shard: int) -> Any:
        seen.append(state)
        return await real(conn, state, shard)

    monkeypatch.setattr(calls, "refresh_lanes", spy)
    submit(engine)
    lanes = loops.Lanes(link, [0])
    for _ in range(3):
        await lanes.run_once()
    assert seen[0] is None
    assert all(state is not None for state in seen[1:])


async def test_failed_turn_of_lanes_begins_anew(link: Link, monkeypatch: pytest.MonkeyPatch):
    lanes = loops.Lanes(link, [0])
    await lanes.run_once()
    real, seen = calls.refresh_lanes, []

    async def broken(conn: Any, state: Any, shard: int) -> Any:
        raise RuntimeError("once")

    async def spy(conn: Any, state: Any, shard: int) -> Any:
        seen.append(state)
        return await real(conn, state, shard)

    monkeypatch.setattr(calls, "refresh_lanes", broken)
    with pytest.raises(RuntimeError):
        await lanes.run_once()
    monkeypatch.setattr(calls, "refresh_lanes", spy)
    await lanes.run_once()
    assert seen == [None]


async def test_partitions_are_made_ahead(link: Link, engine: Engine):
    partition = engine.one(
        "select inhrelid::regclass::text from pg_inherits"
        " where inhparent = 'skiplane.task'::regclass order by 1 desc limit 1"
    )
    engine.conn.execute(f"drop table {partition}".encode())
    assert await loops.Partitions(link).run_once() > 300
    assert engine.one("select to_regclass(%s)::text", [partition]) == partition


async def test_history_is_swept_until_nothing_is_left(
    link: Link, engine: Engine, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(loops.History, "limit", 2)
    for number in range(5):
        submit(engine, idempotency_key=f"k{number}")
    engine.conn.execute("update skiplane.idempotency set created_at = now() - interval '1 year'")
    history = loops.History(link)
    pauses = [await history.run_once() for _ in range(4)]
    assert pauses[:3] == [0.1] * 3
    assert pauses[3] > 30
    assert engine.one("select count(*) from skiplane.idempotency") == 0


async def test_shard_that_fails_does_not_hold_up_the_others(link: Link):
    visited: list[int] = []

    class Sample(loops.ShardLoop):
        name = "sample"

        async def visit(self, conn: Any, shard: int) -> float:
            visited.append(shard)
            if shard == 1:
                await conn.execute("select 1/0")
            return 1

    with pytest.raises(psycopg.errors.DivisionByZero):
        await Sample(link, [0, 1, 2]).run_once()
    assert visited == [0, 1, 2]


def test_place_of_a_sweep_is_given_up_now_and_then(monkeypatch: pytest.MonkeyPatch):
    now = 1000.0
    monkeypatch.setattr("skiplane.scheduler.loops.time.monotonic", lambda: now)
    places = loops.Places()
    place = datetime.now(UTC)
    places.set(0, place)
    assert places.get(0) == place
    now += loops.SECONDS_BETWEEN_FULL_LOOKS - 1
    places.set(0, place)
    assert places.get(0) == place
    now += 2
    assert places.get(0) is None


async def test_overflow_goes_back_when_its_queue_has_room(link: Link, engine: Engine):
    engine.many(2, queue="email~overflow", priority="low")
    loop = loops.Overflow(link, [0])
    loop.limit = 1
    assert await loop.run_once() == 0.0
    await loop.run_once()
    assert len(engine.claim(5, queues=["email"]).tasks) == 2

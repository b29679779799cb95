"""Partitions are made ahead and dropped late, and nobody is held up by either."""

import datetime
import time

import psycopg
import pytest

from skiplane.tests.partitions.looks import (
    DAY,
    PARENTS,
    at_the_same_time,
    bounds,
    covered,
    expected_bounds,
    maintain,
    today,
    until_nothing,
)
from skiplane.tests.support import wait_for_lock
from skiplane.tests.support.engine import Engine
from skiplane.tests.support.races import Racer

# Half a second for a lock, and what a busy machine adds.
PATIENCE = 5.0


def days_from(first: datetime.date, count: int) -> list[datetime.date]:
    return [first + datetime.timedelta(days=n) for n in range(count)]


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "America/New_York", "Pacific/Kiritimati"])
@pytest.mark.parametrize("hour", ["00:10", "23:50"])
def test_bounds_are_midnight_utc_in_any_session(engine: Engine, zone: str, hour: str):
    engine.conn.execute("select set_config('timezone', %s, false)", [zone])
    # The clocks of New York go back in the night to the 2nd of November 2031.
    engine.conn.execute(f"set skiplane.now = '2031-10-29 {hour}+00'".encode())
    maintain(engine, days_ahead=9)
    days = days_from(datetime.date(2031, 10, 28), 11)
    for parent in PARENTS:
        assert bounds(engine.conn, parent)[-11:] == expected_bounds(parent, days)
    late = engine.submit(scheduled_at="2031-11-02 23:59:59+00")
    early = engine.submit(scheduled_at="2031-11-03 00:00:00+00")
    found = "select relname from pg_class join skiplane.timer w on w.tableoid = oid where w.id = %s"
    assert engine.one(found, [late]) == "timer_p20311102"
    assert engine.one(found, [early]) == "timer_p20311103"


def test_open_writer_is_not_blocked_and_does_not_block(dsn: str, engine: Engine):
    with at_the_same_time(dsn, engine) as writer, writer.conn.transaction():
        writer.submit()
        writer.submit(delay_seconds=60)
        writer.finish(writer.claim())
        engine.skip(DAY)
        assert len(maintain(engine)) == len(PARENTS)
        writer.submit()
        writer.submit(delay_seconds=60)


def test_writers_go_on_while_maintenance_is_not_committed(dsn: str, engine: Engine):
    with at_the_same_time(dsn, engine) as writer, engine.conn.transaction():
        engine.skip(DAY)
        maintain(engine)
        writer.conn.execute("set lock_timeout = '2s'")
        writer.submit()
        writer.submit(delay_seconds=60)
        writer.fail(writer.claim())


def test_reader_of_old_days_puts_off_a_drop_and_no_writer_waits_long(dsn: str, engine: Engine):
    first = today(engine)
    engine.submit()
    engine.finish(engine.claim())
    engine.skip(40 * DAY)
    maintain(engine)
    with (
        at_the_same_time(dsn, engine) as reader,
        at_the_same_time(dsn, engine) as writer,
        psycopg.connect(dsn, autocommit=True) as watching,
        reader.conn.transaction(),
    ):
        reader.one("select count(*) from skiplane.task")
        reader.one("select count(*) from skiplane.timer")
        dropping = Racer(engine, "maintain_partitions").wait_for_lock(Engine(watching))
        began = time.monotonic()
        writer.submit(delay_seconds=60)
        writer.submit()
        assert time.monotonic() - began < PATIENCE
        assert dropping.rows() == []
        assert all(covered(engine, parent, first) for parent in PARENTS)
    until_nothing(engine)
    assert not any(covered(engine, parent, first) for parent in PARENTS)


def test_drop_is_all_or_nothing(dsn: str, engine: Engine):
    day = today(engine)
    done = engine.submit()
    engine.finish(engine.claim())
    engine.skip(40 * DAY)
    maintain(engine)
    with at_the_same_time(dsn, engine) as reader, reader.conn.transaction():
        # The last of the three that are dropped together.
        reader.one("select count(*) from skiplane.task")
        until_nothing(engine)
        assert engine.status(done) == "SUCCEEDED"
        assert all(covered(engine, parent, day) for parent in ("task", "outcome", "attempt"))
    until_nothing(engine)
    assert not covered(engine, "task", day)


def test_task_that_is_just_being_retried_keeps_its_day(dsn: str, engine: Engine):
    day = today(engine)
    task_id = engine.submit()
    engine.fail(engine.claim(), "permanent")
    engine.skip(40 * DAY)
    maintain(engine)
    with at_the_same_time(dsn, engine) as operator:
        with operator.conn.transaction():
            operator.value("retry_task", task_id=task_id)
            until_nothing(engine)
            assert covered(engine, "task", day)
        until_nothing(engine)
        assert engine.status(task_id) == "PENDING"
        engine.finish(engine.claim())
        until_nothing(engine)
        assert not covered(engine, "task", day)


@pytest.mark.parametrize("state", ["PENDING", "RUNNING", "RETRYING"])
def test_day_with_a_live_task_stays(engine: Engine, state: str):
    day = today(engine)
    task_id = engine.submit(retry_delay_seconds=60 * DAY, retry_max_delay_seconds=60 * DAY)
    if state != "PENDING":
        claim = engine.claim()
    if state == "RETRYING":
        engine.fail(claim)
    assert engine.status(task_id) == state
    engine.skip(40 * DAY)
    until_nothing(engine)
    assert all(covered(engine, parent, day) for parent in ("task", "outcome", "attempt"))
    assert engine.status(task_id) == state


def test_month_without_maintenance_is_caught_up(engine: Engine):
    first = today(engine)
    ids = [engine.submit(delay_seconds=n * DAY + 60) for n in range(0, 50, 5)]
    engine.skip(33 * DAY)
    said = until_nothing(engine)
    assert f"dropped task for {first - datetime.timedelta(days=1)}" in said
    # Days whose tasks still wait are kept.
    assert covered(engine, "timer", first)
    assert engine.value("promote_tasks")[0] == 7
    assert {len(engine.places(task_id)) for task_id in ids} == {1}
    until_nothing(engine)
    assert not covered(engine, "timer", first)
    assert len(engine.claim(100).tasks) == 7
    assert all(covered(engine, parent, today(engine)) for parent in PARENTS)


def test_far_rows_move_into_the_partition_of_their_day(dsn: str, engine: Engine):
    moved, locked = (engine.submit(delay_seconds=10 * DAY) for _ in range(2))
    assert engine.places(moved) == engine.places(locked) == ["timer_far"]
    with at_the_same_time(dsn, engine) as holder, holder.conn.transaction():
        holder.one("select from skiplane.timer_far where id = %s for update", [locked])
        maintain(engine, days_ahead=12)
    assert (engine.places(moved), engine.places(locked)) == (["timer"], ["timer_far"])
    engine.skip(10 * DAY)
    assert engine.value("promote_tasks")[0] == 2


def test_second_maintenance_at_once_does_nothing(dsn: str, engine: Engine):
    with at_the_same_time(dsn, engine) as other, engine.conn.transaction():
        engine.skip(3 * DAY)
        assert maintain(engine)
        other.skip(3 * DAY)
        assert maintain(other) == []


def test_lock_held_by_another_session_is_told_and_tried_again(dsn: str, engine: Engine):
    with psycopg.connect(dsn) as holder:
        holder.execute("lock table skiplane.attempt in share update exclusive mode")
        engine.skip(DAY)
        said = maintain(engine)
        day = today(engine) + datetime.timedelta(days=7)
        assert f"attempt for {day} is held up by another session; tried again later" in said
        # It comes last: no task becomes active where its history has no place.
        assert not covered(engine, "task", day)
        assert covered(engine, "timer", day)
    assert maintain(engine) == [f"made {parent} for {day}" for parent in ("attempt", "task")]


def test_submit_waits_for_maintenance_that_makes_its_day(dsn: str, engine: Engine):
    engine.skip(12 * DAY)
    with at_the_same_time(dsn, engine) as other, psycopg.connect(dsn, autocommit=True) as watcher:
        with engine.conn.transaction():
            maintain(engine)
            racer = Racer(other, "submit_task", task_type="a")
            wait_for_lock(watcher, racer.pid)
        assert engine.status(racer.result()[1]) == "PENDING"

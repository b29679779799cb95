"""pg_partman makes the partitions, where an installation has handed them to it."""

import datetime
from collections.abc import Iterator

import psycopg
import pytest

from skiplane.tests.partitions.looks import (
    DAY,
    bounds,
    covered,
    expected_bounds,
    today,
    until_nothing,
)
from skiplane.tests.support import Databases
from skiplane.tests.support.engine import Connection, Engine, refused

HANDED = ("outcome", "attempt", "task")
ONE = datetime.timedelta(days=1)


@pytest.fixture
def admin(databases: Databases, conn: Connection) -> Iterator[Connection]:
    """A superuser in the same database, with pg_partman."""
    with databases.admin(conn.info.dbname) as admin:
        if not admin.execute(
            "select from pg_available_extensions where name = 'pg_partman'"
        ).fetchall():
            pytest.skip("pg_partman is not on this server (Debian: postgresql-15-partman)")
        admin.execute("create schema partman")
        admin.execute("create extension pg_partman schema partman")
        yield admin


def run_partman(admin: Connection, days_ahead: int) -> None:
    """Let pg_partman prepare so many days, as its background worker does."""
    admin.execute("update partman.part_config set premake = %s", [days_ahead])
    admin.execute("select partman.run_maintenance()")


def hand_over(admin: Connection) -> None:
    """Hand the tables over."""
    said = [row[0] for row in admin.execute("select skiplane.use_partman()")]
    assert said == [f"{parent} is maintained by pg_partman" for parent in HANDED]


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "America/New_York"])
def test_it_makes_the_partitions_that_we_would_make(admin: Connection, engine: Engine, zone: str):
    admin.execute("select set_config('timezone', %s, false)", [zone])
    hand_over(admin)
    engine.conn.execute("reset skiplane.now")
    run_partman(admin, 12)
    for parent in HANDED:
        first = today(engine) - 7 * ONE
        made = bounds(engine.conn, parent)
        assert made == expected_bounds(parent, [first + n * ONE for n in range(len(made))])
        # It rounds its count of days by the noon of its session.
        assert abs(len(made) - (7 + 1 + 12)) <= 1
    assert admin.execute("select skiplane.use_partman()").fetchall() == []


def test_only_it_makes_partitions_from_then_on(admin: Connection, engine: Engine):
    hand_over(admin)
    engine.skip(3 * DAY)
    until_nothing(engine)
    ahead = today(engine) + 6 * ONE
    assert not any(covered(engine, parent, ahead) for parent in HANDED)
    # It would not move in what waits far away.
    assert covered(engine, "timer", ahead)


def test_dropping_stays_with_us(admin: Connection, engine: Engine):
    first = today(engine)
    done, waits = engine.submit(), engine.submit(delay_seconds=5 * DAY)
    engine.finish(engine.claim())
    hand_over(admin)
    assert engine.status(done) == "SUCCEEDED"
    assert engine.places(waits) == ["timer"]
    # Its own clock cannot be moved: what it has made for the coming days must stay.
    engine.skip(31 * DAY)
    said = until_nothing(engine)
    assert f"dropped task for {first}" in said
    assert f"dropped timer for {first + 5 * ONE}" not in said
    assert engine.status(waits) == "SCHEDULED"
    run_partman(admin, 9)
    assert engine.value("promote_tasks")[0] == 1


def test_day_that_it_missed_is_made_by_a_submit_and_it_goes_on(admin: Connection, engine: Engine):
    hand_over(admin)
    # Its clock cannot be moved: it has made 7 days, and this is 9 days ahead.
    engine.skip(9 * DAY)
    engine.submit()
    day = today(engine)
    run_partman(admin, 11)
    for parent in HANDED:
        assert covered(engine, parent, day)
        assert covered(engine, parent, day + ONE)


def test_without_the_extension_it_is_refused(conn: Connection):
    with refused(conn, "SK003", "pg_partman"):
        conn.execute("select skiplane.use_partman()")


def test_owner_without_rights_in_its_schema_gets_them(admin: Connection, conn: Connection):
    hand_over(admin)
    with psycopg.connect(conn.info.dsn) as owner:
        pattern = owner.execute("select skiplane._partman_pattern('task')").fetchone()
    assert pattern not in (None, (None,))

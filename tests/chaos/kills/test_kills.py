"""Everything is killed at random, and nothing is lost, done twice or left behind."""

import os
import random
import signal
from pathlib import Path
from typing import Any

import psycopg
import pytest

from skiplane.tests.chaos.kills.fleet import Fleet, running_fleet
from skiplane.tests.chaos.kills.invariants import EMPTY, broken_rules, misplaced, summary
from skiplane.tests.chaos.kills.limits import exceeded, leaked, set_limits
from skiplane.tests.support import wait_until

Connection = psycopg.Connection[tuple[Any, ...]]
pytestmark = pytest.mark.xdist_group("chaos")

SECONDS = float(os.environ.get("SKIPLANE_CHAOS_SECONDS", "300"))
SEED = int(os.environ.get("SKIPLANE_CHAOS_SEED", "0")) or random.randrange(1, 10**6)


def kill_and_look(
    folder: Path, seconds: float, lease: float, pause: tuple[float, float], *, limited: bool = False
):
    with running_fleet(folder, SEED) as fleet:
        if limited:
            with psycopg.connect(fleet.server.dsn(), autocommit=True) as conn:
                set_limits(conn)
        fleet.fill(lease)
        fleet.rage(seconds, pause, lambda: look(fleet))
        fleet.calm()
        codes = {member.name: member.stop() for member in fleet.producers}
        # One that has only just been started does not listen to the signal yet.
        assert set(codes.values()) <= {0, -signal.SIGTERM}, f"{codes}, see {folder}"
        with psycopg.connect(fleet.server.dsn(), autocommit=True) as conn:
            wait_for_end(conn, fleet, 60 + seconds / 5)
            codes = {member.name: member.stop() for member in fleet.workers}
            # A lane is closed after it has been idle for 10 s.
            wait_until(lambda: count(conn, "lane") == 0, 40, "all lanes to be dropped")
            assert count(conn, "lane_mark") == 0
            codes |= {member.name: member.stop() for member in fleet.schedulers}
            print("\n".join(summary(conn, fleet.kills)), f"\nseed {SEED}")
            broken = broken_rules(conn, folder)
            assert not leaked(conn), f"seed {SEED}, see {folder}"
        assert not broken, f"seed {SEED}, see {folder}: {broken}"
        assert set(codes.values()) == {0}, f"{codes}, see {folder}"
        surprises = {m.name: m.surprises for m in fleet.members if m.surprises}
        assert not surprises, f"ended though nobody had killed them: {surprises}, see {folder}"
        assert min(fleet.kills.values()) > 0


def look(fleet: Fleet) -> None:
    found = misplaced(fleet.server.dsn()) + exceeded(fleet.server.dsn())
    assert not found, f"seed {SEED}, see {fleet.folder}: {found}"


def count(conn: Connection, table: str) -> int:
    row = conn.execute(f"select count(*) from skiplane.{table}".encode()).fetchone()
    assert row is not None
    return int(row[0])


def wait_for_end(conn: Connection, fleet: Fleet, timeout: float) -> None:
    conn.execute("select skiplane.pause_cron_task(cron_id) from skiplane.cron_tasks")
    # Their producer was killed between submitting and cancelling.
    conn.execute(
        "select skiplane.cancel_task(id) from skiplane.timer_far"
        " where not metadata ? 'cron_id' or metadata is null"
    )

    def left() -> dict[str, int]:
        return {table: rows for table in EMPTY if (rows := count(conn, table))}

    try:
        wait_until(lambda: not left(), timeout)
    except AssertionError:
        pytest.fail(f"after {timeout} s there is still {left()}: seed {SEED}, see {fleet.folder}")


@pytest.mark.timeout(240)
def test_kills_lose_nothing_and_do_nothing_twice(tmp_path: Path):
    kill_and_look(tmp_path, seconds=20, lease=3, pause=(0.8, 1.8))


@pytest.mark.timeout(300)
def test_kills_leak_no_place_of_a_limit_and_double_none(tmp_path: Path):
    kill_and_look(tmp_path, seconds=20, lease=3, pause=(0.8, 1.8), limited=True)


@pytest.mark.long
@pytest.mark.timeout(int(SECONDS * 1.5) + 300)
@pytest.mark.parametrize("limited", [False, True], ids=["free", "limited"])
def test_minutes_of_kills_lose_nothing_and_do_nothing_twice(tmp_path: Path, limited: bool):
    kill_and_look(tmp_path, seconds=SECONDS, lease=5, pause=(0.5, 5), limited=limited)

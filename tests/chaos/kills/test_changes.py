"""A server and its schedulers live through a change of the clocks."""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from skiplane.schema.embedded import Binaries, EmbeddedServer, find_binaries
from skiplane.schema.embedded.binaries import usable_by
from skiplane.schema.embedded.folder import DataFolder
from skiplane.schema.migrate import migrate
from skiplane.tests.chaos.kills.fleet import SETTINGS
from skiplane.tests.chaos.kills.processes import Member, scheduler
from skiplane.tests.chaos.kills.test_clocks import Host, faketime
from skiplane.tests.support import wait_until
from skiplane.tests.support.databases import server_folder

pytestmark = pytest.mark.xdist_group("chaos")

Connection = psycopg.Connection[tuple[Any, ...]]
NEW_YORK = "America/New_York"
SPRING, AUTUMN = "2026-03-08T07:00", "2026-11-01T06:00"
BEFORE, AFTER = timedelta(seconds=15), timedelta(seconds=6)
# The instant of the change; then expression, zone, and whether it fires at that instant.
CHANGES = [
    (SPRING, [
        ("30 2 * * *", NEW_YORK, True),  # left out, so at the end of the gap
        ("0 3 * * *", NEW_YORK, True),
        ("30 3 * * *", NEW_YORK, False),
        ("0 * * * *", NEW_YORK, True),
        ("30 * * * *", NEW_YORK, False),
        ("0 7 * * *", "UTC", True),
        ("0 2 * * *", "UTC", False),
    ]),
    (AUTUMN, [
        ("0 1 * * *", NEW_YORK, False),  # was, an hour ago
        ("30 1 * * *", NEW_YORK, False),
        ("0 2 * * *", NEW_YORK, False),
        ("0 * * * *", NEW_YORK, True),
        ("*/15 1 * * *", NEW_YORK, True),
        ("0 6 * * *", "UTC", True),
        ("0 1 * * *", "UTC", False),
    ]),
]  # fmt: skip


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that the server's user can read."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        made = Path(name)
        made.chmod(0o755)
        yield made


def put(clock: Host, moment: datetime) -> None:
    """Let it be that time now."""
    clock.set(f"{(moment - datetime.now(UTC)).total_seconds():+.0f}")


def faked(folder: Path, data: Path) -> tuple[Host, Binaries]:
    """Give a clock, and programs of a server that goes by it."""
    real = usable_by(find_binaries(), DataFolder(data).prepare()).folder
    library = Path(shutil.copy(faketime(), folder))
    library.chmod(0o755)
    clock = Host(folder, library, "+0")
    # Only the server itself: what the library shares is its user's, not root's.
    env = " ".join(f"{name}={value}" for name, value in clock.env.items())
    for name, says in (("initdb", ""), ("postgres", f"env {env} ")):
        program = folder / name
        program.write_text(f'#!/bin/sh\nexec {says}"{real}/{name}" "$@"\n')
        program.chmod(0o755)
    return clock, Binaries(folder)


@pytest.fixture
def members(tmp_path: Path) -> Iterator[list[Member]]:
    """What is to be ended with the test."""
    made: list[Member] = []
    yield made
    for member in made:
        member.end()


def now(conn: Connection) -> datetime:
    row = conn.execute("select skiplane.clock()").fetchone()
    assert row is not None
    moment = row[0]
    assert isinstance(moment, datetime)
    return moment


@pytest.mark.parametrize(("at", "schedules"), CHANGES, ids=["gap", "repeated hour"])
def test_schedules_go_through_a_change_of_clocks(
    folder: Path,
    members: list[Member],
    tmp_path: Path,
    at: str,
    schedules: list[tuple[str, str, bool]],
):
    """By the server's clock; those of the schedulers' hosts are months away, in other zones."""
    change = datetime.fromisoformat(at).replace(tzinfo=UTC)
    with server_folder() as data, contextlib.ExitStack() as stack:
        clock, programs = faked(folder, data)
        put(clock, change - timedelta(minutes=50))
        server = EmbeddedServer(data, settings=SETTINGS, binaries=programs)
        dsn = stack.enter_context(server).tcp_dsn()
        migrate(dsn)
        for zone in (NEW_YORK, "Asia/Kolkata"):
            env = {"SKIPLANE_DSN": dsn, "TZ": zone}
            members.append(scheduler(f"scheduler{len(members)}", tmp_path, env))
            members[-1].start()
        for member in members:
            wait_until(lambda m=member: "scheduler started" in m.log.read_text(), 60)  # type: ignore[misc]
        with psycopg.connect(dsn, autocommit=True) as conn:
            conn.execute("set timezone = 'Europe/London'")
            put(clock, change - BEFORE)
            create = "select skiplane.create_cron_task(%s, %s, 'work', p_timezone => %s)"
            for number, (expression, zone, _) in enumerate(schedules):
                conn.execute(create, [f"s{number}", expression, zone])
            conn.execute(create, ["each second", "* * * * * *", NEW_YORK])
            assert now(conn) < change - timedelta(seconds=2)
            wait_until(lambda: now(conn) > change + AFTER, 60, "the change to be over")
            rows = conn.execute(
                "select name, array_agg(fire_time order by fire_time) filter"
                " (where outcome <> 'missed') from skiplane.cron_tasks"
                " left join skiplane.cron_fires using (cron_id) group by name"
            ).fetchall()
        fires: dict[str, list[datetime]] = {name: times or [] for name, times in rows}
        for number, (expression, zone, fired) in enumerate(schedules):
            assert fires[f"s{number}"] == [change] * fired, (expression, zone)
        seconds = fires["each second"]
        assert seconds[0] < change < change + AFTER - timedelta(seconds=2) < seconds[-1]
        assert seconds == [seconds[0] + timedelta(seconds=n) for n in range(len(seconds))]
        assert all(member.running and not member.surprises for member in members)

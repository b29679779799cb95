"""skiplane bench, with numbers of tasks that show only that it measures."""

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from skiplane.commands.bench.meter import Meter, percentiles
from skiplane.schema.connect import connect_sync
from skiplane.tests.cli.conftest import Run
from skiplane.tests.support import Databases

KEYS = {
    "enqueue_one_per_s",
    "enqueue_bulk_per_s",
    "drain_per_s",
    "steady_per_s",
    "pickup_ms",
    "timer_ms",
    "wal_bytes_per_task",
    "server_cpu_us_per_task",
    "held",
}
Check = Callable[[dict[str, Any]], bool]


def is_percentiles(found: dict[str, float]) -> bool:
    return 0 < found["p50"] <= found["p95"] <= found["p99"] <= found["max"]


MEASURED: dict[str, Check] = {
    "enqueue": lambda d: (
        d["enqueue_one_per_s"] > 0 and set(d["enqueue_bulk_per_s"]) == {"300", "2048"}
    ),
    "drain": lambda d: (
        set(d["drain_per_s"]) == {"1", "2"}
        and d["wal_bytes_per_task"] > 100
        and d["server_cpu_us_per_task"] is not None
        and d["floor_per_s"] > 0
        and d["sync_drain_per_s"] is not None
    ),
    "steady": lambda d: d["steady_per_s"] > 0,
    "pickup": lambda d: is_percentiles(d["pickup_ms"]),
    "timer": lambda d: (
        is_percentiles(d["timer_ms"]) and d["timer_early"] == 0 and d["timer_2000_ms"]["max"] > 0
    ),
    "held": lambda d: d["held"]["first_per_s"] > 0 and d["held"]["claim_p99_ms"] > 0,
}


@pytest.mark.parametrize("part", MEASURED)
def test_part_is_measured_and_leaves_no_open_task(
    skiplane: Run, conn: psycopg.Connection[tuple[Any, ...]], databases: Databases, part: str
):
    said = skiplane("bench", "--only", part, "--tasks", "1000", "--seconds", "1", "--json")
    assert said.code == 0, said.err
    found = said.document
    assert set(found) >= KEYS
    assert MEASURED[part](found), found
    others = KEYS - {
        "drain": {"drain_per_s", "wal_bytes_per_task", "server_cpu_us_per_task"},
        "enqueue": {"enqueue_one_per_s", "enqueue_bulk_per_s"},
        "held": {"held"},
    }.get(part, {f"{part}_per_s", f"{part}_ms"})
    assert {found[key] for key in others} == {None}
    row = conn.execute(
        "select (select count(*) from skiplane.tasks where completed_at is null),"
        " (select count(*) from pg_namespace where nspname ~ 'bench')"
    ).fetchone()
    assert row == (0, 0)
    # What is measured is said, and the figures alone go to standard output.
    assert "measuring the given database" in said.err


def test_table_for_people_names_units(skiplane: Run):
    said = skiplane("bench", "--only", "steady", "--seconds", "1")
    assert said.code == 0
    assert "steady state" in said.out
    assert "tasks/s" in said.out


def test_without_a_database_it_makes_one_and_throws_it_away(
    skiplane: Run, bare: dict[str, str], databases: Databases
):
    from pathlib import Path

    from skiplane.tests.support.databases import server_folder

    with server_folder() as folder:
        data = Path(folder) / "data"
        said = skiplane(
            "bench", "--only", "steady", "--seconds", "1", "--json",
            SKIPLANE_DSN="", SKIPLANE_DATA=str(data),
        )  # fmt: skip
        assert said.code == 0, said.err
        assert said.document["machine"]["throw_away"] is True
        assert "throw-away" in said.err
        assert list(data.iterdir()) == []


def test_percentiles_by_nearest_rank():
    assert percentiles(list(range(1, 101))) == {"p50": 50, "p95": 95, "p99": 99, "max": 100}
    assert percentiles([7.0]) == {"p50": 7, "p95": 7, "p99": 7, "max": 7}
    assert percentiles([]) is None


def test_meter_counts_wal_and_cpu_of_the_server(dsn: str):
    with connect_sync(dsn, "test") as conn:
        meter = Meter(conn)
        conn.execute("create table t as select i, md5(i::text) from generate_series(1, 300000) i")
        wal, cpu = meter.wal_bytes(), meter.cpu_us()
    assert wal is not None
    assert wal > 1_000_000
    assert cpu is not None
    assert 50_000 < cpu < 60_000_000

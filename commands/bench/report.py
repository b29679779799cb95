"""The figures of a measurement as a table for people."""

from collections.abc import Iterator
from typing import Any

from ..output import console, table


def show(found: dict[str, Any]) -> None:
    """Print what was measured; what was not stays away."""
    console().print(table(None, ("figure", "value", "unit"), _rows(found)))
    machine = found["machine"]
    where = "a throw-away server here" if machine["throw_away"] else "the given server"
    console().print(
        f"\n{machine['cpus']} CPUs, PostgreSQL {machine['server_version']}, {where}; "
        "clients and workers ran on this machine."
    )
    if not machine["throw_away"]:
        console().print("The tasks stay in the history until retention drops them.")


def _rows(found: dict[str, Any]) -> Iterator[tuple[str, Any, str]]:
    ratios = found["ratios"] or {}
    yield from _some("enqueue, one at a time", found["enqueue_one_per_s"], "tasks/s")
    for size, rate in (found["enqueue_bulk_per_s"] or {}).items():
        yield from _some(f"enqueue, in bulk, {size} B", rate, "tasks/s")
    for processes, rate in (found["drain_per_s"] or {}).items():
        share = f"tasks/s ({ratios[processes]} of the floor)" if ratios else "tasks/s"
        yield from _some(f"drain, worker processes: {processes}", rate, share)
    yield from _some("drain of sync tasks, 2 processes", found["sync_drain_per_s"], "tasks/s")
    yield from _some("floor: bare SQL cycle, 2 clients", found["floor_per_s"], "rows/s")
    yield from _some("steady state", found["steady_per_s"], "tasks/s")
    yield from _some("WAL for a task's whole life", found["wal_bytes_per_task"], "bytes")
    yield from _some("server CPU for it", found["server_cpu_us_per_task"], "µs")
    for title, key in (
        ("pick-up, idle", "pickup_ms"),
        ("timer lateness, 50/s", "timer_ms"),
        ("timer lateness, 2000/s", "timer_2000_ms"),
    ):
        for name, value in (found[key] or {}).items():
            yield f"{title}, {name}", value, "ms"
    yield from _some("timers that fired early", found["timer_early"], "tasks")
    held = found["held"] or {}
    for key, title, unit in (
        ("offered_per_s", "held snapshot, offered", "tasks/s"),
        ("first_per_s", "held snapshot, first part", "tasks/s"),
        ("last_per_s", "held snapshot, last part", "tasks/s"),
        ("first_claim_p99_ms", "held snapshot, claim p99, first part", "ms"),
        ("claim_p99_ms", "held snapshot, claim p99, last part", "ms"),
    ):
        yield from _some(title, held.get(key), unit)


def _some(title: str, value: Any, unit: str) -> Iterator[tuple[str, Any, str]]:
    if value is not None:
        shown = f"{value:,}" if isinstance(value, int) else value
        yield title, shown, unit

"""What people look at who watch a system: the calls behind `skiplane top`, `up` and `dlq`."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from .call import Call, Rows, call, text

PRIORITIES = {10: "high", 5: "medium", 0: "low"}


class Queue(NamedTuple):
    """What waits in a queue at one priority, as counted at ``refreshed_at``.

    Attributes:
        oldest_seconds: Age of the task that waits longest.
    """

    queue: str
    priority: str
    depth: int
    oldest_seconds: float | None
    refreshed_at: datetime


class Worker(NamedTuple):
    """One worker process.

    Attributes:
        status: RUNNING, DRAINING or LOST.
        holding: Tasks that it has claimed and not finished.
        silent_seconds: Time since its last sign of life.
    """

    worker_id: UUID
    name: str
    status: str
    queues: list[str]
    concurrency: int
    holding: int
    up_seconds: float
    silent_seconds: float


class Counters(NamedTuple):
    """Running totals of the server's statistics, and when they were read.

    The difference of two is a throughput; the server brings them up to date
    about once a second.
    """

    at: float
    submitted: int
    ended: int


def count_dead_letters(
    *, task_type: str | None = None, queue: str | None = None, tenant: str | None = None
) -> Call[int]:
    """Count the dead letters, all or those of a filter."""
    given = {"task_type": task_type, "queue": queue, "tenant_id": tenant}
    wanted = {name: text(name, value)[1] for name, value in given.items() if value is not None}
    conditions = "".join(f" and {name} = cast(%s as text)" for name in wanted)
    return Call(
        f"select count(*) from skiplane.dead_letter_queue where true{conditions}",
        tuple(wanted.values()),
        _number,
        repeatable=True,
    )


def count_workers(name: str) -> Call[int]:
    """Count the running processes of a worker that was started with that name."""
    return Call(
        "select count(*) from skiplane.workers"
        " where starts_with(name, cast(%s as text)) and status = 'RUNNING'",
        (name,),
        _number,
        repeatable=True,
    )


def queues() -> Call[list[Queue]]:
    """Read what waits, the longest queue first."""
    return Call(
        """
        select queue, priority, depth,
            extract(epoch from skiplane.clock() - oldest_waiting)::float8, refreshed_at
        from skiplane.queues order by depth desc, queue, priority desc
        """,
        (),
        lambda rows: [Queue(row[0], PRIORITIES[row[1]], *row[2:]) for row in rows],
        repeatable=True,
    )


def workers() -> Call[list[Worker]]:
    """Read the fleet, by name."""
    return Call(
        """
        select worker_id, name, status, queues, concurrency, holding,
            extract(epoch from skiplane.clock() - started_at)::float8,
            extract(epoch from skiplane.clock() - heartbeat_at)::float8
        from skiplane.workers order by name, started_at
        """,
        (),
        lambda rows: [Worker(*row) for row in rows],
        repeatable=True,
    )


def autoscale(
    queues: Sequence[str] | None = None,
    target_seconds: float | None = None,
    slots_per_worker: int | None = None,
    min_workers: int | None = None,
    max_workers: int | None = None,
) -> Call[dict[str, Any]]:
    """Read how many workers the queues need; what is None has the engine's default."""
    arguments = {
        "queues": ("text[]", None if queues is None else list(queues)),
        "target_seconds": ("float8", target_seconds),
        "slots_per_worker": ("int", slots_per_worker),
        "min_workers": ("int", min_workers),
        "max_workers": ("int", max_workers),
    }
    return call("autoscale", "autoscale::text", _document, arguments, repeatable=True)


def _document(rows: Rows) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(rows[0][0])
    return found


def counters() -> Call[Counters]:
    """Read the totals of submitted and ended tasks; it touches no table."""
    return Call(
        """
        select extract(epoch from clock_timestamp())::float8,
            coalesce(sum(s.n_tup_ins) filter (where p.parent = 'task'), 0)::bigint,
            coalesce(sum(s.n_tup_ins) filter (where p.parent = 'outcome'), 0)::bigint
        from (values ('task'), ('outcome')) p (parent)
        cross join lateral pg_partition_tree(to_regclass('skiplane.' || p.parent)) t
        join pg_stat_all_tables s on s.relid = t.relid
        """,
        (),
        lambda rows: Counters(*rows[0]),
        repeatable=True,
    )


def _number(rows: Rows) -> int:
    return int(rows[0][0])

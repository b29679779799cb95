"""The worker's calls. Each binds parameters and returns what its function said.

The hot ones are built for their cost per task: ids, results and durations go in
as array literals that are made in C (a JSON array of strings, once its brackets
are replaced, is such a literal), and tasks come back as one JSON text that is
decoded elsewhere.
"""

from collections.abc import Iterable, Mapping, Sequence
from time import monotonic
from typing import Any, LiteralString, NamedTuple
from uuid import UUID

import msgspec
from psycopg import sql
from psycopg.types.string import TextLoader

from .connect import AsyncConnection, SyncConnection
from .flow_calls import declare_task_type
from .rows import one_row, one_row_sync

_FINISH: LiteralString = (
    "%s::uuid, %s::bigint, %s::uuid[], %s::text[], %s::int[], %s::int[], %s::text"
)
_CLAIM: LiteralString = "%s::text[], %s::int, %s::text[], %s::float8, %s::jsonb, %s::smallint"
_BOTH: LiteralString = f"select * from skiplane.finish_and_claim({_FINISH}, {_CLAIM})"
_CLAIM_ONLY: LiteralString = f"select * from skiplane.claim_tasks(%s::uuid, {_CLAIM})"
FINISH_ONLY: LiteralString = f"select skiplane.finish_tasks({_FINISH}, %s::smallint)"
_HEARTBEAT: LiteralString = (
    "select * from skiplane.heartbeat("
    "%s::uuid, %s::bigint[], %s::uuid[], %s::jsonb, %s::float8, %s::boolean, %s::smallint)"
)
_MAX_INT = 2_147_483_647

_encode = msgspec.json.Encoder().encode


class _Cursor(msgspec.Struct):
    again: float | None = None


_decode_cursor = msgspec.json.Decoder(_Cursor).decode


class Claim(NamedTuple):
    """What a worker wants: fixed for its life, so the arrays are made once.

    Attributes:
        worker_id: The worker, as text.
        queues: Array literal of the queues' names.
        task_types: Array literal of the types that it takes; None takes all.
        lease_seconds: How long a claim holds without a heartbeat.
    """

    worker_id: str
    queues: str
    task_types: str | None
    lease_seconds: float


class Finish(NamedTuple):
    """Ends of tasks of one lease. The lists of successes are parallel.

    Attributes:
        lease_id: The lease that they belong to.
        task_ids: Succeeded tasks.
        results: Their results, as JSON texts.
        started_us: Microseconds since each began.
        took_us: Microseconds that each took.
        failures: Objects with the fields of finish_tasks's p_failures.
    """

    lease_id: int
    task_ids: list[str]
    results: list[str]
    started_us: list[int]
    took_us: list[int]
    failures: Sequence[Any] = ()


class Answer(NamedTuple):
    """What finishing, claiming or both gave.

    Attributes:
        stale: Ids whose ends were not accepted, since the lease is lost.
        lease_id: The new lease; None when nothing was claimed.
        tasks: JSON array of the claimed tasks.
        cursor: JSON text to pass on to the next claim.
    """

    stale: Sequence[UUID]
    lease_id: int | None = None
    tasks: str | None = None
    cursor: str | None = None

    def again(self) -> float | None:
        """Give the seconds after which a limit lets more pass; None when none is near."""
        return _decode_cursor(self.cursor).again if self.cursor else None


class Beat(NamedTuple):
    """What a heartbeat said.

    Attributes:
        lost: Those of the held ids that the worker does not hold any more.
        draining: Whether an operator wants the worker to stop.
    """

    lost: list[str]
    draining: bool


class Registration(NamedTuple):
    """A worker as it shows itself to operators; fields as in register_worker."""

    worker_id: str
    name: str
    queues: list[str]
    task_types: list[str] | None
    concurrency: int
    host: str
    pid: int
    lease_seconds: float
    supervisor_id: str | None


def text_array(values: Iterable[str]) -> str:
    """Give an array literal of texts: JSON documents, names, without control characters."""
    return f"{{{_encode(list(values)).decode()[1:-1]}}}"


def finish_parameters(worker_id: str, finish: Finish) -> tuple[Any, ...]:
    """Give the parameters that finishing starts with."""
    failures = finish.failures
    return (
        worker_id,
        finish.lease_id,
        "{" + ",".join(finish.task_ids) + "}",
        text_array(finish.results),
        _int_array(finish.started_us),
        _int_array(finish.took_us),
        _encode(failures).decode() if failures else None,
    )


def _int_array(values: list[int]) -> str:
    # A task may run for longer than int4 has microseconds (36 minutes).
    if values and max(values) > _MAX_INT:
        values = [min(value, _MAX_INT) for value in values]
    return f"{{{_encode(values).decode()[1:-1]}}}"


def prepare_claiming(conn: AsyncConnection) -> None:
    """Make a connection give jsonb as text: a cursor is only ever passed back."""
    conn.adapters.register_loader("jsonb", TextLoader)


async def finish_and_claim(
    conn: AsyncConnection,
    claim: Claim,
    finish: Finish | None,
    limit: int,
    cursor: str | None,
    shard: int,
) -> Answer:
    """Finish tasks of one lease, claim up to ``limit`` tasks, or both in one transaction.

    Args:
        conn: In autocommit, made ready by prepare_claiming.
        claim: Who claims what.
        finish: Ends to record; None only claims.
        limit: The most tasks to claim; 0 only finishes.
        cursor: The last answer's cursor, None at the start.
        shard: Label of the shard of both.
    """
    wanted = (claim.queues, limit, claim.task_types, claim.lease_seconds, cursor, shard)
    if finish is None:
        row = await one_row(conn, _CLAIM_ONLY, (claim.worker_id, *wanted))
        return Answer((), *row)
    done = finish_parameters(claim.worker_id, finish)
    if limit == 0:
        row = await one_row(conn, FINISH_ONLY, (*done, shard))
        return Answer(row[0] or ())
    row = await one_row(conn, _BOTH, done + wanted)
    return Answer(row[0] or (), row[1], row[2], row[3])


async def register_worker(conn: AsyncConnection, registration: Registration) -> None:
    """Make a worker known, before its first claim."""
    await conn.execute(
        "select skiplane.register_worker(%s::uuid, %s::text, %s::text[], %s::text[], %s::int,"
        " %s::text, %s::int, %s::float8, %s::uuid)",
        registration,
    )


async def declare_limits(conn: AsyncConnection, task_type: str, limits: Mapping[str, Any]) -> None:
    """Tell the limits that a type's declaration names; an operator's word stands above them."""
    declare = declare_task_type(task_type, limits)
    await conn.execute(declare.sql, declare.parameters)


async def unregister_worker(conn: AsyncConnection, worker_id: str) -> None:
    """Take a worker that holds nothing any more off the list."""
    await conn.execute("select skiplane.unregister_worker(%s::uuid)", (worker_id,))


async def drain_worker(conn: AsyncConnection, worker_id: str) -> None:
    """Show that a worker takes no more tasks."""
    await conn.execute("select skiplane.drain_worker(%s::uuid)", (worker_id,))


async def shard_labels(conn: AsyncConnection) -> list[int]:
    """Give the labels of the shards that this database has."""
    return list((await one_row(conn, "select skiplane.shard_labels()"))[0])


def heartbeat(
    conn: SyncConnection,
    worker_id: str,
    lease_ids: Iterable[int],
    held: Iterable[str],
    running_us: dict[str, int],
    lease_seconds: float,
    reconcile: bool,
    shard: int,
) -> Beat:
    """Extend a worker's leases of one shard and compare what it holds.

    Args:
        conn: In autocommit.
        worker_id: The worker.
        lease_ids: All its leases; with ``reconcile`` others go back.
        held: Ids of all tasks that it runs, or has claimed and not started.
        running_us: Microseconds since the execution of each began.
        lease_seconds: How long they hold from now on.
        reconcile: Whether ``lease_ids`` is complete.
        shard: Label of the shard.
    """
    parameters = (
        worker_id,
        f"{{{','.join(map(str, lease_ids))}}}",
        f"{{{','.join(held)}}}",
        _encode(running_us).decode() if running_us else None,
        lease_seconds,
        reconcile,
        shard,
    )
    row = one_row_sync(conn, _HEARTBEAT, parameters)
    return Beat([str(task_id) for task_id in row[0] or ()], bool(row[1]))


async def listen(conn: AsyncConnection, worker_id: str, queues: list[str]) -> str:
    """Make a connection hear of work in ``queues`` and of the worker's own tasks.

    Returns:
        The worker's own channel; its payloads are ids of lost tasks, or ``drain``.
    """
    own = str((await one_row(conn, "select skiplane.worker_channel(%s::uuid)", (worker_id,)))[0])
    cursor = await conn.execute(
        "select skiplane.queue_channel(name) from unnest(%s::text[]) name", (queues,)
    )
    for channel in [own, *(row[0] for row in await cursor.fetchall())]:
        await conn.execute(sql.SQL("listen {}").format(sql.Identifier(channel)))
    return own


async def wait_for_work(conn: AsyncConnection, queues: list[str]) -> None:
    """Ask for a notification of every submission into ``queues``; committed when it returns."""
    await conn.execute("select skiplane.wait_for_work(%s::text[])", (queues,))


async def stop_waiting(conn: AsyncConnection, queues: list[str]) -> None:
    """Take wait_for_work back: a busy worker needs no notifications."""
    await conn.execute("select skiplane.stop_waiting(%s::text[])", (queues,))


async def ping(conn: AsyncConnection) -> None:
    """Find out whether the other end is still there."""
    await conn.execute("select 1")


def clock_ahead(conn: SyncConnection) -> float:
    """Give the database's clock, in seconds since 1970, minus this process's monotonic one."""
    before = monotonic()
    row = one_row_sync(conn, "select extract(epoch from skiplane.clock())::float8")
    return float(row[0]) - (before + monotonic()) / 2

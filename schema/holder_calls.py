"""What an attempt writes while it runs. Each call is refused once its lease is lost (SK006)."""

from typing import LiteralString, NamedTuple

from .connect import AsyncConnection, SyncConnection
from .rows import one_row, one_row_sync
from .worker_calls import FINISH_ONLY, Finish, finish_parameters

_CHECKPOINT: LiteralString = (
    "select skiplane.checkpoint_task(%s::uuid, %s::bigint, %s::uuid, %s::jsonb, %s::smallint)"
)
_PROGRESS: LiteralString = (
    "select skiplane.report_progress("
    "%s::uuid, %s::bigint, %s::uuid, %s::real, %s::text, %s::smallint)"
)


class Holder(NamedTuple):
    """The right of one attempt to write: worker, lease, task, and the task's shard."""

    worker_id: str
    lease_id: int
    task_id: str
    shard: int


async def finish_task(conn: AsyncConnection, holder: Holder, result: str, seconds: float) -> bool:
    """Record one success in the open transaction.

    Args:
        conn: With the transaction.
        holder: Of what.
        result: JSON text.
        seconds: How long ago it began.

    Returns:
        False when the lease is lost.
    """
    row = await one_row(
        conn,
        FINISH_ONLY,
        (*finish_parameters(holder.worker_id, _one(holder, result, seconds)), holder.shard),
    )
    return not row[0]


def finish_task_sync(conn: SyncConnection, holder: Holder, result: str, seconds: float) -> bool:
    """See finish_task."""
    row = one_row_sync(
        conn,
        FINISH_ONLY,
        (*finish_parameters(holder.worker_id, _one(holder, result, seconds)), holder.shard),
    )
    return not row[0]


def _one(holder: Holder, result: str, seconds: float) -> Finish:
    took = int(seconds * 1e6)
    return Finish(holder.lease_id, [holder.task_id], [result], [took], [took])


async def checkpoint_task(conn: AsyncConnection, holder: Holder, checkpoint: str) -> None:
    """Save a JSON text for the task's next attempt."""
    await conn.execute(_CHECKPOINT, (*holder[:3], checkpoint, holder.shard))


def checkpoint_task_sync(conn: SyncConnection, holder: Holder, checkpoint: str) -> None:
    """See checkpoint_task."""
    conn.execute(_CHECKPOINT, (*holder[:3], checkpoint, holder.shard))


async def report_progress(
    conn: AsyncConnection, holder: Holder, share: float, message: str | None
) -> None:
    """Show how far a task is, 0 to 1."""
    await conn.execute(_PROGRESS, (*holder[:3], share, message, holder.shard))


def report_progress_sync(
    conn: SyncConnection, holder: Holder, share: float, message: str | None
) -> None:
    """See report_progress."""
    conn.execute(_PROGRESS, (*holder[:3], share, message, holder.shard))

"""What a supervisor says about the workers that it started. All its calls are synchronous."""

from .connect import SyncConnection
from .rows import one_row_sync


def shard_labels(conn: SyncConnection) -> list[int]:
    """Give the labels of the shards that this database has."""
    return list(one_row_sync(conn, "select skiplane.shard_labels()")[0])


def extend_leases(
    conn: SyncConnection, worker_ids: list[str], lease_seconds: float, shard: int
) -> list[str]:
    """Extend the leases of living workers.

    Returns:
        The workers that have a task past its time-out and grace: to be killed.
    """
    cursor = conn.execute(
        "select * from skiplane.extend_leases(%s::uuid[], %s::float8, %s::smallint)",
        (worker_ids, lease_seconds, shard),
    )
    return [str(worker_id) for worker_id, overdue in cursor if overdue]


def release_worker(
    conn: SyncConnection,
    worker_id: str,
    reason: str,
    charge: bool,
    shard: int,
    running: list[str] | None = None,
    excused: list[str] | None = None,
) -> int:
    """Give back everything that a worker holds.

    Args:
        conn: In autocommit.
        worker_id: A worker that does not run any more.
        reason: Recorded with the attempts.
        charge: Whether the attempts count.
        shard: Label of the shard.
        running: The tasks whose attempts count; None: all.
        excused: Those of them that did not run in the worker itself.

    Returns:
        The number of tasks.
    """
    row = one_row_sync(
        conn,
        "select skiplane.release_worker("
        "%s::uuid, %s::text, %s::boolean, %s::smallint, %s::uuid[], %s::uuid[])",
        (worker_id, reason, charge, shard, running, excused),
    )
    return int(row[0] or 0)


def unregister_worker(conn: SyncConnection, worker_id: str) -> None:
    """Take a worker off the list."""
    conn.execute("select skiplane.unregister_worker(%s::uuid)", (worker_id,))

"""The scheduler's calls. Each binds parameters and returns what its function said.

Every one is a sweep in bounded batches with SKIP LOCKED, so that any number of
schedulers may make the same call at the same moment. None is worth a disk flush
of its own: what a crashed server forgets of a sweep is simply swept again.
"""

import datetime
from typing import Any, LiteralString

import msgspec
import psycopg
from psycopg.types.json import Jsonb

Connection = psycopg.AsyncConnection[tuple[Any, ...]]

# A role or a database may come with settings that were made for web requests.
# These are the ones under which a sweep is right, and is not cut off halfway:
# under serializable it would fail with 40001 whenever another scheduler had the
# same row in hand. A lock that is not to be had soon is left for the next pass,
# because everybody else would queue behind the one who waits for it.
SETTINGS = {
    "default_transaction_isolation": "read committed",
    "default_transaction_read_only": "off",
    "default_transaction_deferrable": "off",
    "synchronous_commit": "off",
    "statement_timeout": "45s",
    "lock_timeout": "2s",
    "idle_in_transaction_session_timeout": "0",
    "idle_session_timeout": "0",
}


class Promoted(msgspec.Struct, frozen=True):
    """What one promotion did.

    Attributes:
        promoted: Tasks that are ready now.
        next_due_seconds: Time until the next one is due, None when none is known.
        after: Where the next call starts to look.
    """

    promoted: int
    next_due_seconds: float | None
    after: datetime.datetime | None


class Swept(msgspec.Struct, frozen=True):
    """What one sweep over the leases did.

    Attributes:
        returned: Tasks that will run again.
        dead: Tasks that had used up their attempts.
        after: Where the next call starts to look.
    """

    returned: int
    dead: int
    after: datetime.datetime | None


async def settings_hold(conn: Connection) -> bool:
    """Tell whether SETTINGS are in force on the connection.

    False behind a pooler that takes no start-up options: then the session is
    also other clients', and each call must bring the settings with it.
    """
    wanted = {k: v for k, v in SETTINGS.items() if k in ("statement_timeout", "lock_timeout")}
    for name, value in (*wanted.items(), ("transaction_isolation", "read committed")):
        row = await _row(conn, "select current_setting(%s)", (name,))
        if row[0] != value:
            return False
    return True


async def set_for_transaction(conn: Connection) -> None:
    """Bring SETTINGS into force until the end of the open transaction."""
    for name, value in SETTINGS.items():
        if not name.startswith("default_"):
            await conn.execute("select set_config(%s, %s, true)", (name, value))


async def shard_labels(conn: Connection) -> list[int]:
    """Give the labels of the shards that this database has."""
    row = await _row(conn, "select skiplane.shard_labels()")
    return list(row[0])


async def promote_tasks(
    conn: Connection, limit: int, after: datetime.datetime | None, shard: int
) -> Promoted:
    """Make up to ``limit`` tasks ready whose time has come.

    Args:
        conn: In autocommit, or in a transaction of the caller's.
        limit: The most tasks of one call.
        after: The last answer's ``after``; None looks at everything.
        shard: Label of the shard.
    """
    row = await _row(
        conn, "select * from skiplane.promote_tasks(%s, %s, %s)", (limit, after, shard)
    )
    return Promoted(*row)


async def sweep_leases(
    conn: Connection, limit: int, after: datetime.datetime | None, shard: int
) -> Swept:
    """Take back up to ``limit`` leases that have run out; arguments as in promote_tasks."""
    row = await _row(conn, "select * from skiplane.sweep_leases(%s, %s, %s)", (limit, after, shard))
    return Swept(*row)


async def expire_tasks(conn: Connection, limit: int, shard: int) -> int:
    """End up to ``limit`` tasks whose expires_at has passed; give their number."""
    return int((await _row(conn, "select skiplane.expire_tasks(%s, %s)", (limit, shard)))[0])


async def wake_workers(conn: Connection, shard: int) -> int:
    """Notify the queues that have work and idle workers; give their number."""
    return int((await _row(conn, "select skiplane.wake_workers(%s)", (shard,)))[0])


async def refresh_lanes(conn: Connection, state: Any, shard: int) -> Any:
    """Move the low-water marks of the lanes on.

    Args:
        conn: As in promote_tasks.
        state: What the last call gave, None at the start. Nobody else reads it.
        shard: Label of the shard.
    """
    bound = None if state is None else Jsonb(state)
    return (await _row(conn, "select skiplane.refresh_lanes(%s, %s)", (bound, shard)))[0]


async def refresh_depth(conn: Connection, shard: int) -> float:
    """Count what waits in each queue; give the seconds until the next count is worth it."""
    return float((await _row(conn, "select skiplane.refresh_depth(%s)", (shard,)))[0])


async def maintain_partitions(conn: Connection, days_ahead: int) -> list[str]:
    """Make partitions for ``days_ahead`` days, drop those past retention; say what was done."""
    cursor = await conn.execute("select skiplane.maintain_partitions(%s)", (days_ahead,))
    return [row[0] for row in await cursor.fetchall()]


async def sweep_history(conn: Connection, limit: int) -> int:
    """Delete up to ``limit`` small records that nobody needs any more; give their number."""
    return int((await _row(conn, "select skiplane.sweep_history(%s)", (limit,)))[0])


async def _row(conn: Connection, query: LiteralString, arguments: tuple[Any, ...] = ()) -> tuple[Any, ...]:
    row = await (await conn.execute(query, arguments)).fetchone()
    if row is None:
        raise psycopg.DataError("a function that always answers gave no row")
    return row

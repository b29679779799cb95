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

from .connect import AsyncConnection

# A role or a database may come with settings that were made for web requests.
# These are the ones under which a sweep is right and is not cut off halfway: a
# lock that is not to be had soon is left for the next pass, because everybody
# else would queue behind the one who waits for it. No statement may hang for ever,
# but upkeep of large tables takes its time.
_SETTINGS = {
    "synchronous_commit": "off",
    "lock_timeout": "2s",
    "idle_in_transaction_session_timeout": "0",
}
CLOCK_SETTINGS = {**_SETTINGS, "statement_timeout": "45s"}
UPKEEP_SETTINGS = {**_SETTINGS, "statement_timeout": "30min"}


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
        returned: Tasks that were taken back.
        after: Where the next call starts to look.
    """

    returned: int
    after: datetime.datetime | None


async def apply_settings(
    conn: AsyncConnection, settings: dict[str, str], *, for_transaction: bool
) -> None:
    """Bring settings into force on the session.

    Args:
        conn: In autocommit, or in a transaction.
        settings: CLOCK_SETTINGS or UPKEEP_SETTINGS.
        for_transaction: Only until the open transaction ends. Behind a pooler
            the session is other clients' too, and each call brings them along.
    """
    await conn.execute(
        "select set_config(name, value, %s) from unnest(%s::text[], %s::text[]) s (name, value)",
        (for_transaction, list(settings), list(settings.values())),
    )


async def shard_labels(conn: AsyncConnection) -> list[int]:
    """Give the labels of the shards that this database has."""
    row = await _row(conn, "select skiplane.shard_labels()")
    return list(row[0])


async def promote_tasks(
    conn: AsyncConnection, limit: int, after: datetime.datetime | None, shard: int
) -> Promoted:
    """Make up to ``limit`` tasks ready whose time has come.

    Args:
        conn: In autocommit, or in a transaction of the caller's.
        limit: The most tasks of one call.
        after: The last answer's ``after``; None looks at everything.
        shard: Label of the shard.
    """
    # Columns by name: a newer schema may give more of them.
    row = await _row(
        conn,
        "select promoted, next_due_seconds, after from skiplane.promote_tasks(%s, %s, %s)",
        (limit, after, shard),
    )
    return Promoted(*row)


async def sweep_leases(
    conn: AsyncConnection, limit: int, after: datetime.datetime | None, shard: int
) -> Swept:
    """Take back what is in up to ``limit`` leases that have run out; else as promote_tasks."""
    row = await _row(
        conn,
        "select returned, after from skiplane.sweep_leases(%s, %s, %s)",
        (limit, after, shard),
    )
    return Swept(*row)


async def expire_tasks(conn: AsyncConnection, limit: int, shard: int) -> int:
    """End up to ``limit`` tasks whose expires_at has passed; give their number."""
    return int((await _row(conn, "select skiplane.expire_tasks(%s, %s)", (limit, shard)))[0])


async def wake_workers(conn: AsyncConnection, shard: int) -> int:
    """Notify the queues that have work and idle workers; give their number."""
    return int((await _row(conn, "select skiplane.wake_workers(%s)", (shard,)))[0])


async def refresh_lanes(conn: AsyncConnection, state: Any, shard: int) -> Any:
    """Move the low-water marks of the lanes on.

    Args:
        conn: As in promote_tasks.
        state: What the last call gave, None at the start. Nobody else reads it.
        shard: Label of the shard.
    """
    bound = None if state is None else Jsonb(state)
    return (await _row(conn, "select skiplane.refresh_lanes(%s, %s)", (bound, shard)))[0]


async def refresh_depth(conn: AsyncConnection, shard: int) -> float:
    """Count what waits in each queue; give the seconds until the next count is worth it."""
    return float((await _row(conn, "select skiplane.refresh_depth(%s)", (shard,)))[0])


async def return_overflow(conn: AsyncConnection, limit: int, shard: int) -> int:
    """Move up to ``limit`` tasks back from overflow queues; give their number."""
    return int((await _row(conn, "select skiplane.return_overflow(%s, %s)", (limit, shard)))[0])


async def maintain_partitions(conn: AsyncConnection, days_ahead: int) -> list[str]:
    """Make partitions for ``days_ahead`` days, drop those past retention; say what was done."""
    cursor = await conn.execute("select skiplane.maintain_partitions(%s)", (days_ahead,))
    return [row[0] for row in await cursor.fetchall()]


async def sweep_history(conn: AsyncConnection, limit: int) -> int:
    """Delete up to ``limit`` small records that nobody needs any more; give their number."""
    return int((await _row(conn, "select skiplane.sweep_history(%s)", (limit,)))[0])


async def _row(
    conn: AsyncConnection, query: LiteralString, arguments: tuple[Any, ...] = ()
) -> tuple[Any, ...]:
    row = await (await conn.execute(query, arguments)).fetchone()
    if row is None:
        raise psycopg.DataError("a function that always answers gave no row")
    return row

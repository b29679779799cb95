"""The calls of the loop that fires schedules; both belong into one transaction."""

import datetime
from typing import Any, NamedTuple

import msgspec

from .connect import AsyncConnection
from .rows import one_row
from .scheduler_calls import CLOCK_SETTINGS

# What workers may have seen of a fire must not be forgotten by a crashed server,
# which would fire it again: these commits are worth a disk flush.
CRON_SETTINGS = {**CLOCK_SETTINGS, "synchronous_commit": "on"}


class Due(msgspec.Struct, frozen=True, array_like=True):
    """A schedule that is due, or whose expression nobody has read yet.

    Attributes:
        was: Its next fire time, None when it is not known.
        since: No fire up to here.
    """

    id: str
    expression: str
    zone: str
    was: datetime.datetime | None
    since: datetime.datetime
    start_at: datetime.datetime | None
    end_at: datetime.datetime | None
    missed_policy: str
    missed_limit: int


class Move(msgspec.Struct, frozen=True, omit_defaults=True):
    """One step of a schedule; see fire_schedules."""

    id: str
    was: datetime.datetime | None = None
    fire: datetime.datetime | None = None
    next: datetime.datetime | None = None
    catch_up: bool = False
    missed: bool = False
    error: str | None = None


class Taken(NamedTuple):
    """What take_due_schedules gave.

    Attributes:
        at: The database's time.
        due: The schedules, locked until the transaction ends.
        next_due_seconds: Time until the next one is due, None when none is known.
        after: Where the next call starts to look.
    """

    at: datetime.datetime
    due: list[Due]
    next_due_seconds: float | None
    after: datetime.datetime | None


_due = msgspec.json.Decoder(list[Due])


async def take_due_schedules(
    conn: AsyncConnection, limit: int, after: datetime.datetime | None, shard: int
) -> Taken:
    """Lock up to ``limit`` schedules that are due, and as many that were not read yet."""
    row = await one_row(
        conn,
        "select taken_at, due::text, next_due_seconds, after"
        " from skiplane.take_due_schedules(%s, %s, %s)",
        (limit, after, shard),
    )
    return Taken(row[0], _due.decode(row[1]) if row[1] else [], row[2], row[3])


async def fire_schedules(conn: AsyncConnection, moves: list[Move], shard: int) -> int:
    """Move schedules on and make their tasks; give the number of those that were moved."""
    bound: Any = msgspec.json.encode(moves).decode()
    row = await one_row(
        conn, "select skiplane.fire_schedules(cast(%s as jsonb), %s)", (bound, shard)
    )
    return int(row[0])


async def release_queued_fires(conn: AsyncConnection, limit: int, shard: int) -> int:
    """Start queued tasks whose predecessor has ended; give their number."""
    row = await one_row(conn, "select skiplane.release_queued_fires(%s, %s)", (limit, shard))
    return int(row[0])

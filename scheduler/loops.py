"""The loops: one class each, all safe beside any number of the same."""

import datetime
import random
import time
from abc import abstractmethod
from typing import Any, ClassVar

import structlog

from ..schema import scheduler_calls as calls
from ..schema.connect import AsyncConnection
from .link import Link
from .loop import Loop

log = structlog.get_logger(__name__)

# What a sweep remembers between turns is a shortcut: a row that commits behind
# the place that it has reached is found by the next look at everything.
SECONDS_BETWEEN_FULL_LOOKS = 30.0


class ShardLoop(Loop):
    """A loop that does its work shard by shard."""

    def __init__(self, link: Link, shards: list[int]) -> None:
        super().__init__(link)
        self.shards = shards

    async def run_once(self) -> float:
        """Visit every shard; give the shortest pause that one of them asked for."""
        pauses: list[float] = []
        failure: Exception | None = None
        for shard in self.shards:
            try:
                async with self.link.session() as conn:
                    pauses.append(await self.visit(conn, shard))
            except Exception as error:
                # One shard that is away must not keep the others waiting.
                failure = failure or error
        if failure is not None:
            raise failure
        return min(pauses)

    @abstractmethod
    async def visit(self, conn: AsyncConnection, shard: int) -> float:
        """Do it for one shard; give the seconds until the next time."""


class Promote(ShardLoop):
    """Makes tasks ready at their time."""

    name: ClassVar[str] = "promote"
    limit = 1000

    def __init__(self, link: Link, shards: list[int], tick: float) -> None:
        """Prepare the loop; ``tick`` is the longest pause in seconds."""
        super().__init__(link, shards)
        self.tick = tick
        self._after = Places()

    async def visit(self, conn: AsyncConnection, shard: int) -> float:
        """Promote what is due; the pause ends when the next task is due."""
        done = await calls.promote_tasks(conn, self.limit, self._after.get(shard), shard)
        self._after.set(shard, done.after)
        if done.promoted >= self.limit:
            return 0.0
        if done.next_due_seconds is None:
            return self.tick
        # In busy times not one task per turn.
        shortest = 0.0 if done.promoted < 5 else 0.005
        return min(self.tick, max(shortest, done.next_due_seconds))

    async def sleep(self, seconds: float) -> None:
        """Sleep to the tenth of a millisecond when a task is due within the tick.

        The event loop counts in milliseconds and rounds up. Holding it up for
        the last two costs the other loops nothing that they could notice.
        """
        end = time.perf_counter() + seconds
        if seconds >= self.tick:
            await super().sleep(seconds)
            return
        await super().sleep(seconds - 0.002)
        time.sleep(max(0.0, end - time.perf_counter()))  # noqa: ASYNC251


class Wake(ShardLoop):
    """Wakes workers that went idle at the moment when work came."""

    name: ClassVar[str] = "wake"

    def __init__(self, link: Link, shards: list[int], tick: float) -> None:
        """Prepare the loop; ``tick`` is the pause in seconds."""
        super().__init__(link, shards)
        self.tick = tick

    async def visit(self, conn: AsyncConnection, shard: int) -> float:
        """Notify the queues that have both idle workers and work."""
        await calls.wake_workers(conn, shard)
        return self.tick


class Leases(ShardLoop):
    """Takes back what lost workers held and what overran its time."""

    name: ClassVar[str] = "leases"
    limit = 5  # each may hold hundreds of tasks, and promotions wait meanwhile
    pause = 0.5

    def __init__(self, link: Link, shards: list[int]) -> None:
        super().__init__(link, shards)
        self._after = Places()

    async def visit(self, conn: AsyncConnection, shard: int) -> float:
        """Take back leases that have run out."""
        swept = await calls.sweep_leases(conn, self.limit, self._after.get(shard), shard)
        self._after.set(shard, swept.after)
        if swept.returned:
            log.info("took back lost tasks", tasks=swept.returned, shard=shard)
        return 0.0 if swept.returned else self.pause


class Expire(ShardLoop):
    """Ends tasks whose expires_at has passed before they started."""

    name: ClassVar[str] = "expire"
    limit = 1000
    pause = 0.1

    async def visit(self, conn: AsyncConnection, shard: int) -> float:
        """Expire what is over."""
        expired = await calls.expire_tasks(conn, self.limit, shard)
        return 0.0 if expired >= self.limit else self.pause


class Lanes(ShardLoop):
    """Keeps claims fast: remembers below which point of a lane nothing is left."""

    name: ClassVar[str] = "lanes"
    pause = 0.2

    def __init__(self, link: Link, shards: list[int]) -> None:
        super().__init__(link, shards)
        self._states: dict[int, Any] = {}

    async def visit(self, conn: AsyncConnection, shard: int) -> float:
        """Move the marks on from where this process left them."""
        # A failed turn leaves nothing behind that could be half right.
        state = self._states.pop(shard, None)
        self._states[shard] = await calls.refresh_lanes(conn, state, shard)
        return self.pause


class Depth(ShardLoop):
    """Counts what waits, for dashboards and for back-pressure."""

    name: ClassVar[str] = "depth"
    patience: ClassVar[float] = 3600.0

    async def visit(self, conn: AsyncConnection, shard: int) -> float:
        """Count; the database says when the next count is worth its cost."""
        return await calls.refresh_depth(conn, shard)


class Overflow(ShardLoop):
    """Moves tasks of low priority back to queues that have room again."""

    name: ClassVar[str] = "overflow"
    limit = 1000
    pause = 1.0

    async def visit(self, conn: AsyncConnection, shard: int) -> float:
        """Move one batch; come back at once while there is more."""
        moved = await calls.return_overflow(conn, self.limit, shard)
        return 0.0 if moved >= self.limit else self.pause


class Partitions(Loop):
    """Makes the partitions of the coming days and drops those past retention."""

    name: ClassVar[str] = "partitions"
    patience: ClassVar[float] = 3600.0
    days_ahead = 7
    pause = 600.0

    async def run_once(self) -> float:
        """Do what is due."""
        async with self.link.session() as conn:
            for line in await calls.maintain_partitions(conn, self.days_ahead):
                log.info("partitions", did=line)
        return self.pause * random.uniform(0.9, 1.1)


class History(Loop):
    """Deletes small records that nobody needs any more."""

    name: ClassVar[str] = "history"
    patience: ClassVar[float] = 3600.0
    limit = 1000
    pause = 60.0

    async def run_once(self) -> float:
        """Delete one batch; come back soon while there is more."""
        async with self.link.session() as conn:
            deleted = await calls.sweep_history(conn, self.limit)
        return 0.1 if deleted else self.pause * random.uniform(0.9, 1.1)


class Places:
    """Where the sweeps of each shard have come to."""

    def __init__(self, seconds: float = SECONDS_BETWEEN_FULL_LOOKS) -> None:
        """Prepare it; ``seconds`` lie between two looks at everything."""
        self._seconds = seconds
        self._places: dict[int, tuple[float, datetime.datetime | None]] = {}

    def get(self, shard: int) -> datetime.datetime | None:
        """Give the place, or None when it is time to look at everything."""
        begun, place = self._places.get(shard, (float("-inf"), None))
        return place if time.monotonic() - begun < self._seconds else None

    def set(self, shard: int, place: datetime.datetime | None) -> None:
        """Note what a sweep answered."""
        looked_at_all = self.get(shard) is None
        begun = time.monotonic() if looked_at_all else self._places[shard][0]
        self._places[shard] = (begun, place)

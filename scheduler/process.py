"""The scheduler process: its links, its loops, and the eye that is kept on them.

Order of a stop: no loop begins another turn; turns in progress have half a
second; what still runs then is cut off, and the server rolls it back or not:
every turn can be done again. Then the links are closed.
"""

import asyncio

import psycopg
import structlog

from ..schema import scheduler_calls as calls
from ..schema.connect import connect_sync
from ..schema.cron_loop_calls import CRON_SETTINGS
from ..schema.migrate import MigrationError, ensure_served
from .cron import Cron, Queued
from .link import Link, Outage, one_line
from .loop import Loop
from .loops import Depth, Expire, History, Lanes, Leases, Overflow, Partitions, Promote, Wake

log = structlog.get_logger(__name__)

LAST_TURN_SECONDS = 0.5
LOOK_SECONDS = 0.5


class NoEngine(Exception):
    """The database holds no engine that this scheduler could run."""


class Scheduler:
    """All loops on three connections, so that slow upkeep never delays what has a time."""

    def __init__(self, dsn: str, tick_ms: int) -> None:
        """Prepare a scheduler.

        Args:
            dsn: Where the database is.
            tick_ms: Longest pause of the loops that work by the clock, milliseconds.
        """
        outage = Outage()
        self._dsn = dsn
        self._tick = tick_ms / 1000
        self._clock = Link(dsn, outage, "scheduler", calls.CLOCK_SETTINGS)
        self._cron = Link(dsn, outage, "scheduler cron", CRON_SETTINGS)
        self._upkeep = Link(dsn, outage, "scheduler upkeep", calls.UPKEEP_SETTINGS)
        self.loops: list[Loop] = []

    async def run(self, stop: asyncio.Event) -> bool:
        """Run until ``stop`` is set (True) or a loop makes no progress (False).

        Raises:
            NoEngine: The schema is missing, or not open to this role.
        """
        try:
            if not await self._prepare(stop):
                return True
            tasks = [loop.start() for loop in self.loops]
            log.info("scheduler started", loops=[loop.name for loop in self.loops])
            well = await self._watch(tasks, stop)
            await asyncio.gather(*(loop.stop(LAST_TURN_SECONDS) for loop in self.loops))
        finally:
            self._clock.abort()
            self._cron.abort()
            self._upkeep.abort()
        log.info("scheduler stopped")
        return well

    async def _prepare(self, stop: asyncio.Event) -> bool:
        """Make the loops; False when ``stop`` came first, for the database may be away."""
        reading = asyncio.create_task(self._read_shards())
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait([reading, stopping], return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not reading.done():
            reading.cancel()
            return False
        self.loops = self._make_loops(await reading)
        return True

    async def _read_shards(self) -> list[int]:
        async with self._clock.session():
            pass  # the database is there
        try:
            await asyncio.to_thread(_ensure_served, self._dsn)
            async with self._clock.session() as conn:
                return await calls.shard_labels(conn)
        except (MigrationError, psycopg.ProgrammingError) as error:
            raise NoEngine(one_line(error)) from error

    def _make_loops(self, shards: list[int]) -> list[Loop]:
        clock, cron, upkeep = self._clock, self._cron, self._upkeep
        return [
            Promote(clock, shards, self._tick),
            Wake(clock, shards, self._tick),
            Leases(clock, shards),
            Expire(clock, shards),
            Lanes(clock, shards),
            Cron(cron, shards, self._tick),
            Queued(cron, shards),
            Depth(upkeep, shards),
            Overflow(upkeep, shards),
            Partitions(upkeep),
            History(upkeep),
        ]

    async def _watch(self, tasks: list[asyncio.Task[None]], stop: asyncio.Event) -> bool:
        while not stop.is_set():
            for loop, task in zip(self.loops, tasks, strict=True):
                if task.done():
                    cause = "cancelled" if task.cancelled() else repr(task.exception())
                    log.error("a loop ended", loop=loop.name, cause=cause)
                    return False
                if (late := loop.overdue_seconds()) > loop.patience:
                    log.error("a loop makes no progress", loop=loop.name, seconds=round(late))
                    return False
            try:
                async with asyncio.timeout(LOOK_SECONDS):
                    await stop.wait()
            except TimeoutError:
                continue
        return True


def _ensure_served(dsn: str) -> None:
    with connect_sync(dsn, "scheduler check") as conn:
        ensure_served(conn)

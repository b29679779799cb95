"""The loop that fires schedules; any number of them share the work."""

from datetime import datetime
from time import monotonic
from typing import ClassVar

import structlog

from ..schema import cron_loop_calls as calls
from ..schema.connect import AsyncConnection
from ..schema.cron_loop_calls import Due, Move
from .cron_moves import moves_of
from .link import Link
from .loops import Places, ShardLoop

log = structlog.get_logger(__name__)

SECONDS_BETWEEN_FULL_LOOKS = 4.0
DRIFT_KEPT_SECONDS = 60.0


class Cron(ShardLoop):
    """Makes the tasks of schedules at their times."""

    name: ClassVar[str] = "cron"
    limit = 200

    def __init__(self, link: Link, shards: list[int], tick: float) -> None:
        """Prepare the loop; ``tick`` is the longest pause in seconds."""
        super().__init__(link, shards)
        self.tick = tick
        self._drift = 0.0
        self._drift_at = float("-inf")
        # Another scheduler may have died with schedules in hand that this one has passed.
        self._after = Places(SECONDS_BETWEEN_FULL_LOOKS)

    async def visit(self, conn: AsyncConnection, shard: int) -> float:
        """Fire what is due; the pause ends when the next schedule is due."""
        async with conn.transaction():
            taken = await calls.take_due_schedules(conn, self.limit, self._after.get(shard), shard)
            left = await self._fire(conn, taken.due, taken.at, shard)
        self._note_drift(taken.due, taken.at)
        # What is still due lies before the place that all others have passed.
        place = taken.after if left is None or taken.after is None else min(taken.after, left)
        self._after.set(shard, place)
        if left is not None:
            return 0.0
        if taken.next_due_seconds is None:
            return self.tick
        # In busy times not one fire per turn.
        shortest = 0.0 if len(taken.due) < 5 else 0.005
        return min(self.tick, max(shortest, taken.next_due_seconds))

    def drift_seconds(self) -> float:
        """Give the largest lateness of a fire in the last minute, by the database's clock."""
        return self._drift if monotonic() - self._drift_at < DRIFT_KEPT_SECONDS else 0.0

    def _note_drift(self, due: list[Due], now: datetime) -> None:
        drifts = [(now - schedule.was).total_seconds() for schedule in due if schedule.was]
        if drifts and (latest := max(drifts)) >= self.drift_seconds():
            self._drift, self._drift_at = latest, monotonic()

    async def _fire(
        self, conn: AsyncConnection, due: list[Due], now: datetime, shard: int
    ) -> datetime | None:
        """Move schedules on, step by step; give the earliest that is still due."""
        steps: list[list[Move]] = []
        for schedule in due:
            for number, move in enumerate(_moves(schedule, now)):
                if number == len(steps):
                    steps.append([])
                steps[number].append(move)
        stuck: list[datetime | None] = []
        for moves in steps:
            if await calls.fire_schedules(conn, moves, shard) < len(moves):
                # A task that one of them replaces could not be cancelled just now.
                stuck += [move.was for move in moves]
        ends = {move.id: move.next for moves in steps for move in moves}
        return min((at for at in [*ends.values(), *stuck] if at and at <= now), default=None)


class Queued(ShardLoop):
    """Starts tasks of schedules that waited until the one before them had ended."""

    name: ClassVar[str] = "cron queue"
    limit = 100
    pause = 0.1

    async def visit(self, conn: AsyncConnection, shard: int) -> float:
        """Look at those whose time it is."""
        await calls.release_queued_fires(conn, self.limit, shard)
        return self.pause


def _moves(schedule: Due, now: datetime) -> list[Move]:
    """Compute one schedule's steps; whatever is wrong with it is its own affair."""
    try:
        return moves_of(schedule, now)
    except Exception as error:
        log.error("a schedule cannot be computed", cron_id=schedule.id, cause=repr(error))
        return [Move(schedule.id, schedule.was, error=f"it cannot be computed: {error!r}"[:500])]

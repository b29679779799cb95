"""Queues over their caps, as the scheduler last counted them."""

import asyncio
import contextlib

import structlog

from ..schema.errors import SkiplaneError
from ..schema.web_calls import queue_pressure
from .database import Database
from .problems import Problem

log = structlog.get_logger(__name__)

LOOK_SECONDS = 1.0
FULL_RETRY_SECONDS = 5
OVERFLOW = "~overflow"


class Pressure:
    """Knows which queues are over a cap."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.queues: dict[str, tuple[int, str]] = {}

    async def look(self) -> None:
        """Look now."""
        self.queues = await self._database.run(queue_pressure())

    async def keep_looking(self) -> None:
        """Look once a second until cancelled."""
        while True:
            # While the database is away nothing is taken anyway.
            with contextlib.suppress(SkiplaneError):
                await self.look()
            await asyncio.sleep(LOOK_SECONDS)

    def queue_for(self, queue: str, priority: str, where: str = "") -> str:
        """Give the queue that a submission goes to: its own, or while that is busy its overflow.

        Raises:
            Problem: The queue is full.
        """
        if queue not in self.queues:
            return queue
        self.refuse_full(queue, where)
        overflow = f"{queue}{OVERFLOW}"
        if priority == "low" and not queue.endswith(OVERFLOW) and len(overflow.encode()) <= 200:
            self.refuse_full(overflow, where)
            return overflow
        return queue

    def refuse_full(self, queue: str, where: str = "") -> None:
        """Refuse (Problem) what goes to a queue that is full; ``where`` stands before the field."""
        depth, pressure = self.queues.get(queue, (0, "none"))
        if pressure == "full":
            raise Problem(
                "queue_full",
                f"Queue {queue} has {depth} waiting tasks and takes no more.",
                f"{where}queue",
                queue,
                "Come again later, add workers, or raise queue_hard_cap.",
                headers={"retry-after": str(FULL_RETRY_SECONDS)},
            )

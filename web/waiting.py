"""Waiting for results: one look for all who wait, however many they are."""

import asyncio
import time
from collections import defaultdict
from uuid import UUID

import structlog

from ..schema.errors import SkiplaneError
from ..schema.web_calls import ended_tasks
from .database import Database

log = structlog.get_logger(__name__)

SHORTEST_SECONDS = 0.02
LONGEST_SECONDS = 0.25
MOST_IDS = 500


class Waiting:
    """Looks for the ends of tasks while somebody waits for one."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: dict[UUID, set[asyncio.Future[str | None]]] = defaultdict(set)
        self._somebody = asyncio.Event()
        self._closed = False

    async def result(self, task_id: UUID, seconds: float) -> str | None:
        """Give the document of the task's end, None when it has not ended in time."""
        if self._closed:
            return None
        future: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self._waiting[task_id].add(future)
        self._somebody.set()
        try:
            async with asyncio.timeout(seconds):
                return await future
        except TimeoutError:
            return None
        finally:
            waiting = self._waiting.get(task_id)
            if waiting is not None:
                waiting.discard(future)
                if not waiting:
                    del self._waiting[task_id]

    async def keep_looking(self) -> None:
        """Look until cancelled, sooner when looks are cheap."""
        while True:
            await self._somebody.wait()
            begun = time.monotonic()
            try:
                await self._look()
            except SkiplaneError as error:
                log.warning("cannot look for results", error=error.message)
                await asyncio.sleep(LONGEST_SECONDS)
            if not self._waiting:
                self._somebody.clear()
            # A fifth of one connection's time at most.
            pause = 4 * (time.monotonic() - begun)
            await asyncio.sleep(min(LONGEST_SECONDS, max(SHORTEST_SECONDS, pause)))

    async def _look(self) -> None:
        ids = list(self._waiting)
        for start in range(0, len(ids), MOST_IDS):
            ended = await self._database.run(ended_tasks(ids[start : start + MOST_IDS]))
            for task_id, document in ended.items():
                self._give(task_id, document)

    def _give(self, task_id: UUID, document: str | None) -> None:
        for future in self._waiting.get(task_id, ()):
            if not future.done():
                future.set_result(document)

    def close(self) -> None:
        """Let everybody go, as at the end of their time: the process stops."""
        self._closed = True
        for task_id in list(self._waiting):
            self._give(task_id, None)

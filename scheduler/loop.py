"""What all loops of the scheduler have in common."""

import asyncio
import random
import time
from abc import ABC, abstractmethod
from typing import ClassVar

import structlog

from .link import Link, LinkLost, one_line

log = structlog.get_logger(__name__)

LONGEST_PAUSE = 5.0
SECONDS_BETWEEN_COMPLAINTS = 10.0


class Loop(ABC):
    """Something that is done again and again.

    A failed turn is logged with its cause and tried again after a pause; the
    loop itself ends only when it is stopped.

    Attributes:
        name: How the log calls it.
        patience: Seconds by which a good turn may be late before the process
            gives up; longer for what takes long with large tables.
        good_turns: How many turns have succeeded.
        failed_turns: How many have not.
        busy_seconds: How long all turns took.
        progress_at: The end of the last good turn (monotonic).
    """

    name: ClassVar[str]
    patience: ClassVar[float] = 60.0

    def __init__(self, link: Link) -> None:
        self.link = link
        self._task: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()
        self._failures = 0
        self._complained = False
        self._complained_at = float("-inf")
        self._due_at = time.monotonic()
        self.good_turns = self.failed_turns = 0
        self.busy_seconds = 0.0
        self.progress_at = time.monotonic()

    @abstractmethod
    async def run_once(self) -> float:
        """Do it once; give the seconds until it should be done again."""

    def start(self) -> asyncio.Task[None]:
        """Begin to run; the returned task ends when the loop is stopped."""
        self._task = asyncio.create_task(self._run(), name=self.name)
        return self._task

    async def stop(self, seconds: float) -> None:
        """End: a turn in progress may take up to ``seconds``, then it is cut off."""
        self._stopping.set()
        if self._task is None:
            return
        done, _ = await asyncio.wait([self._task], timeout=seconds)
        if not done:
            self.link.abort()
            self._task.cancel()
            await asyncio.wait([self._task])

    def overdue_seconds(self) -> float:
        """Give the time by which a successful turn is late.

        Waiting for a database that is away does not count: no process that is
        started in this one's place would do better.
        """
        if self.link.away:
            return 0.0
        return time.monotonic() - max(self._due_at, self.link.back_at)

    async def _run(self) -> None:
        while not self._stopping.is_set():
            began = time.monotonic()
            try:
                pause = await self.run_once()
            except LinkLost:
                pause = self._failed()
            except Exception as error:
                self._complain(error)
                pause = self._failed()
            else:
                self._succeeded(pause)
            self.busy_seconds += time.monotonic() - began
            await self.sleep(pause)

    async def sleep(self, seconds: float) -> None:
        """Let time pass until the next turn, or until the loop is stopped."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            pass

    def _succeeded(self, pause: float) -> None:
        if self._complained:
            log.info("a loop works again", loop=self.name, failures=self._failures)
        self._failures, self._complained = 0, False
        self.good_turns += 1
        self.progress_at = time.monotonic()
        self._due_at = self.progress_at + pause

    def _failed(self) -> float:
        self._failures += 1
        self.failed_turns += 1
        longest = min(LONGEST_PAUSE, 0.05 * 2.0 ** min(self._failures, 10))
        return longest * random.uniform(0.5, 1)

    def _complain(self, error: Exception) -> None:
        now = time.monotonic()
        if now - self._complained_at < SECONDS_BETWEEN_COMPLAINTS:
            return
        self._complained, self._complained_at = True, now
        log.error(
            "a turn of a loop failed; it is tried again",
            loop=self.name,
            cause=f"{type(error).__name__}: {one_line(error)}",
            failures=self._failures + 1,
        )

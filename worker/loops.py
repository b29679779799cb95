"""Loops of the event loop that go on whatever task code does to them."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from .outage import Outage, pause_seconds

# A loop that ran for so long and then ends is started again without much pause.
_WELL_SECONDS = 30.0

Body = Callable[[], Coroutine[Any, Any, None]]


class Loops:
    """Runs coroutines that should not end, and starts those again that do.

    Task code shares the event loop and may cancel every task in it; what
    starts a loop again is a callback, which nobody can cancel.
    """

    def __init__(self, outage: Outage) -> None:
        self._outage = outage
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._failures: dict[str, int] = {}
        self._stopping = False
        self._loop = asyncio.get_running_loop()

    def start(self, name: str, body: Body) -> None:
        """Run a coroutine until ``stop``."""
        if self._stopping:
            return
        began = self._loop.time()
        task = self._loop.create_task(body())
        self._tasks[name] = task
        task.add_done_callback(lambda done: self._ended(name, body, done, began))

    def _ended(self, name: str, body: Body, task: asyncio.Task[None], began: float) -> None:
        if self._stopping or self._loop.is_closed():
            return
        error = None if task.cancelled() else task.exception()
        if error is None and not task.cancelled():
            return
        if self._loop.time() - began > _WELL_SECONDS:
            self._failures.pop(name, None)
        failures = self._failures.get(name, 0)
        self._failures[name] = failures + 1
        if error is None:
            error = RuntimeError("cancelled from outside")
        self._outage.failed(name, error)
        self._loop.call_later(pause_seconds(failures), self.start, name, body)

    async def stop(self) -> None:
        """Cancel the loops and wait for their end."""
        self._stopping = True
        for task in self._tasks.values():
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks.values(), timeout=5)

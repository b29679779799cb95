"""The order in which a worker stops.

A task must neither be taken away while it still runs nor be run again after it
is done, so:

1. claim: no new tasks; what has not begun goes back at once, uncharged;
2. tasks: those that run may finish within the grace; then they are told to
   stop, are killed after the kill grace, and go back uncharged;
3. completion: all ends are recorded, tried again while their leases last;
4. heartbeat, which has kept the leases until here;
5. listener, and the connections that record;
6. pool: the pool processes and threads.
"""

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic

import structlog

from ..schema import worker_calls as calls
from ..schema.connect import AsyncConnection, connect_async
from .claimer import Claimer
from .heartbeat import Heartbeat
from .loops import Loops
from .outage import one_line
from .runner import Runner
from .settings import WorkerSettings

log = structlog.get_logger(__name__)

_LOOK_SECONDS = 0.01


class Shutdown:
    """One stop of one worker."""

    def __init__(
        self,
        settings: WorkerSettings,
        worker_id: str,
        runner: Runner,
        claimer: Claimer,
        loops: Loops,
    ) -> None:
        self._settings = settings
        self._worker_id = worker_id
        self._runner = runner
        self._claimer = claimer
        self._loops = loops

    async def run(self, heartbeat: Heartbeat, close_executors: Callable[[], None]) -> None:
        """Take the steps 1 to 6.

        Args:
            heartbeat: The heartbeat.
            close_executors: Ends pool processes and threads.
        """
        log.info("worker stopping", running=self._runner.slots.running)
        self._stop_claiming()
        if self._claimer.items():
            showing = asyncio.ensure_future(self._show())
            await self._finish_tasks()
            showing.cancel()
        await self._finish_recording()
        heartbeat.stop()
        await self._loops.stop()
        close_executors()

    def _stop_claiming(self) -> None:
        self._claimer.claiming = False
        self._claimer.appetite.close()
        self._runner.hand_back_waiting()
        self._claimer.flush()

    async def _show(self) -> None:
        await _say(self._settings, self._worker_id, calls.drain_worker)

    async def _finish_tasks(self) -> None:
        items, settings = self._claimer.items, self._settings
        if await _until(lambda: not items(), settings.grace_seconds):
            return
        for item in items():
            self._runner.stop(item, "shutdown")
        await _until(lambda: not items(), settings.kill_grace_seconds + 1)

    async def _finish_recording(self) -> None:
        # A claim may still be on its way; what it brings goes back by itself.
        claimer = self._claimer
        claimer.flush()
        ends = [lease.until for lease in claimer.leases.values()]
        ends += [sent + self._settings.lease_seconds for sent in claimer.sent.values()]
        seconds = max(ends, default=0.0) - monotonic()
        if not await _until(lambda: not claimer.unrecorded() and not claimer.sent, seconds):
            log.error("ends of tasks could not be recorded", count=claimer.unrecorded())


async def unregister(settings: WorkerSettings, worker_id: str) -> None:
    """Take a stopped worker off the list; what fails is told, no more."""
    await _say(settings, worker_id, calls.unregister_worker)


async def _say(
    settings: WorkerSettings,
    worker_id: str,
    call: Callable[[AsyncConnection, str], Awaitable[None]],
) -> None:
    try:
        async with asyncio.timeout(2):
            conn, _ = await connect_async(settings.dsn, "worker", prepare=False)
            async with conn:
                await call(conn, worker_id)
    except Exception as error:
        log.warning("operators cannot be told that the worker stops", cause=one_line(error))


async def _until(done: Callable[[], bool], seconds: float) -> bool:
    end = monotonic() + seconds
    while not done():
        if monotonic() >= end:
            return False
        await asyncio.sleep(_LOOK_SECONDS)
    return True

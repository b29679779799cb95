"""One worker process: its parts, put together. How it stops stands in shutdown."""

import asyncio
import os
import socket
from collections.abc import Callable
from contextvars import Context
from time import monotonic

import structlog

from ..schema import worker_calls as calls
from ..schema.connect import AsyncConnection, connect_async, connect_sync
from ..schema.migrate import ensure_served
from ..schema.pools import AsyncPool
from ..schema.worker_calls import Claim, Registration, text_array
from .appetite import Appetite
from .begun import Begun
from .claim_loop import serve
from .claimer import Claimer
from .heartbeat import Heartbeat, Held
from .leases import Item
from .listener import Listener
from .loops import Loops
from .metrics import WorkerMetrics
from .orders import ExitCode
from .outage import Outage, is_outage, pause_seconds
from .pool import Pool
from .registry import Registry
from .runner import Runner
from .settings import WorkerSettings
from .shutdown import Shutdown, unregister
from .slots import Slots
from .threads import Threads
from .tracing import WorkerTracing

log = structlog.get_logger(__name__)

TICK_SECONDS = 0.050
# A loop that has failed for so long, with the database there, will not recover.
PATIENCE_SECONDS = 300.0
# Where only lost tasks need processes, which take memory: so many at least are allowed.
_APART_PROCESSES = 4


class Worker:
    """Claims and runs tasks until it is told to stop."""

    def __init__(
        self,
        settings: WorkerSettings,
        registry: Registry,
        worker_id: str,
        guard: int | None = None,
        own_process: bool = False,
        processes: bool = True,
        patience: float = PATIENCE_SECONDS,
        begun: Begun | None = None,
        metrics: WorkerMetrics | None = None,
        tracing: WorkerTracing | None = None,
    ) -> None:
        """Prepare a worker; on the event loop that will run it.

        Args:
            settings: What it serves and how.
            registry: The tasks that it knows.
            worker_id: Its identity: new with every start.
            guard: See Pool.
            own_process: Whether nobody but task code could cancel ``run``.
            processes: Whether ``process`` tasks get processes; else they get threads.
            patience: Seconds that a loop may fail for a cause other than an outage.
            begun: Where a supervisor sees which tasks have begun.
            metrics: Where it is counted what becomes of tasks.
            tracing: What makes spans of tasks.
        """
        self.settings = settings
        self.exit_code = ExitCode.DONE
        self.slots = Slots(settings.concurrency)
        self.outage = Outage()
        self._registry = registry
        self._worker_id = worker_id
        self._guard = guard
        self._own_process = own_process
        self._processes = processes
        self._patience = patience
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        self._contexts = AsyncPool(
            settings.dsn, 2 * settings.concurrency, role="task", prepare=settings.prepare
        )
        self.runner = Runner(
            registry,
            self.slots,
            worker_id,
            self._contexts,
            settings.kill_grace_seconds,
            begun or Begun(),
        )
        self.runner.apart = self._apart
        self.runner.metrics = metrics
        self.runner.tracing = tracing
        if metrics is not None:
            metrics.watch(self)
        self._loops = Loops(self.outage)
        self._listener = Listener(
            settings.listen_dsn or settings.dsn, worker_id, list(settings.queues), self.outage
        )
        self.claimer: Claimer | None = None
        self._pool: Pool | None = None
        self._pool_starts = True
        self._threads: Threads | None = None
        self._ticker: asyncio.TimerHandle | None = None

    def stop(self, code: ExitCode = ExitCode.DONE) -> None:
        """Stop gracefully; in the event loop's thread. The first reason counts."""
        if not self._stop.is_set():
            self.exit_code = code
            self._stop.set()

    @property
    def idle(self) -> bool:
        """Whether the last claim found nothing, nothing runs, and all ends are recorded."""
        claimer = self.claimer
        return (
            claimer is not None
            and not claimer.appetite.more
            and not claimer.sent
            and not self.slots.held
            and not claimer.unrecorded()
        )

    def fatal(self, why: str) -> None:
        """Stop because the process is worn out."""
        log.error("the worker must be started again", cause=why)
        self.stop(ExitCode.RESTART)

    async def run(self, on_ready: Callable[[], None] = lambda: None) -> ExitCode:
        """Work until stopped.

        Args:
            on_ready: Called when it claims.
        """
        shards = await self._register()
        if shards is None:
            return self.exit_code
        claimer, heartbeat = self._start(shards)
        on_ready()
        log.info(
            "worker started",
            worker_id=self._worker_id,
            queues=self.settings.queues,
            concurrency=self.settings.concurrency,
        )
        await self._wait_for_stop()
        stop = Shutdown(self.settings, self._worker_id, self.runner, claimer, self._loops)
        await stop.run(heartbeat, self._close_executors)
        await unregister(self.settings, self._worker_id)
        log.info("worker stopped", worker_id=self._worker_id)
        return self.exit_code

    async def _wait_for_stop(self) -> None:
        while not self._stop.is_set():
            try:
                await self._stop.wait()
            except asyncio.CancelledError:
                # A task may cancel everything in the loop, but not its worker.
                if not self._own_process:
                    raise

    async def _register(self) -> list[int] | None:
        """Make the worker known; None when it is stopped before that."""
        failures = 0
        while not self._stop.is_set():
            try:
                await asyncio.to_thread(_ensure_served, self.settings.dsn)
                conn, _ = await connect_async(self.settings.dsn, "worker", prepare=False)
                try:
                    shards = await calls.shard_labels(conn)
                    await calls.register_worker(conn, self._registration())
                    await self._declare_limits(conn)
                    return shards
                finally:
                    await conn.close()
            except Exception as error:
                if not is_outage(error):
                    raise
                self.outage.failed("start", error)
            try:
                async with asyncio.timeout(pause_seconds(failures)):
                    await self._stop.wait()
            except TimeoutError:
                failures += 1
        return None

    async def _declare_limits(self, conn: AsyncConnection) -> None:
        for name in self._registry.names():
            definition = self._registry.get(name)
            if definition is not None and definition.limits:
                await calls.declare_limits(conn, name, definition.limits)

    def _registration(self) -> Registration:
        settings = self.settings
        return Registration(
            self._worker_id,
            settings.name,
            list(settings.queues),
            self._types(),
            settings.concurrency,
            socket.gethostname(),
            os.getpid(),
            settings.lease_seconds,
            settings.supervisor_id,
        )

    def _types(self) -> list[str]:
        return list(self.settings.types) or self._registry.names()

    def _start(self, shards: list[int]) -> tuple[Claimer, Heartbeat]:
        settings = self.settings
        self._start_executors()
        claim = Claim(
            self._worker_id,
            text_array(settings.queues),
            text_array(self._types()),
            settings.lease_seconds,
        )
        appetite = Appetite(settings.poll_seconds, len(shards), lambda: claimer.wake())
        claimer = Claimer(claim, self.runner, self._listener, appetite, shards)
        self.claimer = claimer
        heartbeat = Heartbeat(settings, self._worker_id, shards, self.outage, self._held)
        heartbeat.on_lost = self._from_thread(self._lost)
        if (metrics := self.runner.metrics) is not None:
            heartbeat.on_clock = lambda ahead: setattr(metrics, "database_ahead", ahead)
        heartbeat.on_drain = self._from_thread(lambda: self.stop(ExitCode.DRAINED))
        self._listener.on_work = appetite.wake
        self._listener.on_lost = claimer.on_stale = heartbeat.kick
        serve(claimer, self._loops, self.outage, settings)
        self._loops.start("listener", self._listener.run)
        heartbeat.start()
        self._tick()
        return claimer, heartbeat

    def _start_executors(self) -> None:
        modes = {
            definition.mode
            for name in self._types()
            if (definition := self._registry.get(name)) is not None
        }
        if "process" in modes and self._processes:
            settings = self.settings
            self.runner.executors["process"] = self._start_pool(
                settings.pool or settings.concurrency
            )
        if "thread" in modes or ("process" in modes and not self._processes):
            self._threads = Threads(
                self.settings,
                self._worker_id,
                self._registry,
                self.runner,
                lambda: self.fatal("all threads are lost to tasks that do not stop"),
            )
            self.runner.executors["thread"] = self._threads
            self.runner.executors.setdefault("process", self._threads)

    def _start_pool(self, size: int, unusable: Callable[[str], None] | None = None) -> Pool:
        pool = Pool(
            self.settings, self._worker_id, self.runner, size, self._guard, self.fatal, unusable
        )
        self._pool = pool
        pool.start()
        return pool

    def _apart(self) -> Pool | None:
        if self._pool is None and self._processes:
            # This is called by one task or another, to which the pool does not belong.
            size = self.settings.pool or max(_APART_PROCESSES, os.cpu_count() or 1)
            Context().run(self._start_pool, min(size, self.settings.concurrency), self._run_here)
        return self._pool if self._pool_starts else None

    def _run_here(self, why: str) -> None:
        """Do without a pool that only lost tasks need, in an app that cannot be there twice."""
        log.error("lost tasks cannot run apart; they run with the others", cause=why)
        self._pool_starts = False
        if self._pool is not None:
            self.runner.restart(self._pool.withdraw())

    def _from_thread(self, call: Callable[..., None]) -> Callable[..., None]:
        def forward(*arguments: object) -> None:
            if not self._loop.is_closed():
                self._loop.call_soon_threadsafe(call, *arguments)

        return forward

    def _held(self) -> Held:
        # Called in the heartbeat's thread. Claims first: one whose answer comes
        # between the two looks is then in both, never in neither.
        claimer = self.claimer
        assert claimer is not None
        oldest = min(list(claimer.sent.values()), default=None)
        return Held(list(claimer.leases.values()), oldest)

    def _lost(self, items: list[Item]) -> None:
        if self.runner.metrics is not None:
            self.runner.metrics.lost(len(items))
        for item in items:
            if not item.recorded:
                self.runner.stop(item, "cancelled")

    def _tick(self) -> None:
        claimer = self.claimer
        self.outage.progress["event loop"] = monotonic()
        if claimer is not None and self.slots.held:
            items = claimer.items()
            running = [item for item in items if item.placed]
            self.runner.look(running)
            if self.slots.look(running):
                self.runner.hand_back_waiting()
        if self.outage.wrong_seconds() > self._patience:
            self.fatal("a loop has made no progress for too long")
        self._ticker = self._loop.call_later(TICK_SECONDS, self._tick)

    def _close_executors(self) -> None:
        if self._ticker is not None:
            self._ticker.cancel()
        if self._pool is not None:
            self._pool.close()
        if self._threads is not None:
            self._threads.close()
        self._contexts.close()


def _ensure_served(dsn: str) -> None:
    with connect_sync(dsn, "worker", prepare=False) as conn:
        ensure_served(conn)

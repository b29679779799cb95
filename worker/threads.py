"""Running ``def`` tasks in threads, for those who ask for it.

A thread cannot be killed. When a task's time is up and it has not returned, the
attempt is recorded as timed out although its code may still run (so that two
copies may run at once), and the thread is reported lost. When every thread is
lost, the worker takes no new tasks and ends, so that its supervisor starts it
again.
"""

import asyncio
import inspect
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from time import monotonic

import structlog

from ..schema.pools import SyncPool
from .children import running
from .context import SyncContext
from .leases import Item
from .outcome import Failure, encode_result, failure_from
from .registry import Registry
from .runner import Runner
from .settings import WorkerSettings

log = structlog.get_logger(__name__)


class Threads:
    """The threads of one worker. An Executor."""

    apart = False

    def __init__(
        self,
        settings: WorkerSettings,
        worker_id: str,
        registry: Registry,
        runner: Runner,
        on_all_lost: Callable[[], None],
    ) -> None:
        """Prepare; threads start when they are needed.

        Args:
            settings: How many, and where the database is.
            worker_id: The worker.
            registry: The tasks' functions.
            runner: Who is told of ends.
            on_all_lost: Called when no thread is left that could work.
        """
        self._size = settings.threads or settings.concurrency
        self._worker_id = worker_id
        self._registry = registry
        self._runner = runner
        self._on_all_lost = on_all_lost
        self._pool = SyncPool(settings.dsn, 2 * self._size, role="task", prepare=settings.prepare)
        self._queue: SimpleQueue[Item | None] = SimpleQueue()
        self._waiting: deque[Item] = deque()
        self._threads = 0
        self._busy = 0
        self._lost: set[Item] = set()
        self._loop = asyncio.get_running_loop()

    def submit(self, item: Item) -> None:
        """See Executor."""
        self._waiting.append(item)
        self._dispatch()

    def ask(self, item: Item) -> None:
        """See Executor: its context tells the task, and nothing else can."""
        if not item.started:
            self._runner.end_stopped(item)

    def force(self, item: Item) -> None:
        """See Executor: count its thread as lost."""
        if not item.started:
            self._runner.end_stopped(item)
            return
        self._lost.add(item)
        log.error(
            "a thread is lost: its task does not stop and may still run",
            task_id=item.task.task_id,
            task_type=item.task.task_type,
            lost=len(self._lost),
            threads=self._size,
        )
        self._runner.end_stopped(item)
        if len(self._lost) >= self._size:
            self._on_all_lost()

    def withdraw(self) -> list[Item]:
        """See Executor."""
        items = list(self._waiting)
        self._waiting.clear()
        return items

    def close(self) -> None:
        """Let idle threads end; what is stuck ends with the process."""
        for _ in range(self._threads):
            self._queue.put(None)
        self._pool.close()

    def _dispatch(self) -> None:
        while self._waiting and self._busy < self._size:
            item = self._waiting.popleft()
            if item.ended:
                continue
            if self._busy == self._threads:
                threading.Thread(target=self._work, name="task", daemon=True).start()
                self._threads += 1
            self._busy += 1
            self._runner.began(item)
            self._queue.put(item)

    def _work(self) -> None:
        while (item := self._queue.get()) is not None:
            began = monotonic()
            result, failure = self._run(item)
            took = monotonic() - began
            try:
                self._loop.call_soon_threadsafe(self._returned, item, result, failure, took)
            except RuntimeError:  # the loop has ended
                return

    def _run(self, item: Item) -> tuple[str | None, Failure | None]:
        definition = item.definition
        assert definition is not None
        running.set(item)
        tracing = self._runner.tracing
        if tracing is not None:
            tracing.enter(item)
        try:
            arguments, keywords = self._registry.arguments(definition).bind_json(item.task.payload)
            if definition.takes_context:
                arguments = (SyncContext(item, self._worker_id, self._pool), *arguments)
            value = definition.function(*arguments, **keywords)
            if inspect.iscoroutine(value):
                value = asyncio.run(value)
            return encode_result(value), None
        except BaseException as error:  # the task's exit is its failure, not the thread's end
            return None, failure_from(error, definition)

    def _returned(
        self, item: Item, result: str | None, failure: Failure | None, took: float
    ) -> None:
        self._busy -= 1
        self._lost.discard(item)
        if item.stop is not None and not item.ended and not item.recorded:
            self._runner.end_stopped(item)
        elif result is not None:
            self._runner.succeed(item, result, took)
        elif failure is not None:
            self._runner.fail(item, failure)
        self._dispatch()

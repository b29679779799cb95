"""Running tasks: places, time-outs, stops, and exactly one end for each.

A task ends once, by whichever comes first: its body, its time-out plus a grace,
its pool process's death, or a stop. What its body does later is not looked at.
"""

import asyncio
import contextvars
from collections.abc import Callable, Iterable
from time import monotonic

import structlog

from ..schema.pools import AsyncPool
from .begun import Begun
from .children import kill_children, running
from .context import Context
from .executor import Executor
from .leases import Item, Lease, Stop
from .metrics import WorkerMetrics
from .outcome import Failure, describe, encode_result, failure_from
from .registry import Registry, TaskDefinition
from .slots import Slots
from .tracing import WorkerTracing

log = structlog.get_logger(__name__)

RELEASE = Failure("release")


class Runner:
    """Starts claimed tasks as places become free, and settles how each ends.

    Attributes:
        slots: The places.
        begun: What counts as begun if this process dies.
        executors: Where ``process`` and ``thread`` tasks run.
        apart: Gives where tasks run whose last attempt was lost with its process:
            in a process of their own, so that what kills it kills nothing else.
            None where there is no such place.
        on_end: Called with the lease of each task that has ended.
        metrics: Where starts and ends are counted; None: nowhere.
        tracing: What makes spans of tasks; None: nothing.
    """

    def __init__(
        self,
        registry: Registry,
        slots: Slots,
        worker_id: str,
        pool: AsyncPool,
        kill_grace: float,
        begun: Begun,
    ) -> None:
        self.slots = slots
        self.begun = begun
        self.executors: dict[str, Executor] = {}
        self.apart: Callable[[], Executor | None] = lambda: None
        self.on_end: Callable[[Lease], None] = lambda lease: None
        self.metrics: WorkerMetrics | None = None
        self.tracing: WorkerTracing | None = None
        self._registry = registry
        self._worker_id = worker_id
        self._pool = pool
        self._kill_grace = kill_grace
        self._loop = asyncio.get_running_loop()
        # Tasks are started from within others, and must not see their context.
        self._context = contextvars.copy_context()
        self._filling = False

    def fill(self) -> None:
        """Give free places to waiting tasks."""
        if self._filling:  # a task that fails at once gets here again, task by task
            return
        self._filling = True
        slots = self.slots
        waiting = slots.waiting
        now = monotonic()
        while waiting and slots.running < slots.size:
            item = waiting.popleft()
            if not item.ended:
                slots.running += 1
                item.placed = slots.last_start = now
                self._start(item)
        self._filling = False

    def _start(self, item: Item) -> None:
        definition = self._registry.get(item.task.task_type)
        if definition is None:
            self.fail(item, _unknown(item.task.task_type))
            return
        item.definition = definition
        item.executor = self.executors.get(definition.mode)
        if item.task.lost:
            item.executor = self.apart() or item.executor
        if item.executor is None:
            item.handle = self._loop.create_task(
                self._run(item, definition), context=self._context.copy()
            )
        else:
            item.executor.submit(item)

    def restart(self, items: Iterable[Item]) -> None:
        """Start tasks anew for which there was no place after all."""
        for item in items:
            if not item.ended:
                item.executor = None
                self._start(item)

    async def _run(self, item: Item, definition: TaskDefinition) -> None:
        running.set(item)
        self.began(item)
        if self.tracing is not None:
            self.tracing.enter(item)
        try:
            arguments, keywords = self._registry.arguments(definition).bind_json(item.task.payload)
            if definition.takes_context:
                context = Context(item, self._worker_id, self._pool)
                value = await definition.function(context, *arguments, **keywords)
            else:
                value = await definition.function(*arguments, **keywords)
            result = encode_result(value)
        except BaseException as error:  # a task's exit or cancellation is its failure, not ours
            if item.stop is None:
                self.fail(item, failure_from(error, definition))
            else:
                self._end_stopped(item)
        else:
            if item.stop == "timeout":
                self._end_stopped(item)
            else:
                self.succeed(item, result)

    def began(self, item: Item) -> None:
        """Note that a task's execution begins now: its time starts to run."""
        item.started = monotonic()
        if item.ended:
            return
        if self.metrics is not None:
            self.metrics.began(item)
        if self.tracing is not None:
            self.tracing.began(item)
        apart = item.executor is not None and item.executor.apart
        self.begun.add(item.lease, item.task.task_id, apart)
        if item.task.timeout_seconds is not None:
            item.timer = self._loop.call_later(
                item.task.timeout_seconds, self.stop, item, "timeout"
            )

    def not_begun(self, item: Item) -> None:
        """Note that an executor has not begun a task after all."""
        if item.timer is not None:
            item.timer.cancel()
            item.timer = None
        item.started = 0.0
        self._unnote(item)

    def _unnote(self, item: Item) -> None:
        self.begun.discard(item.lease, (item.task.task_id,))

    def succeed(self, item: Item, result: str, took: float | None = None) -> None:
        """Settle that a task succeeded.

        Args:
            item: The task.
            result: JSON text.
            took: Seconds, where an executor has measured them; else until now.
        """
        if item.ended:
            return
        if item.recorded:
            self._unnote(item)
        else:
            started = item.started
            if took is None:
                took = monotonic() - started
            item.lease.add_success(item.task.task_id, result, started, took)
        self._settle(item)

    def fail(self, item: Item, failure: Failure) -> None:
        """Settle that a task did not succeed."""
        if item.ended:
            return
        if item.recorded:
            log.warning(
                "a task failed after its own transaction had recorded its success",
                task_id=item.task.task_id,
                error=failure.error_message,
            )
            self._unnote(item)
        else:
            took = monotonic() - item.started if item.started else 0.0
            item.lease.add_failure(item.task.task_id, failure, item.started, took)
        self._settle(item, failure)

    def drop(self, item: Item) -> None:
        """Settle that a task's end is nobody's business any more."""
        if not item.ended:
            self._unnote(item)
            self._settle(item)

    def _settle(self, item: Item, failure: Failure | None = None) -> None:
        item.ended = True
        if self.metrics is not None:
            self.metrics.ended(item, failure)
        if self.tracing is not None:
            self.tracing.ended(item, failure)
        if item.timer is not None:
            item.timer.cancel()
            item.timer = None
        lease, slots = item.lease, self.slots
        lease.items.pop(item.task.task_id, None)
        if item.placed:
            slots.running -= 1
            slots.learn(monotonic() - item.placed)
            if slots.waiting:
                self.fill()
        self.on_end(lease)

    def stop(self, item: Item, why: Stop) -> None:
        """Tell a task to stop, and force it after the grace.

        A ``cancelled`` task's end is not reported: the engine has ended it, or
        given it to another worker.
        """
        if item.ended or item.stop is not None or item.recorded:
            return
        item.stop = why
        if item.handle is not None:
            item.handle.cancel()
        if not item.placed or (item.handle is not None and not item.started):
            # A body that never began does not see its cancellation either.
            self._end_stopped(item)
            return
        if item.timer is not None:
            item.timer.cancel()
        definition = item.definition
        if item.executor is not None and definition is not None:
            item.executor.ask(item)
            # Its time is up: the grace is for those who hear of it by themselves.
            if why == "timeout" and definition.mode != "async":
                self._force(item)
        if not item.ended:
            item.timer = self._loop.call_later(self._kill_grace, self._force, item)

    def _force(self, item: Item) -> None:
        if item.ended:
            return
        if item.executor is not None:
            item.executor.force(item)
        else:
            log.error(
                "a task ignores that it was cancelled; it is given up and may still run",
                task_id=item.task.task_id,
                task_type=item.task.task_type,
            )
            self._end_stopped(item)

    def end_stopped(self, item: Item) -> None:
        """Settle a task that was told to stop and has."""
        self._end_stopped(item)

    def _end_stopped(self, item: Item) -> None:
        if item.stop == "timeout":
            self.fail(item, _timed_out(item))
        elif item.stop == "shutdown":
            self.fail(item, RELEASE)
        else:
            self.drop(item)
        kill_children(item)

    def look(self, items: Iterable[Item]) -> None:
        """Settle tasks whose asyncio.Task is gone without a word.

        Somebody's code may cancel every task of the loop, and one that had not
        begun then never runs.
        """
        for item in items:
            if item.handle is not None and item.handle.done() and not item.ended:
                self.fail(item, describe(asyncio.CancelledError(), "error"))

    def hand_back(self, items: Iterable[Item]) -> int:
        """Give tasks that have not begun back to the queue, uncharged."""
        count = 0
        for item in items:
            if not item.ended:
                self.fail(item, RELEASE)
                count += 1
        return count

    def hand_back_waiting(self) -> int:
        """Give everything that waits for a place, here or in an executor, back."""
        items = list(self.slots.waiting)
        self.slots.waiting.clear()
        for executor in self.executors.values():
            items.extend(executor.withdraw())
        return self.hand_back(items)


def _unknown(task_type: str) -> Failure:
    return Failure(
        "permanent",
        "UnknownTaskType",
        f"This worker's app has no task type {task_type!r}.",
    )


def _timed_out(item: Item) -> Failure:
    return Failure(
        "timeout",
        "TimeoutError",
        f"The task ran longer than its time-out of {item.task.timeout_seconds:g} s"
        " and was stopped.",
    )

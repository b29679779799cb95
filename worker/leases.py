"""What a worker holds: leases, the tasks in them, and the ends that are not yet recorded."""

import asyncio
from time import monotonic
from typing import Any, Literal

from ..schema.worker_calls import Finish
from .document import ClaimedTask
from .executor import Executor
from .outcome import Failure
from .registry import TaskDefinition

# Why a task that runs is told to stop.
Stop = Literal["timeout", "cancelled", "shutdown"]

FLUSH_BYTES = 4 * 1024 * 1024


class Item:
    """One claimed task, from its claim to its end.

    Attributes:
        task: What was claimed.
        lease: The lease that it came with.
        claimed: When it was claimed (monotonic, as all times here).
        definition: Its task type; None until it starts.
        placed: When it got a place to run; 0 before that.
        started: When its execution began; 0 before that. Later than ``placed``
            when a pool process had to come free first.
        stop: Why it was told to stop; None while it may run on.
        ended: Whether its end is settled; whatever its body does afterwards
            counts for nothing.
        recorded: Whether its success is, or is just being, committed by itself.
        handle: Its asyncio.Task, where it has one.
        executor: Where it runs, when that is not the event loop.
        children: Processes that it has started in this process.
        timer: The next thing that happens to it when it does not end.
    """

    __slots__ = (
        "children",
        "claimed",
        "definition",
        "ended",
        "executor",
        "handle",
        "lease",
        "placed",
        "recorded",
        "started",
        "stop",
        "task",
        "timer",
    )

    def __init__(self, task: ClaimedTask, lease: "Lease", claimed: float) -> None:
        self.task = task
        self.lease = lease
        self.claimed = claimed
        self.definition: TaskDefinition | None = None
        self.placed = 0.0
        self.started = 0.0
        self.stop: Stop | None = None
        self.ended = False
        self.recorded = False
        self.handle: asyncio.Task[None] | None = None
        self.executor: Executor | None = None
        self.children: list[int] | None = None
        self.timer: asyncio.TimerHandle | None = None

    @property
    def lease_id(self) -> int:
        """The number of its lease."""
        return self.lease.lease_id

    @property
    def shard(self) -> int:
        """Label of its shard."""
        return self.lease.shard

    @property
    def deadline(self) -> float | None:
        """When its time is up; None without a time-out."""
        limit = self.task.timeout_seconds
        return None if limit is None else (self.started or monotonic()) + limit


class Lease:
    """One claimed batch.

    Attributes:
        lease_id: Its number.
        shard: Label of the shard of its tasks.
        until: Until when it holds at least, by this process's monotonic. Counted
            from before the claim was sent, so never later than the database's.
        items: The tasks in it that have not ended, by id.
        order: All its ids, as they were claimed.
        begun: Where Begun notes those that count as begun, by id.
        queued: Whether it waits for its ends to be recorded.
        flushing: Whether a call with ends of it is on its way.
        unsure: Whether a call with ends of it broke, so that they may be recorded.
        single: Whether its ends go one by one, since together they were refused.
    """

    __slots__ = (
        "_failures",
        "_ids",
        "_results",
        "_size",
        "_started",
        "_took",
        "begun",
        "flushing",
        "items",
        "lease_id",
        "order",
        "queued",
        "shard",
        "single",
        "unsure",
        "until",
    )

    def __init__(self, lease_id: int, shard: int, until: float) -> None:
        self.lease_id = lease_id
        self.shard = shard
        self.until = until
        self.items: dict[str, Item] = {}
        self.order: list[str] = []
        self.begun: dict[str, int] = {}
        self.queued = self.flushing = self.unsure = self.single = False
        self._size = 0
        self._clear()

    def _clear(self) -> None:
        self._ids: list[str] = []
        self._results: list[str] = []
        self._started: list[float] = []
        self._took: list[float] = []
        self._failures: list[tuple[str, Failure, float, float]] = []
        self._size = 0

    @property
    def pending(self) -> int:
        """The number of ends that wait to be recorded."""
        return len(self._ids) + len(self._failures)

    @property
    def full(self) -> bool:
        """Whether there is enough to record for one call."""
        return self._size > FLUSH_BYTES

    def add_success(self, task_id: str, result: str, started: float, took: float) -> None:
        """Keep a success until it is recorded; times in seconds."""
        self._ids.append(task_id)
        self._results.append(result)
        self._started.append(started)
        self._took.append(took)
        self._size += len(result)

    def add_failure(self, task_id: str, failure: Failure, started: float, took: float) -> None:
        """Keep a failure until it is recorded; ``started`` 0 when it never began."""
        self._failures.append((task_id, failure, started, took))

    def take(self) -> "Ends":
        """Take what waits, or a part of it, to record it."""
        ends = Ends(self._ids, self._results, self._started, self._took, self._failures)
        if len(ends.ids) == len(self.order) and ends.ids != self.order:
            # The engine is quickest with a whole lease in its own order.
            ends.arrange(self.order)
        self._clear()
        if self.single and ends.count > 1:
            first, rest = ends.split()
            self.give_back(rest)
            return first
        return ends

    def give_back(self, ends: "Ends") -> None:
        """Put back what was taken and is not recorded."""
        self._ids = ends.ids + self._ids
        self._results = ends.results + self._results
        self._started = ends.started + self._started
        self._took = ends.took + self._took
        self._failures = ends.failures + self._failures
        self._size += sum(map(len, ends.results))


class Ends:
    """Ends of tasks on their way to the database."""

    __slots__ = ("failures", "ids", "results", "started", "took")

    def __init__(
        self,
        ids: list[str],
        results: list[str],
        started: list[float],
        took: list[float],
        failures: list[tuple[str, Failure, float, float]],
    ) -> None:
        self.ids = ids
        self.results = results
        self.started = started
        self.took = took
        self.failures = failures

    @property
    def count(self) -> int:
        """The number of ends."""
        return len(self.ids) + len(self.failures)

    def all_ids(self) -> list[str]:
        """The tasks that have ended."""
        return self.ids + [failure[0] for failure in self.failures]

    def arrange(self, order: list[str]) -> None:
        """Put the successes into an order."""
        place = dict(zip(self.ids, range(len(self.ids)), strict=True))
        where = [place[task_id] for task_id in order]
        self.ids = order
        self.results = [self.results[at] for at in where]
        self.started = [self.started[at] for at in where]
        self.took = [self.took[at] for at in where]

    def split(self) -> tuple["Ends", "Ends"]:
        """Split off the first end."""
        cut = min(1, len(self.ids))
        first = Ends(
            self.ids[:cut],
            self.results[:cut],
            self.started[:cut],
            self.took[:cut],
            self.failures[: 1 - cut],
        )
        rest = Ends(
            self.ids[cut:],
            self.results[cut:],
            self.started[cut:],
            self.took[cut:],
            self.failures[1 - cut :],
        )
        return first, rest

    def as_failure(self, failure: Failure) -> "Ends":
        """Give the same ends, each as this failure."""
        ended = [
            (task_id, failure, started, took)
            for task_id, started, took in zip(self.ids, self.started, self.took, strict=True)
        ]
        ended += [(task_id, failure, at, took) for task_id, _, at, took in self.failures]
        return Ends([], [], [], [], ended)

    def finish(self, lease_id: int) -> Finish:
        """Give them as finish_tasks takes them; ages count from now."""
        now = monotonic()
        return Finish(
            lease_id,
            self.ids,
            self.results,
            [int((now - at) * 1e6) for at in self.started],
            [int(took * 1e6) for took in self.took],
            [_object(end, now) for end in self.failures],
        )


def _object(end: tuple[str, Failure, float, float], now: float) -> dict[str, Any]:
    task_id, failure, started, took = end
    fields = {name: getattr(failure, name) for name in failure.__struct_fields__}
    told = {name: value for name, value in fields.items() if value is not None}
    if started:
        told["started_us"] = int((now - started) * 1e6)
        told["took_us"] = int(took * 1e6)
    return {"task_id": task_id, **told}

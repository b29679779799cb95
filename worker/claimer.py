"""Claiming tasks and recording how they ended, both in one round trip.

A few connections take turns. A turn records the ends of one lease, claims as
many tasks as there is room for, or both. Ends are recorded when their batch is
done, and after FLUSH_SECONDS at the latest, so that a long task never holds back
the results of others. What could not be recorded is kept and tried again: the
engine refuses what is not the worker's any more, so trying is always safe.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import NamedTuple

import psycopg
import structlog

from ..schema import worker_calls as calls
from ..schema.worker_calls import Answer, Claim
from .appetite import Appetite
from .document import decode_tasks
from .leases import Ends, Item, Lease
from .listener import Listener
from .outcome import Failure, describe
from .runner import Runner

log = structlog.get_logger(__name__)

FLUSH_SECONDS = 0.005
# Tasks that take longer than this gain nothing from recording several at once.
_SLOW_SECONDS = 0.020


class Turn(NamedTuple):
    """What one call does."""

    lease: Lease | None
    ends: Ends | None
    limit: int
    shard: int


class Claimer:
    """The connections that claim and record.

    Attributes:
        leases: What the worker holds, by number.
        sent: When each claim that is on its way was sent, by connection.
        claiming: Whether to take new tasks.
        appetite: When to.
        on_stale: Called when the engine has refused an end.
    """

    def __init__(
        self,
        claim: Claim,
        runner: Runner,
        listener: Listener,
        appetite: Appetite,
        shards: list[int],
    ) -> None:
        self.leases: dict[int, Lease] = {}
        self.sent: dict[int, float] = {}
        self.claiming = True
        self.appetite = appetite
        self.on_stale: Callable[[], None] = lambda: None
        self._claim = claim
        self._runner = runner
        self._slots = runner.slots
        self._listener = listener
        self._shards = shards
        self._next_shard = 0
        self._cursors: dict[int, str | None] = {}
        self._due: deque[Lease] = deque()
        self._resting: deque[asyncio.Future[None]] = deque()
        self._flush_timer: asyncio.Handle | None = None
        self._loop = asyncio.get_running_loop()
        runner.on_end = self._ended

    def items(self) -> list[Item]:
        """Give all tasks that have not ended."""
        return [item for lease in self.leases.values() for item in lease.items.values()]

    def unrecorded(self) -> int:
        """The number of ends that are not recorded yet."""
        return sum(lease.pending + lease.flushing for lease in self.leases.values())

    # When there is something to do

    def wake(self) -> None:
        """Let a resting connection look for something to do."""
        while self._resting:
            future = self._resting.popleft()
            if not future.done():
                future.set_result(None)
                return

    async def rest(self) -> None:
        """Wait for wake()."""
        future: asyncio.Future[None] = self._loop.create_future()
        self._resting.append(future)
        await future

    def _ended(self, lease: Lease) -> None:
        if not lease.items or lease.full:
            self._queue(lease)
        elif self._flush_timer is None:
            average = self._slots.average
            if average is not None and average > _SLOW_SECONDS:
                self._flush_timer = self._loop.call_soon(self.flush)
            else:
                self._flush_timer = self._loop.call_later(FLUSH_SECONDS, self.flush)

    def _queue(self, lease: Lease) -> None:
        if not lease.queued and not lease.flushing:
            lease.queued = True
            self._due.append(lease)
            self.wake()

    def flush(self) -> None:
        """Record all ends that there are."""
        self._flush_timer = None
        for lease in list(self.leases.values()):
            if lease.pending or not lease.items:
                self._queue(lease)

    def next_turn(self) -> Turn | None:
        """Choose what a free connection does; None when there is nothing."""
        lease = self._next_due()
        shard = self._shards[self._next_shard] if lease is None else lease.shard
        limit = 0
        if self.claiming and self.appetite.hungry(len(self.sent), lease is not None):
            limit = self._slots.room()
        if lease is None and not limit:
            return None
        if limit:
            if shard == self._shards[self._next_shard]:
                self._next_shard = (self._next_shard + 1) % len(self._shards)
            else:
                limit = 0  # one shard after the other; the claim follows by itself
                self.wake()
        self._slots.reserved += limit
        return Turn(lease, None if lease is None else lease.take(), limit, shard)

    def _next_due(self) -> Lease | None:
        while self._due:
            lease = self._due.popleft()
            lease.queued = False
            if lease.pending:
                lease.flushing = True
                return lease
            self._tidy(lease)
        return None

    def _tidy(self, lease: Lease) -> None:
        if not lease.items and not lease.pending and not lease.flushing:
            self.leases.pop(lease.lease_id, None)

    # A turn

    async def take_turn(self, conn: psycopg.AsyncConnection, number: int, turn: Turn) -> None:
        """Make the call of a turn and see to its answer."""
        lease, ends = turn.lease, turn.ends
        finish = ends.finish(lease.lease_id) if lease is not None and ends is not None else None
        sent, wakes, armed = monotonic(), self.appetite.wakes, self._listener.armed
        if turn.limit:
            self.sent[number] = sent
        try:
            answer = await calls.finish_and_claim(
                conn, self._claim, finish, turn.limit, self._cursors.get(turn.shard), turn.shard
            )
            self._slots.reserved -= turn.limit
        except BaseException as error:
            self._slots.reserved -= turn.limit
            self.sent.pop(number, None)
            if lease is not None and ends is not None:
                self._not_recorded(lease, ends, error)
            raise
        if lease is not None and ends is not None:
            self._recorded(lease, ends, answer)
        if turn.limit:
            try:
                await self._claimed(turn, answer, sent, wakes, armed)
            finally:
                self.sent.pop(number, None)

    def _recorded(self, lease: Lease, ends: Ends, answer: Answer) -> None:
        lease.flushing = False
        self._runner.begun.discard(lease, ends.all_ids())
        if self._runner.tracing is not None:
            self._runner.tracing.stored(ends.all_ids())
        if answer.stale:
            if not lease.unsure:  # else the broken call may have recorded them
                log.warning(
                    "ends of tasks were not accepted: cancelled, or the lease was lost",
                    tasks=[str(task_id) for task_id in answer.stale[:5]],
                    count=len(answer.stale),
                )
            self.on_stale()
        lease.unsure = False
        if lease.pending:
            self._queue(lease)
        else:
            lease.single = False
            self._tidy(lease)

    def _not_recorded(self, lease: Lease, ends: Ends, error: BaseException) -> None:
        lease.flushing = False
        if isinstance(error, psycopg.DataError):
            # The engine takes care of what cannot be stored; this is for what
            # it does not get to see.
            if ends.count == 1:
                ends = ends.as_failure(describe(error, "permanent"))
            lease.single = True
        else:
            lease.unsure = True
        lease.give_back(ends)
        self._queue(lease)

    async def _claimed(
        self, turn: Turn, answer: Answer, sent: float, wakes: int, armed: bool
    ) -> None:
        self._cursors[turn.shard] = answer.cursor
        if answer.lease_id is not None and answer.tasks is not None:
            self._hold(answer.lease_id, answer.tasks, turn, sent)
        elif self.appetite.found_nothing(wakes, armed, answer.again()) and (
            not await self._listener.arm()
        ):
            self.appetite.sleep(heard=False)

    def _hold(self, lease_id: int, text: str, turn: Turn, sent: float) -> None:
        tasks, broken = decode_tasks(text)
        lease = Lease(lease_id, turn.shard, sent + self._claim.lease_seconds)
        waiting, items = self._slots.waiting, lease.items
        now = monotonic()
        for task in tasks:
            items[task.task_id] = item = Item(task, lease, now)
            waiting.append(item)
        lease.order = list(items)
        self.leases[lease_id] = lease
        for task_id, reason in broken:
            lease.add_failure(task_id, Failure("permanent", "InvalidPayload", reason), 0.0, 0.0)
        if broken:
            self._ended(lease)
        self.appetite.found(len(tasks) + len(broken), turn.limit)
        if self.appetite.busy and self._listener.armed:
            self._listener.disarm()
        if self.claiming:
            self._runner.fill()
        else:
            self._runner.hand_back_waiting()

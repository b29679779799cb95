"""The heartbeat: a thread with a connection of its own, so that task code cannot starve it.

It extends the leases that last, and hears which tasks the worker does not hold
any more. A failed beat is tried again, with a new connection, until a lease has
run out by the worker's own clock; only then are its tasks stopped. (A C call
that never lets go of the interpreter stops this thread too: then the supervisor
extends the leases.)
"""

import threading
import time
from collections.abc import Callable
from time import monotonic
from typing import NamedTuple

from ..schema import worker_calls as calls
from ..schema.connect import SyncConnection, connect_sync
from .leases import Item, Lease
from .outage import Outage, pause_seconds
from .settings import WorkerSettings

# A claim that is on its way for longer may be one whose answer is lost; younger
# ones the engine itself leaves alone for two seconds.
_YOUNG_SECONDS = 1.5
_BEATS_PER_LEASE = 4
_GATHER_SECONDS = 0.005
_CLOCK_SECONDS = 60.0


class Held(NamedTuple):
    """What a worker holds at one moment.

    Attributes:
        leases: Its leases.
        oldest_claim: When the oldest claim that is on its way was sent; None when
            none is.
    """

    leases: list[Lease]
    oldest_claim: float | None


class Heartbeat(threading.Thread):
    """See this module.

    Attributes:
        on_lost: Called, in this thread, with tasks to stop and forget.
        on_clock: Called, in this thread, now and then with the database's clock minus
            the monotonic one; None: it is not asked.
        on_drain: Called, in this thread, when an operator wants the worker to stop.
    """

    def __init__(
        self,
        settings: WorkerSettings,
        worker_id: str,
        shards: list[int],
        outage: Outage,
        held: Callable[[], Held],
    ) -> None:
        """Prepare the thread.

        Args:
            settings: The database and the length of leases.
            worker_id: Who beats.
            shards: Labels of the shards that it claims from.
            outage: Where trouble is told.
            held: Gives what the worker holds; called in this thread.
        """
        super().__init__(name="heartbeat", daemon=True)
        self.on_lost: Callable[[list[Item]], None] = lambda items: None
        self.on_clock: Callable[[float], None] | None = None
        self.on_drain: Callable[[], None] = lambda: None
        self._clock_due = 0.0
        self._settings = settings
        self._lease_seconds = settings.lease_seconds
        self._worker_id = worker_id
        self._shards = shards
        self._outage = outage
        self._held = held
        self._kick = threading.Event()
        self._over = False
        self._conn: SyncConnection | None = None
        self._failures = 0

    def kick(self) -> None:
        """Beat now."""
        self._kick.set()

    def stop(self) -> None:
        """Beat no more."""
        self._over = True
        self._kick.set()

    def run(self) -> None:
        """Beat until stopped."""
        pause = 0.0 if self.on_clock is not None else self._lease_seconds / _BEATS_PER_LEASE
        while not self._over:
            if self._kick.wait(pause):
                # Cancellations come in swarms; one beat hears of many.
                time.sleep(_GATHER_SECONDS)
                self._kick.clear()
            if self._over:
                break
            pause = self._beat_or_fail()
        self._hang_up()

    def _beat_or_fail(self) -> float:
        """Beat; give the pause until the next time."""
        try:
            self.beat()
        except Exception as error:
            self._outage.failed("heartbeat", error)
            self._hang_up()
            self._give_up_what_ran_out()
            self._failures += 1
            return min(pause_seconds(self._failures), self._lease_seconds / _BEATS_PER_LEASE)
        self._failures = 0
        self._outage.worked("heartbeat")
        return self._lease_seconds / _BEATS_PER_LEASE

    def beat(self) -> None:
        """Beat once for each shard."""
        if self._conn is None or self._conn.closed:
            self._conn = connect_sync(
                self._settings.dsn, "worker heartbeat", prepare=self._settings.prepare
            )
        for shard in self._shards:
            self._beat_for(self._conn, shard)
        if self.on_clock is not None and monotonic() >= self._clock_due:
            self._clock_due = monotonic() + _CLOCK_SECONDS
            self.on_clock(calls.clock_ahead(self._conn))

    def _beat_for(self, conn: SyncConnection, shard: int) -> None:
        now = monotonic()
        held = self._held()
        leases = [lease for lease in held.leases if lease.shard == shard]
        # Ids may come again, claimed anew, while the call is on its way: the
        # answer is about these very attempts.
        items = {i.task.task_id: i for lease in leases for i in _items(lease)}
        answer = calls.heartbeat(
            conn,
            self._worker_id,
            [lease.lease_id for lease in leases],
            [task_id for task_id, item in items.items() if not item.recorded],
            _running(items, now),
            self._lease_seconds,
            held.oldest_claim is None or now - held.oldest_claim < _YOUNG_SECONDS,
            shard,
        )
        for lease in leases:
            # The engine extends what has lasted a third; the rest still has two.
            lease.until = max(lease.until, now + self._lease_seconds * 2 / 3)
        lost = [items[task_id] for task_id in answer.lost if task_id in items]
        if lost:
            self.on_lost(lost)
        if answer.draining:
            self.on_drain()

    def _give_up_what_ran_out(self) -> None:
        now = monotonic()
        lost = [i for lease in self._held().leases if lease.until < now for i in _items(lease)]
        if lost:
            self.on_lost(lost)

    def _hang_up(self) -> None:
        if self._conn is not None:
            self._conn.pgconn.finish()
            self._conn = None


def _items(lease: Lease) -> list[Item]:
    while True:
        try:
            return list(lease.items.values())
        except RuntimeError:  # the event loop's thread changed it meanwhile
            continue


def _running(items: dict[str, Item], now: float) -> dict[str, int]:
    return {
        task_id: int((now - item.started) * 1e6)
        for task_id, item in items.items()
        if item.started and item.task.timeout_seconds is not None and item.started < now
    }

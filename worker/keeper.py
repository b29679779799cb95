"""The supervisor's thread for the database.

It extends the leases of children that live, which keeps the tasks of a child
whose own heartbeat cannot run, and gives the tasks of dead ones back.
"""

import threading
import time
from collections import deque
from typing import NamedTuple

import structlog

from ..schema import supervisor_calls as calls
from ..schema.connect import SyncConnection, connect_sync
from .begun import Noted
from .outage import Outage, pause_seconds
from .processes import is_running
from .settings import WorkerSettings

log = structlog.get_logger(__name__)

_EXTENSIONS_PER_LEASE = 3


class _Release(NamedTuple):
    worker_id: str
    reason: str
    charge: bool
    begun: Noted | None


class Keeper(threading.Thread):
    """See this module."""

    def __init__(self, settings: WorkerSettings) -> None:
        super().__init__(name="keeper", daemon=True)
        self._settings = settings
        self._pause = settings.lease_seconds / _EXTENSIONS_PER_LEASE
        self._outage = Outage()
        self._lock = threading.Condition()
        self._kept: dict[str, int] = {}
        self._releases: deque[_Release] = deque()
        self._overdue: set[str] = set()
        self._over = False
        self._conn: SyncConnection | None = None
        self._shards: list[int] = []
        self._next_extension = time.monotonic() + self._pause

    def keep(self, worker_id: str, pid: int) -> None:
        """Extend a child's leases from now on, while it can run."""
        with self._lock:
            self._kept[worker_id] = pid

    def release(
        self, worker_id: str, reason: str, charge: bool, begun: Noted | None = None
    ) -> None:
        """Give back what a dead child held, as soon as the database can be reached.

        Args:
            worker_id: The child.
            reason: How it ended.
            charge: Whether that cost an attempt.
            begun: The tasks to which it did; None: all. What ran in it is to
                blame; its pool processes' tasks are only when nothing did.
        """
        with self._lock:
            self._kept.pop(worker_id, None)
            self._overdue.discard(worker_id)
            self._releases.append(_Release(worker_id, reason, charge, begun))
            self._lock.notify()

    def overdue(self) -> list[str]:
        """Take the children that the database wants killed."""
        with self._lock:
            found = list(self._overdue)
            self._overdue.clear()
        return found

    def stop(self, seconds: float) -> None:
        """Wait for open releases, but no longer than ``seconds``, and end."""
        with self._lock:
            self._over = True
            self._lock.notify()
        self.join(seconds)

    def run(self) -> None:
        """Work until stopped and nothing is left to give back."""
        failures = 0
        while True:
            with self._lock:
                if not self._releases and not self._over:
                    self._lock.wait(max(0.0, self._next_extension - time.monotonic()))
                if self._over and not self._releases:
                    return
            try:
                self._work()
            except Exception as error:
                self._outage.failed("keeper", error)
                self._hang_up()
                time.sleep(pause_seconds(failures))
                failures += 1
            else:
                failures = 0
                self._outage.worked("keeper")

    def _work(self) -> None:
        if self._conn is None:
            self._conn = connect_sync(
                self._settings.dsn, "worker supervisor", prepare=self._settings.prepare
            )
        self._shards = self._shards or calls.shard_labels(self._conn)
        while self._releases:
            self._release(self._conn, self._releases[0])
            self._releases.popleft()
        if time.monotonic() >= self._next_extension:
            self._extend(self._conn)
            self._next_extension = time.monotonic() + self._pause

    def _release(self, conn: SyncConnection, release: _Release) -> None:
        count = 0
        running = excused = None
        if release.begun is not None:
            running = release.begun.here + release.begun.apart
            excused = release.begun.apart if release.begun.here else None
        for shard in self._shards:
            count += calls.release_worker(
                conn, release.worker_id, release.reason, release.charge, shard, running, excused
            )
        calls.unregister_worker(conn, release.worker_id)
        if count:
            log.warning(
                "tasks of a worker process that ended run again",
                worker_id=release.worker_id,
                count=count,
                reason=release.reason,
            )

    def _extend(self, conn: SyncConnection) -> None:
        with self._lock:
            kept = dict(self._kept)
        # A stopped child does not work: others should, once its lease is over.
        living = [worker_id for worker_id, pid in kept.items() if is_running(pid)]
        if not living:
            return
        for shard in self._shards:
            overdue = calls.extend_leases(conn, living, self._settings.lease_seconds, shard)
            with self._lock:
                self._overdue.update(set(overdue) & set(self._kept))

    def _hang_up(self) -> None:
        if self._conn is not None:
            self._conn.pgconn.finish()
            self._conn = None

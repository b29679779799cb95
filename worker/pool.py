"""Running tasks in pool processes that can be killed: ``def`` ones, and those lost before.

A process runs one task at a time. Short tasks are sent a few ahead; when the
one that runs turns out long, those behind it are taken back (see wire) and go
elsewhere. When a process ends, only the task that ran in it is lost.
"""

import asyncio
import os
from collections import deque
from collections.abc import Callable
from time import monotonic

import structlog

from .leases import Item
from .outcome import Failure
from .pool_control import Control
from .pool_host import Exited
from .pool_link import Link
from .processes import how_it_ended
from .runner import Runner
from .settings import WorkerSettings
from .wire import Reply

log = structlog.get_logger(__name__)

AHEAD = 8
_SHORT_SECONDS = 0.002
_TICK_SECONDS = 0.010
_STALLED_SECONDS = 0.020
_FAILED_STARTS = 3
_WEIGHT = 0.2
_CORES = os.cpu_count() or 1


class Pool:
    """The pool processes of one worker. An Executor."""

    apart = True

    def __init__(
        self,
        settings: WorkerSettings,
        worker_id: str,
        runner: Runner,
        size: int,
        guard: int | None,
        fatal: Callable[[str], None],
        unusable: Callable[[str], None] | None = None,
    ) -> None:
        """Prepare a pool; ``start`` starts its host.

        Args:
            settings: What the processes need.
            worker_id: The worker that they belong to.
            runner: Who is told of ends.
            size: Most processes.
            guard: A descriptor that must stay open as long as the host lives.
            fatal: Called when the pool cannot go on.
            unusable: Called instead when no process of it starts.
        """
        self._settings = settings
        self._worker_id = worker_id
        self._size = size
        self._runner = runner
        self._guard = guard
        self._fatal = fatal
        self._unusable = unusable or fatal
        self._waiting: deque[Item] = deque()
        self._links: dict[int, Link] = {}
        self._took: dict[str, float] = {}
        self._numbers = 0
        self._failed_starts = 0
        self._ever_ready = False
        self._last_end = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._control: Control | None = None
        self._broken = False

    def start(self) -> None:
        """Start the host and a process for each core; from the main thread only."""
        self._control = Control(
            self._settings, self._worker_id, self._guard, self._exited, self._host_gone
        )
        self._spawn(min(self._size, _CORES))

    def close(self) -> None:
        """Kill everything and wait for the host's end."""
        if self._timer is not None:
            self._timer.cancel()
        for link in self._links.values():
            link.close()
        self._links.clear()
        if self._control is not None:
            self._control.close()
            self._control = None

    # As an executor

    def submit(self, item: Item) -> None:
        """See Executor."""
        self._waiting.append(item)
        self._dispatch()

    def ask(self, item: Item) -> None:
        """See Executor."""
        link = self._link_of(item)
        if link is not None and item is not link.assigned[0]:
            self._take_back(link)
        if link is not None and item in link.assigned:
            link.ask(item)
        else:
            self._runner.end_stopped(item)

    def force(self, item: Item) -> None:
        """See Executor: kill the process."""
        link = self._link_of(item)
        if link is not None:
            self._take_back(link)
        if link is not None and item in link.assigned and self._control is not None:
            link.killed = True
            self._control.kill(link.number)
        else:
            self._runner.end_stopped(item)

    def _link_of(self, item: Item) -> Link | None:
        return next((link for link in self._links.values() if item in link.assigned), None)

    def withdraw(self) -> list[Item]:
        """See Executor."""
        for link in self._links.values():
            self._take_back(link)
        items = list(self._waiting)
        self._waiting.clear()
        return items

    # Giving tasks to processes

    def _dispatch(self) -> None:
        waiting = self._waiting
        while waiting:
            item = waiting[0]
            if item.ended:
                waiting.popleft()
                continue
            link = self._free_link(item)
            if link is None:
                self._watch()
                return
            waiting.popleft()
            link.assign(item)
            if link.assigned[0] is item:
                self._began(link, item)
            else:
                self._watch()

    def _free_link(self, item: Item) -> Link | None:
        links = [link for link in self._links.values() if link.ready and not link.killed]
        idle = next((link for link in links if not link.assigned), None)
        if not self._is_short(item):
            return idle
        busy = [link for link in links if link.assigned]
        # Short tasks gain nothing from more processes than cores, however many there are.
        if idle is not None and len(busy) < _CORES:
            return idle
        room = [
            link
            for link in busy
            if len(link.assigned) < AHEAD and all(map(self._is_short, link.assigned))
        ]
        return min(room, key=lambda link: len(link.assigned), default=idle)

    def _is_short(self, item: Item) -> bool:
        return self._took.get(item.task.task_type, 1.0) < _SHORT_SECONDS

    def _began(self, link: Link, item: Item) -> None:
        link.head_since = monotonic()
        self._runner.began(item)

    def _take_back(self, link: Link) -> None:
        """Take back what a process has not begun."""
        taken = [item for item in link.take_back() if not item.ended]
        for item in taken:
            self._runner.not_begun(item)  # even when it was next
        self._waiting.extendleft(reversed(taken))

    def _watch(self) -> None:
        if self._timer is None:
            self._timer = self._loop.call_later(_TICK_SECONDS, self._tick)

    def _tick(self) -> None:
        self._timer = None
        now = monotonic()
        for link in self._links.values():
            if len(link.assigned) > 1:
                if now - link.head_since > _TICK_SECONDS:
                    self._take_back(link)
                else:
                    self._watch()
        self._dispatch()
        if self._waiting:
            self._grow(now)

    def _grow(self, now: float) -> None:
        starting = sum(1 for link in self._links.values() if not link.ready)
        if self._ever_ready and now - self._last_end > _STALLED_SECONDS:
            # No more than double at a time: what looks like long tasks may be a machine
            # that was held up, and many new processes would hold it up for good.
            most = max(_CORES, len(self._links) - starting)
            wanted = min(len(self._waiting), most) - starting
        else:
            wanted = min(_CORES - len(self._links), 1 - starting)
        self._spawn(min(wanted, self._size - len(self._links)))

    def _spawn(self, count: int) -> None:
        for _ in range(count):
            if self._control is None or self._broken:
                return
            self._numbers += 1
            link = Link(self._numbers, self._replied)
            self._links[link.number] = link
            self._control.start(link.number, link.their_ends)
            link.started()

    # What comes back

    def _replied(self, link: Link, reply: Reply) -> None:
        if reply.number == 0:
            link.ready = self._ever_ready = True
            self._failed_starts = 0
            self._dispatch()
            return
        item = link.assigned.popleft()
        self._last_end = monotonic()
        task_type = item.task.task_type
        known = self._took.get(task_type, reply.took)
        self._took[task_type] = known + _WEIGHT * (reply.took - known)
        if link.assigned:
            self._began(link, link.assigned[0])
        self._settle(item, reply)
        self._dispatch()

    def _settle(self, item: Item, reply: Reply) -> None:
        if item.stop is not None and not item.ended:
            self._runner.end_stopped(item)
        elif reply.result is not None:
            self._runner.succeed(item, reply.result, reply.took)
        elif reply.failure is not None:
            self._runner.fail(item, reply.failure)
        else:
            item.recorded = True
            self._runner.succeed(item, "null")

    def _exited(self, message: Exited) -> None:
        link, status = self._links.pop(message.number, None), message.status
        if link is None:
            return
        link.read()  # what it had said before it ended
        self._take_back(link)
        link.close()
        if not link.ready:
            self._failed_starts += 1
            if self._failed_starts >= _FAILED_STARTS:
                self._unusable(f"pool processes do not start ({how_it_ended(status)})")
                return
        self._fail_assigned(link, _lost(how_it_ended(status)))
        if not self._links:
            self._spawn(1)
        self._dispatch()

    def _fail_assigned(self, link: Link, failure: Failure) -> None:
        for item in link.assigned:
            if item.stop is not None:
                self._runner.end_stopped(item)
            else:
                self._runner.fail(item, failure)

    def _host_gone(self, why: str) -> None:
        """Charge what ran: the processes have died with their host, by one of the tasks perhaps."""
        if self._broken:
            return
        self._broken = True
        for link in list(self._links.values()):
            self._take_back(link)
            link.close()
            self._fail_assigned(link, _lost(why))
        self._links.clear()
        self._fatal(why)


def _lost(how: str) -> Failure:
    hint = " (out of memory, perhaps)" if "SIGKILL" in how else ""
    return Failure("lost", "ProcessLost", f"The process that ran the task ended: {how}{hint}.")

"""The supervisor: starts worker processes, keeps their leases, and sees them die.

It never imports user code, so nothing that a task does can stop it. Its threads:
the main one, which starts and ends processes, and one that talks to the
database, so that a server which does not answer never delays a signal.

A stop (SIGTERM, SIGINT): every child is told; each finishes within its grace;
what still lives after that is killed, and its tasks go back uncharged. A second
SIGINT kills at once.
"""

import os
import random
import selectors
import signal
import socket
import threading
import time
import uuid
from types import FrameType

import msgspec
import structlog

from .child_process import ChildProcess
from .keeper import Keeper
from .orders import ExitCode
from .settings import WorkerSettings

log = structlog.get_logger(__name__)

# A child that dies sooner than this after its start is started again with a
# growing pause.
SHORT_LIFE_SECONDS = 5.0
LONGEST_PAUSE = 30.0
_SETTLE_SECONDS = 2.0


class Supervisor:
    """See this module."""

    def __init__(self, settings: WorkerSettings, processes: int) -> None:
        """Prepare a supervisor.

        Args:
            settings: For every child.
            processes: How many.
        """
        settings = msgspec.structs.replace(settings, supervisor_id=str(uuid.uuid4()))
        self._settings = settings
        self._children: list[ChildProcess | None] = [None] * processes
        self._start_at: dict[int, float] = dict.fromkeys(range(processes), 0.0)
        self._short_lives = 0
        self._ever_ready = False
        self._exit_code = 0
        self._stopping_since: float | None = None
        self._signals: list[int] = []
        self._keeper = Keeper(settings)
        self._selector = selectors.DefaultSelector()
        self._woken, self._wake = socket.socketpair()

    def run(self) -> int:
        """Supervise until stopped; give the exit code."""
        self._take_signals()
        self._keeper.start()
        try:
            while self._stopping_since is None or any(self._children):
                self._turn()
        finally:
            for child in self._living():
                child.kill()
            self._keeper.stop(_SETTLE_SECONDS)
        log.info("supervisor stopped", exit_code=self._exit_code)
        return self._exit_code

    def _take_signals(self) -> None:
        self._wake.setblocking(False)
        self._woken.setblocking(False)
        self._selector.register(self._woken, selectors.EVENT_READ)
        if threading.current_thread() is not threading.main_thread():
            log.warning("signals do not stop this worker: it does not run in the main thread")
            return
        signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._note)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self._signals.append(number)

    def _turn(self) -> None:
        self._start_what_is_due()
        for key, _ in self._selector.select(self._patience()):
            if key.fileobj is self._woken:
                self._woken.recv(4096)
            else:
                self._hear(key.data)
        self._obey_signals()
        self._reap()
        for worker_id in self._keeper.overdue():
            self._kill_overdue(worker_id)
        self._kill_what_outstays()

    def _hear(self, child: ChildProcess) -> None:
        if not child.hear():  # its process is about to be reaped
            self._selector.unregister(child.guard)
        self._ever_ready |= child.ready

    def _patience(self) -> float:
        if self._stopping_since is not None:
            return 0.1
        due = [at - time.monotonic() for at in self._start_at.values()]
        return max(0.0, min([0.5, *due]))

    def _living(self) -> list[ChildProcess]:
        return [child for child in self._children if child is not None]

    def _start_what_is_due(self) -> None:
        if self._stopping_since is not None:
            return
        for number, at in list(self._start_at.items()):
            if at <= time.monotonic():
                del self._start_at[number]
                self._start(number)

    def _start(self, number: int) -> None:
        settings = self._settings
        if settings.metrics_port:
            # The same for every start of this number, so that a restart is no new target.
            port = settings.metrics_port + number
            settings = msgspec.structs.replace(settings, metrics_port=port)
        child = ChildProcess(settings, f"{settings.name}/{number}")
        self._children[number] = child
        self._selector.register(child.guard, selectors.EVENT_READ, child)
        self._keeper.keep(child.worker_id, child.pid)
        log.info("worker process started", number=number, pid=child.pid)

    def _obey_signals(self) -> None:
        signals, self._signals = self._signals, []
        for number in signals:
            if self._stopping_since is None:
                log.info("stopping", signal=signal.Signals(number).name)
                self._stop()
            elif number == signal.SIGINT:
                for child in self._living():
                    child.kill()

    def _stop(self) -> None:
        if self._stopping_since is None:
            self._stopping_since = time.monotonic()
            for child in self._living():
                child.stop()

    def _reap(self) -> None:
        for number, child in enumerate(self._children):
            if child is not None and child.poll() is not None:
                self._children[number] = None
                if child.guard in self._selector.get_map():
                    self._selector.unregister(child.guard)
                self._see_off(number, child)
        if os.getpid() == 1:
            _reap_orphans()

    def _see_off(self, number: int, child: ChildProcess) -> None:
        code = child.poll()
        # Its pool's host first kills what belongs to the pool: nothing of the
        # child may run on when its tasks are given to others.
        child.finish(_SETTLE_SECONDS)
        charge = not child.ended and not child.outstayed
        self._keeper.release(
            child.worker_id,
            f"worker process ended: {child.how_it_ended()}",
            charge,
            child.begun,
        )
        if self._stopping_since is not None:
            return
        if code == ExitCode.DRAINED:
            log.info("worker process drained", number=number)
            if not self._living() and not self._start_at:
                self._stop()
            return
        if code == ExitCode.UNUSABLE and not self._ever_ready:
            self._exit_code = ExitCode.UNUSABLE
            self._stop()
            return
        self._start_at[number] = time.monotonic() + self._pause(number, child)

    def _pause(self, number: int, child: ChildProcess) -> float:
        pause = 0.0
        if child.age() < SHORT_LIFE_SECONDS:
            # The first time at once: its tasks wait for it.
            pause = min(LONGEST_PAUSE, 0.5 * (2 ** min(self._short_lives, 10) - 1))
            pause *= random.uniform(0.5, 1.0)
            self._short_lives += 1
        else:
            self._short_lives = 0
        log.warning(
            "worker process ended; starting it again",
            number=number,
            pid=child.pid,
            how=child.how_it_ended(),
            pause_seconds=round(pause, 1),
        )
        return pause

    def _kill_overdue(self, worker_id: str) -> None:
        for child in self._living():
            if child.worker_id == worker_id:
                log.error(
                    "killing a worker process: a task of it is past its time-out", pid=child.pid
                )
                child.kill()

    def _kill_what_outstays(self) -> None:
        if self._stopping_since is None:
            return
        settings = self._settings
        # The child itself waits for the grace, then for the kill grace, then for
        # its ends to be recorded: a blocked event loop does nothing of that.
        limit = settings.grace_seconds + settings.kill_grace_seconds + settings.lease_seconds + 2
        if time.monotonic() - self._stopping_since > limit:
            for child in self._living():
                log.error("killing a worker process that does not stop", pid=child.pid)
                child.outstayed = True
                child.kill()


def _reap_orphans() -> None:
    """As process 1: take leave of what nobody else can."""
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return

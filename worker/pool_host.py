"""The host of a worker's pool processes: forks them, kills them, and outlives none of them.

It holds no connections and runs no threads and no user code, so that forking is
safe and quick. It is in a session of its own: when its worker is killed, the
host sees that at the end of the control socket, kills every pool process with
all that those have started, and only then ends (which closes the guard pipe that
tells the supervisor so).
"""

import contextlib
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Container
from typing import NoReturn

import msgspec

from . import pool_process
from .processes import adopt_orphans, children, die_with_parent, kill_group
from .settings import WorkerSettings

_MESSAGE_BYTES = 1 << 16


class Start(msgspec.Struct, array_like=True, tag=True):
    """Start a pool process with the three descriptors that come along."""

    number: int


class Kill(msgspec.Struct, array_like=True, tag=True):
    """Kill a pool process and all that it has started."""

    number: int


class Leave(msgspec.Struct, array_like=True, tag=True):
    """The worker stops; without this, the end of the socket means that it has died."""


class Exited(msgspec.Struct, array_like=True):
    """A pool process has ended.

    Attributes:
        number: As it was started.
        status: As waitpid gives it.
    """

    number: int
    status: int


class Opening(msgspec.Struct, array_like=True):
    """The first message to a host."""

    settings: WorkerSettings
    worker_id: str
    pid: int  # the worker's: it may be gone before the host looks who started it
    path: list[str]


decode_exited = msgspec.msgpack.Decoder(Exited).decode
_decode_order = msgspec.msgpack.Decoder(Start | Kill | Leave).decode


class Host:
    """See this module."""

    def __init__(self, control: socket.socket, opening: Opening) -> None:
        self._control = control
        self._opening = opening
        self._parent = opening.pid
        self._left = False
        self._pids: dict[int, int] = {}
        self._adopted: set[int] = set()
        self._doomed: set[int] = set()

    def run(self) -> None:
        """Serve until the worker is gone."""
        adopt_orphans()
        woken, wake = os.pipe()
        os.set_blocking(wake, False)
        os.set_blocking(woken, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        poll.register(woken, select.POLLIN)
        try:
            while os.getppid() == self._parent:
                ready = {descriptor for descriptor, _ in poll.poll(1000)}
                if woken in ready:
                    with contextlib.suppress(BlockingIOError):
                        os.read(woken, 4096)
                self._reap()
                if self._control.fileno() in ready and not self._obey():
                    return
        finally:
            self._kill_all()
            self._kill_what_the_worker_left()

    def _kill_what_the_worker_left(self) -> None:
        """Kill the processes that async tasks of a worker that died had started."""
        end = time.monotonic() + 1
        while not self._left and time.monotonic() < end:
            if os.getppid() != self._parent:  # its group is not its own any more
                kill_group(self._parent)
                return
            time.sleep(0.01)

    def _obey(self) -> bool:
        try:
            data, fds, _, _ = socket.recv_fds(self._control, _MESSAGE_BYTES, 3)
        except ConnectionResetError:  # the worker was killed before it had read all of ours
            return False
        if not data:
            return False
        match _decode_order(data):
            case Start(number):
                self._start(number, fds)
            case Leave():
                self._left = True
                return False
            case Kill(number) if (pid := self._pids.get(number)) is not None:
                kill_group(pid)
        return True

    def _start(self, number: int, fds: list[int]) -> None:
        pid = os.fork()
        if pid == 0:
            self._become_pool_process(fds)
        self._pids[number] = pid
        for fd in fds:
            os.close(fd)

    def _become_pool_process(self, fds: list[int]) -> NoReturn:
        try:
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT):
                signal.signal(number, signal.SIG_DFL)
            host = os.getppid()
            os.setsid()
            die_with_parent(host)
            self._control.close()
            for fd in _inherited:
                os.close(fd)
            stream, tokens = socket.socket(fileno=fds[0]), socket.socket(fileno=fds[1])
            stream.setblocking(True)
            os.set_blocking(fds[2], False)
            opening = self._opening
            pool_process.run(opening.settings, opening.worker_id, stream, tokens, fds[2])
        finally:
            os._exit(1)

    def _reap(self) -> None:
        """Tell of pool processes that have ended, once nothing of theirs is left."""
        numbers = {pid: number for number, pid in self._pids.items()}
        ended: list[Exited] = []
        killed = False
        while (end := _ended_child(numbers)) is not None:
            pid, status = end
            killed |= pid in numbers or pid in self._doomed
            if pid in numbers:
                del self._pids[numbers[pid]]
                ended.append(Exited(numbers[pid], status))
            self._adopted.discard(pid)
            self._doomed.discard(pid)
        self._see_to_orphans(killed)
        for message in ended:
            with contextlib.suppress(OSError):
                self._control.send(msgspec.msgpack.encode(message))

    def _see_to_orphans(self, killed: bool) -> None:
        """Kill what a dead pool process's task had started in a session of its own.

        What comes here while no pool process has died was made a daemon on
        purpose, and is left alone.
        """
        new = children() - set(self._pids.values()) - self._adopted
        if not killed:
            self._adopted |= new
            return
        for pid in new:
            self._doomed.add(pid)
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _kill_all(self) -> None:
        for pid in self._pids.values():
            kill_group(pid)
        while self._pids or children():
            for pid in children() - set(self._pids.values()):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            try:
                pid, _ = os.waitpid(-1, 0)
            except ChildProcessError:
                return
            self._pids = {n: p for n, p in self._pids.items() if p != pid}


def _ended_child(leaders: Container[int]) -> tuple[int, int] | None:
    """Reap a child that has ended and kill its group when it leads one; give id and status."""
    try:
        if hasattr(os, "waitid"):
            # Before it is reaped: until then its number belongs to its group.
            found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if found is not None and found.si_pid in leaders:
                kill_group(found.si_pid)
        pid, status = os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return None
    if pid == 0:
        return None
    if pid in leaders and not hasattr(os, "waitid"):
        kill_group(pid)
    return pid, status


_inherited: list[int] = []


def main(arguments: list[str]) -> None:
    """Run a host; arguments are the control socket's descriptor and those to keep open."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    control = socket.socket(fileno=int(arguments[0]))
    control.set_inheritable(False)
    for argument in arguments[1:]:
        os.set_inheritable(int(argument), False)
        _inherited.append(int(argument))
    data = control.recv(_MESSAGE_BYTES)
    if not data:
        return
    opening = msgspec.msgpack.decode(data, type=Opening)
    sys.path[:] = opening.path
    Host(control, opening).run()


if __name__ == "__main__":
    main(sys.argv[1:])

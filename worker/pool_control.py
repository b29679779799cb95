"""A worker's side of its pool processes' host."""

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Callable

import msgspec

from .pool_host import Exited, Kill, Leave, Opening, Start, decode_exited
from .settings import WorkerSettings
from .wire import socket_pair

_CLOSE_SECONDS = 5


class Control:
    """A running host: starts and kills pool processes, and hears of their ends."""

    def __init__(
        self,
        settings: WorkerSettings,
        worker_id: str,
        guard: int | None,
        on_exited: Callable[[Exited], None],
        fatal: Callable[[str], None],
    ) -> None:
        """Start the host; from the main thread only, whose end would kill it.

        Args:
            settings: What the processes need.
            worker_id: The worker that they belong to.
            guard: A descriptor that must stay open as long as the host lives.
            on_exited: Called when a pool process and all of its own are gone.
            fatal: Called when the host cannot be reached any more.
        """
        self._on_exited = on_exited
        self._fatal = fatal
        self._loop = asyncio.get_running_loop()
        self._socket, theirs = socket_pair(packets=True)
        fds = [theirs.fileno(), *([] if guard is None else [guard])]
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "skiplane.worker.pool_host", *map(str, fds)],
                pass_fds=fds,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        self._socket.setblocking(False)
        self._send(Opening(settings, worker_id, os.getpid(), sys.path))
        self._loop.add_reader(self._socket.fileno(), self._told)

    def start(self, number: int, fds: list[int]) -> None:
        """Start a pool process with its three descriptors."""
        self._send(Start(number), fds)

    def kill(self, number: int) -> None:
        """Kill a pool process and all that its task has started."""
        self._send(Kill(number))

    def close(self) -> None:
        """Have the host kill everything, and wait for its end."""
        self._send(Leave())
        self._loop.remove_reader(self._socket.fileno())
        self._socket.close()
        try:
            self._process.wait(_CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _send(self, message: object, fds: list[int] | None = None) -> None:
        try:
            socket.send_fds(self._socket, [msgspec.msgpack.encode(message)], fds or [])
        except OSError as error:
            self._fatal(f"the host of the pool processes cannot be reached: {error}")

    def _told(self) -> None:
        try:
            data = self._socket.recv(1024)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            self._on_exited(decode_exited(data))
        else:
            self._loop.remove_reader(self._socket.fileno())
            self._fatal("the host of the pool processes has ended")

"""Running the application: one process or several on one port.

Order of a stop (SIGTERM, SIGINT): no new connections; streams and waits end; requests
in work get their answers, within a grace; loops and connections go.
"""

import contextlib
import multiprocessing
import os
import signal
import socket
import sys
import threading
import time
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any

import msgspec
import structlog
import uvicorn

from ..config import Config
from ..log import setup_logging
from .app import create_app
from .services import Services
from .settings import WebSettings

log = structlog.get_logger(__name__)

GRACE_SECONDS = 10
LOOK_SECONDS = 0.2
FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 30.0
BACKLOG = 2048


class Server(uvicorn.Server):
    """Ends what would keep it waiting as soon as it is told to stop."""

    def __init__(self, config: uvicorn.Config, services: Services) -> None:
        super().__init__(config)
        self.services = services

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End streams and waits, then stop as uvicorn does."""
        self.services.end_waits()
        await super().shutdown(sockets)


def make_server(settings: WebSettings) -> Server:
    """Make the server of one process; run() it on sockets, or set should_exit."""
    services = Services(settings)
    return Server(_config(create_app(settings, services)), services)


def run_server(settings: WebSettings, sockets: list[socket.socket]) -> None:
    """Serve in this process until it is told to stop; that is no failure."""
    server = make_server(settings)

    def stop(*_: object) -> None:
        server.should_exit = True

    # The server takes over while it runs, and passes what it got on to these at its end.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    server.run(sockets=sockets)


def run_child(settings: WebSettings, sockets: list[socket.socket], parent: Connection) -> None:
    """Be one of several processes; when the parent is gone, stop as if told to."""
    setup_logging(
        msgspec.convert(
            {"log_format": settings.log_format, "log_level": settings.log_level}, Config
        )
    )
    threading.Thread(target=_follow, args=(parent,), daemon=True).start()
    if can_share():
        # A socket of its own spreads connections evenly; a shared one gives them
        # to whoever wakes first.
        host, port = sockets[0].getsockname()[:2]
        sockets = [open_socket(host, port, shared=True)]
    run_server(settings, sockets)


def _follow(parent: Connection) -> None:
    # Nothing is ever sent: it ends when the parent does.
    with contextlib.suppress(EOFError, OSError):
        parent.recv_bytes()
    os.kill(os.getpid(), signal.SIGTERM)


def _config(app: Any) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        loop="uvloop" if sys.platform != "win32" else "auto",
        http="httptools",
        ws="none",
        lifespan="on",
        access_log=False,
        log_config=None,
        server_header=False,
        # Nothing here depends on who the client is.
        proxy_headers=False,
        date_header=True,
        backlog=BACKLOG,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=GRACE_SECONDS,
        h11_max_incomplete_event_size=65536,
    )


def can_share() -> bool:
    """Whether several sockets on one port share its connections evenly."""
    return sys.platform == "linux"


def open_socket(host: str, port: int, *, shared: bool = False) -> socket.socket:
    """Bind a port; port 0 takes a free one.

    Args:
        host: Address.
        port: Port.
        shared: Other sockets of ours on this port may follow.

    Raises:
        OSError: It is taken, or is not ours to take.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared and can_share():
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        made.bind((host, port))
    except OSError:
        made.close()
        raise
    made.set_inheritable(True)
    return made


def bind(host: str, port: int, processes: int) -> socket.socket:
    """Bind the port for that many processes.

    Raises:
        OSError: As open_socket. A port on which somebody listens is taken, also by a sharer.
    """
    if processes == 1:
        return open_socket(host, port)
    # Sharing is for our own processes: a second server on the port must not slip in.
    with open_socket(host, port) as first:
        port = first.getsockname()[1]
    return open_socket(host, port, shared=True)


def serve(settings: WebSettings, bound: socket.socket, processes: int) -> None:
    """Serve on a bound socket until told to stop.

    Args:
        settings: See WebSettings.
        bound: What bind gave; it holds the port while processes come and go.
        processes: How many.
    """
    if processes == 1:
        run_server(settings, [bound])
    else:
        Processes(settings, bound, processes).run()


class Processes:
    """Keeps processes running: one that dies is started again, a moment later each time."""

    def __init__(self, settings: WebSettings, bound: socket.socket, count: int) -> None:
        self._settings = settings
        self._bound = bound
        self._count = count
        self._stop = threading.Event()
        self._context = multiprocessing.get_context("spawn")
        # Only we hold the writing end: it closes with us, however we end.
        self._theirs, self._ours = self._context.Pipe(duplex=False)

    def run(self) -> None:
        """Run until SIGTERM or SIGINT."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._stop.set())
        children = [self._start() for _ in range(self._count)]
        pause = FIRST_PAUSE_SECONDS
        try:
            while not self._stop.wait(LOOK_SECONDS):
                for place, child in enumerate(children):
                    if child.is_alive():
                        continue
                    log.error("a web process ended", pid=child.pid, exit_code=child.exitcode)
                    self._stop.wait(pause)
                    pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
                    children[place] = self._start()
        finally:
            self._end(children)

    def _start(self) -> SpawnProcess:
        child = self._context.Process(
            target=run_child, args=(self._settings, [self._bound], self._theirs)
        )
        child.start()
        return child

    def _end(self, children: list[SpawnProcess]) -> None:
        for child in children:
            child.terminate()
        end = time.monotonic() + GRACE_SECONDS + 5
        for child in children:
            child.join(max(0.0, end - time.monotonic()))
            if child.is_alive():
                child.kill()
                child.join()

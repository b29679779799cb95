"""A socket before the server that can be cut: what a restart or a lost network looks like."""

import contextlib
import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
from psycopg.conninfo import make_conninfo

PORT = 5432


class Proxy:
    """Forwards connections to a server until it is cut.

    Attributes:
        dsn: The server through it.
    """

    def __init__(self, dsn: str, folder: Path) -> None:
        with psycopg.connect(dsn) as conn:
            info = conn.info
            self._target = f"{info.host}/.s.PGSQL.{info.port}"
        self._path = str(folder / f".s.PGSQL.{PORT}")
        self.dsn = make_conninfo(dsn, host=str(folder), port=PORT)
        self._listening: socket.socket | None = None
        self._open: list[socket.socket] = []
        self.restore()

    def restore(self) -> None:
        """Let connections through (again)."""
        Path(self._path).unlink(missing_ok=True)
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(self._path)
        Path(self._path).chmod(0o777)
        listening.listen()
        self._listening = listening
        threading.Thread(target=self._accept, args=(listening,), daemon=True).start()

    def cut(self) -> None:
        """End all connections and refuse new ones."""
        if self._listening is not None:
            with contextlib.suppress(OSError):
                self._listening.shutdown(socket.SHUT_RDWR)
            self._listening.close()
        Path(self._path).unlink(missing_ok=True)
        for connection in self._open:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._open.clear()

    def _accept(self, listening: socket.socket) -> None:
        while True:
            try:
                client, _ = listening.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            server.connect(self._target)
            self._open += [client, server]
            for one, other in ((client, server), (server, client)):
                threading.Thread(target=_forward, args=(one, other), daemon=True).start()


def _forward(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    for end in (source, target):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
    source.close()


@contextlib.contextmanager
def proxy_before(dsn: str) -> Iterator[Proxy]:
    """Stand before a server until the end of the block."""
    # A short path: a socket's may have 107 bytes.
    with tempfile.TemporaryDirectory(prefix="skp") as folder:
        Path(folder).chmod(0o755)
        made = Proxy(dsn, Path(folder))
        try:
            yield made
        finally:
            made.cut()

"""The life of an embedded server."""

import atexit
import contextlib
import os
import socket
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

from .binaries import Account, Binaries, EmbeddedError, find_binaries, usable_by
from .database import DATABASE, USER, answers, prepare_database
from .folder import Address, DataFolder
from .process import ServerProcess

# For two cores and a few gigabytes. On the command line, so that a new release
# changes them in old folders too; they win over ALTER SYSTEM.
SETTINGS = {
    "shared_buffers": "256MB",
    "max_connections": "200",
    "wal_level": "replica",
    "max_wal_size": "4GB",
    "checkpoint_timeout": "15min",
    "jit": "off",
    "synchronous_commit": "on",
    "lc_messages": "C",
    "cluster_name": "skiplane",
}
# A crash of the machine may lose everything; a crash of the server does not.
FAST = {"fsync": "off", "full_page_writes": "off"}


class EmbeddedServer:
    """A PostgreSQL whose data is in one folder and which lives as long as its starter.

    The second one started on a folder attaches to the first one's server and
    leaves it running; that server still ends with the process that started it,
    also when that process is killed. Unix only.

    Args:
        data_dir: Where the files go; made when missing.
        fast: Switch fsync off, for tests whose data may be lost.
        settings: Settings of the server (postgresql.conf) on top of SETTINGS.
        tcp: Also listen on 127.0.0.1, on a free port, with a password.
        binaries: The programs to use, by default those of find_binaries().
        start_timeout: Seconds to wait for a server that is starting; long,
            since recovery after a crash may take minutes.
    """

    def __init__(
        self,
        data_dir: str | os.PathLike[str],
        *,
        fast: bool = False,
        settings: Mapping[str, str] | None = None,
        tcp: bool = True,
        binaries: Binaries | None = None,
        start_timeout: float = 300.0,
    ) -> None:
        self.attached = False
        self._folder = DataFolder(Path(data_dir))
        self._settings = SETTINGS | (FAST if fast else {}) | dict(settings or {})
        self._fast = fast
        self._tcp = tcp
        self._binaries = binaries
        self._start_timeout = start_timeout
        self._address: Address | None = None
        self._process: ServerProcess | None = None
        self._postmaster = 0

    def start(self) -> str:
        """Start the server, or attach to the one that runs on this folder.

        Returns:
            The DSN of database ``skiplane`` as role ``skiplane``, its owner,
            over the socket. The role may create databases and roles and is no
            superuser.

        Raises:
            NoBinaries: There is no PostgreSQL on this machine.
            EmbeddedError: It did not start; the message has the reason.
        """
        if self._address is None:
            if sys.platform == "win32":
                raise EmbeddedError(
                    "The embedded server needs a Unix system; give the address of a running "
                    "PostgreSQL in SKIPLANE_DSN."
                )
            account = self._folder.prepare()
            lock = self._attach_or_lock()
            if lock is not None:
                try:
                    self._start(account, lock)
                finally:
                    os.close(lock)
        return self.dsn()

    def stop(self) -> None:
        """Stop the server if this object started it; running statements are cancelled."""
        process, self._process = self._process, None
        address, self._address = self._address, None
        self.attached = False
        if process is None:
            return
        atexit.unregister(self.stop)
        process.stop(self._postmaster)
        if address:
            with contextlib.suppress(OSError):
                os.rmdir(address.socket_folder)

    def kill9(self) -> None:
        """Kill the server's main process, as a crash would: for tests."""
        if self._process:
            self._process.kill9(self._postmaster)
        self.stop()

    def dsn(self, database: str = DATABASE, user: str = USER) -> str:
        """Give the DSN over the socket, which root and the server's user can enter.

        Args:
            database: Its name.
            user: ``skiplane``, or ``postgres`` for the superuser.
        """
        address = self._running()
        return (
            f"postgresql://{quote(user)}@/{quote(database, safe='')}"
            f"?host={quote(address.socket_folder, safe='')}&port={address.port}"
        )

    def tcp_dsn(self, database: str = DATABASE, user: str = USER) -> str:
        """Give the DSN over 127.0.0.1 with its password, for other users' programs."""
        password = quote(self._folder.password(), safe="")
        port = self._running().port
        return f"postgresql://{quote(user)}:{password}@127.0.0.1:{port}/{quote(database, safe='')}"

    @property
    def bin_dir(self) -> Path:
        """The folder with psql, pg_dump and the others."""
        return (self._binaries or find_binaries()).folder

    @property
    def pid(self) -> int:
        """The process id of the server's main process."""
        self._running()
        return self._folder.postmaster()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _running(self) -> Address:
        if self._address is None:
            raise EmbeddedError("The embedded server has not been started.")
        return self._address

    def _attach_or_lock(self) -> int | None:
        """Attach and give None, or give the lock that says that no server runs."""
        deadline = time.monotonic() + self._start_timeout
        while True:
            address = self._folder.address()
            # Connecting decides; the file may be left from a dead server.
            if address and answers(address, USER, DATABASE):
                self._address, self.attached = address, True
                return None
            lock = self._folder.try_lock()
            if lock is not None:
                return lock
            if time.monotonic() > deadline:
                raise EmbeddedError(
                    f"A server holds {self._folder.path} but did not answer for "
                    f"{self._start_timeout:g} s; see {self._folder.path / 'pg.log'}."
                )
            time.sleep(0.02)

    def _start(self, account: Account | None, lock: int) -> None:
        self._binaries = usable_by(self._binaries or find_binaries(), account)
        self._folder.forget_dead_server()
        self._folder.initialise(self._binaries, account, sync=not self._fast)
        sockets = str(self._folder.socket_folder(account))
        for last in (False, False, False, True):
            address = Address(sockets, self._choose_port())
            process, said = self._launch(account, lock, address)
            if process:
                break
            # Between choosing a port and binding it, another process may bind it.
            if last or "could not create any TCP/IP sockets" not in said:
                raise EmbeddedError(f"The embedded server did not start: {said}")
        self._process, self._address = process, address
        self._postmaster = self._folder.postmaster()
        atexit.register(self.stop)
        self._folder.remember_port(address.port)
        try:
            prepare_database(address, self._folder.password() if self._tcp else None)
        except BaseException:
            self.stop()
            raise

    def _choose_port(self) -> int:
        if not self._tcp:
            return 5432
        for wanted in (self._folder.last_port() or 0, 0):
            with socket.socket() as probe, contextlib.suppress(OSError):
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(("127.0.0.1", wanted))
                return int(probe.getsockname()[1])
        raise EmbeddedError("No free TCP port on 127.0.0.1.")

    def _launch(
        self, account: Account | None, lock: int, address: Address
    ) -> tuple[ServerProcess | None, str]:
        """Start the process and wait until it answers; else give what it said."""
        assert self._binaries is not None
        log = self._folder.open_log()
        try:
            before = os.fstat(log).st_size
            process = ServerProcess(self._command(address), account, lock=lock, log=log)
        finally:
            os.close(log)
        try:
            deadline = time.monotonic() + self._start_timeout
            while not process.ended and time.monotonic() < deadline:
                if answers(address):
                    return process, ""
                time.sleep(0.01)
        except BaseException:
            process.stop(None)
            raise
        process.stop(None)
        return None, self._folder.log_since(before) or "it said nothing."

    def _command(self, address: Address) -> list[str]:
        assert self._binaries is not None
        quoted = address.socket_folder.replace('"', '""')
        settings = self._settings | {
            "listen_addresses": "127.0.0.1" if self._tcp else "",
            "port": str(address.port),
            # A list: spaces and commas in a path need the quotes.
            "unix_socket_directories": f'"{quoted}"',
        }
        arguments = [f"--{name}={value}" for name, value in settings.items()]
        return [str(self._binaries.folder / "postgres"), "-D", str(self._folder.pg), *arguments]

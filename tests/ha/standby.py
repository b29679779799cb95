"""A primary with a streaming standby, for tests that let the primary die."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import psycopg

from skiplane.schema.embedded import EmbeddedServer
from skiplane.schema.embedded.binaries import Account, run
from skiplane.tests.support import wait_until


class Pair:
    """A server and the synchronous standby that follows it.

    Attributes:
        primary: The server that is written to at first.
    """

    def __init__(self, primary: EmbeddedServer, folder: Path) -> None:
        self.primary = primary
        self._bin = primary.bin_dir
        self._data = folder / "pg"
        self._sockets = _part(primary.dsn(), "host")
        self._port = int(_part(primary.dsn(), "port"))
        stat = (folder.parent / "primary" / "pg").stat()
        self._account = Account("", stat.st_uid, stat.st_gid) if os.geteuid() == 0 else None
        folder.mkdir()
        if self._account:
            os.chown(folder, stat.st_uid, stat.st_gid)

    def start_standby(self) -> None:
        """Copy the primary, start the copy behind it, and let every commit wait for both."""
        self._run(
            "pg_basebackup", "--pgdata", self._data, "--write-recovery-conf", "--checkpoint=fast",
            "--dbname", f"host={self._sockets} port={self._port} user=postgres",
        )  # fmt: skip
        # The socket's name has the port in it: both can live in one folder.
        options = f"--port={self._port + 1} --unix_socket_directories='{self._sockets}'"
        settings = "--listen_addresses= --fsync=off --max_connections=200"
        self._control("start", "--log", self._data.parent / "log", "-o", f"{options} {settings}")
        with psycopg.connect(self.primary.dsn(user="postgres"), autocommit=True) as conn:
            conn.execute("alter system set synchronous_standby_names = '*'")
            conn.execute("select pg_reload_conf()")
            wait_until(
                lambda: conn.execute(
                    "select 1 from pg_stat_replication where sync_state = 'sync'"
                ).fetchone(),
                what="the standby to follow",
            )

    def promote(self) -> None:
        """Make the standby the server that is written to."""
        self._control("promote")

    def stop_standby(self) -> None:
        """End it at once."""
        if (self._data / "postmaster.pid").exists():
            self._control("stop", "-m", "immediate")

    def standby_dsn(self, user: str = "skiplane") -> str:
        """Give the DSN of the standby alone."""
        return f"host={self._sockets} port={self._port + 1} user={user} dbname=skiplane"

    def dsn(self) -> str:
        """Give the DSN that finds whichever of both takes writes."""
        return (
            f"host={self._sockets},{self._sockets} port={self._port},{self._port + 1}"
            " user=skiplane dbname=skiplane target_session_attrs=read-write"
        )

    def _control(self, *words: str | Path) -> None:
        self._run("pg_ctl", "--pgdata", self._data, "--wait", *words)

    def _run(self, program: str, *words: str | Path) -> None:
        run([self._bin / program, *words], self._account)


def _part(dsn: str, name: str) -> str:
    return parse_qs(urlsplit(dsn).query)[name][0]


@contextmanager
def primary_and_standby(folder: Path) -> Iterator[Pair]:
    """Run a primary; the standby is the caller's to start, and both end with the block."""
    with EmbeddedServer(folder / "primary", fast=True) as primary:
        pair = Pair(primary, folder / "standby")
        try:
            yield pair
        finally:
            pair.stop_standby()

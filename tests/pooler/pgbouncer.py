"""A pgbouncer in front of one database."""

import contextlib
import os
import pwd
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from skiplane.tests.support import wait_until
from skiplane.tests.support.databases import server_folder

POOL_SIZE = 5
# The version that keeps prepared statements for its clients.
KEEPS_STATEMENTS = (1, 21)
SETTINGS = """
[databases]
{database} = host='{host}' port={port} dbname={database} user={user}
[pgbouncer]
listen_addr =
listen_port = 6432
unix_socket_dir = {folder}
auth_type = any
admin_users = {user}
pool_mode = transaction
default_pool_size = {size}
logfile = {folder}/log
"""


class Pooler:
    """A running pgbouncer.

    Attributes:
        dsn: The database through it.
        prepares: Whether it keeps prepared statements for its clients.
    """

    def __init__(self, folder: Path, server: dict[str, Any], prepares: bool) -> None:
        self.prepares = prepares
        self.dsn = make_conninfo(
            host=str(folder), port=6432, dbname=server["dbname"], user=server["user"]
        )

    def server_pids(self) -> list[int]:
        """Give the processes of the server that it shares out."""
        admin = make_conninfo(self.dsn, dbname="pgbouncer")
        with psycopg.connect(
            admin, autocommit=True, cursor_factory=psycopg.ClientCursor, prepare_threshold=None
        ) as conn:
            found = conn.execute("show servers")
            assert found.description is not None
            place = [column.name for column in found.description].index("remote_pid")
            return [int(row[place]) for row in found.fetchall()]

    @contextlib.contextmanager
    def all_sessions(self) -> Iterator[list[psycopg.Connection[tuple[Any, ...]]]]:
        """Give one client for each session of the pool, each with a transaction that keeps it."""
        with contextlib.ExitStack() as stack:
            clients = []
            for _ in range(POOL_SIZE):
                client = stack.enter_context(psycopg.connect(self.dsn, prepare_threshold=None))
                client.execute("select 1")
                clients.append(client)
            yield clients


@contextlib.contextmanager
def running_pooler(dsn: str, max_prepared_statements: int) -> Iterator[Pooler]:
    """Run a pooler before a database, as another user when we are root.

    Args:
        dsn: The database, on a server that we have started.
        max_prepared_statements: 0 refuses them; pgbouncer has had more since 1.21.
    """
    program = find_program()
    if "SKIPLANE_TEST_DSN" in os.environ:
        pytest.skip("the pooler needs a server that lets it in without a password")
    server = conninfo_to_dict(dsn)
    with server_folder() as folder:
        text = SETTINGS.format(
            host=server["host"],
            port=server["port"],
            database=server["dbname"],
            user=server["user"],
            folder=folder,
            size=POOL_SIZE,
        )
        if version(program) >= KEEPS_STATEMENTS:
            text += f"max_prepared_statements = {max_prepared_statements}\n"
        elif max_prepared_statements:
            pytest.skip("this pgbouncer cannot keep prepared statements (1.21 and newer can)")
        with started(program, folder, text):
            yield Pooler(folder, server, max_prepared_statements > 0)


@contextlib.contextmanager
def started(program: str, folder: Path, text: str) -> Iterator[None]:
    """Run pgbouncer with these settings until the block ends, as another user when we are root.

    Args:
        program: Its path.
        folder: Where its socket is to be; it is given to that user with all that is in it.
        text: Its settings, with that folder and port 6432.
    """
    (folder / "pgbouncer.ini").write_text(text)
    uid = pwd.getpwnam("nobody").pw_uid if os.geteuid() == 0 else None
    if uid is not None:
        for path in (folder, *folder.iterdir()):
            os.chown(path, uid, uid)
    command = [program, "-q", str(folder / "pgbouncer.ini")]
    process = subprocess.Popen(command, user=uid, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: _listens(folder / ".s.PGSQL.6432"), what="pgbouncer")
        yield
    finally:
        process.terminate()
        process.wait(10)


def _listens(path: Path) -> bool:
    # The file is there a moment before anybody listens.
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(path)) == 0


def find_program() -> str:
    """Give the path of pgbouncer; skips the test where there is none."""
    program = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        pytest.skip("pgbouncer is not installed (Debian: pgbouncer)")
    return program


def version(program: str) -> tuple[int, int]:
    """Give the version of pgbouncer."""
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    found = re.search(r"(\d+)\.(\d+)", said.stdout)
    assert found is not None, said.stdout
    return int(found[1]), int(found[2])

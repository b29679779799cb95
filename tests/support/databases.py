"""Fresh databases on one server of the test session."""

import contextlib
import itertools
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from skiplane.schema.embedded import EmbeddedServer
from skiplane.schema.migrate import migrate

_MEMORY = "/dev/shm"
_ROOM_BYTES = 6 * 1024**3

SMALL = {"shared_buffers": "64MB", "max_wal_size": "1GB"}


@dataclass(frozen=True)
class Role:
    """A role that can log in: its name and password."""

    name: str
    password: str


class Databases:
    """A server and what a test may ask of it.

    The server is SKIPLANE_TEST_DSN, whose role must be allowed to create
    databases (and for some tests to be a superuser), else an embedded one with
    fsync off, started for this session (with xdist: for this worker), with the
    programs in SKIPLANE_TEST_PG_BIN when that is set.
    """

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._prefix = f"skiplane_test_{secrets.token_hex(4)}"
        self._template: str | None = None
        self._clean = contextlib.ExitStack()
        self.embedded: EmbeddedServer | None = None
        self._given = os.environ.get("SKIPLANE_TEST_DSN")
        if not self._given:
            if programs := os.environ.get("SKIPLANE_TEST_PG_BIN"):
                os.environ["SKIPLANE_PG_BIN"] = programs
            folder = self._clean.enter_context(server_folder())
            self.embedded = self._clean.enter_context(
                EmbeddedServer(folder, fast=True, settings=SMALL)
            )

    def close(self) -> None:
        """Drop what was made and stop the server."""
        if self._given and self._template:
            self.drop(self._template)
        self._clean.close()

    def dsn(self, database: str, role: Role | None = None) -> str:
        """Give the DSN of a database, as the owner of the schema or as another role."""
        if role is None:
            return (
                self.embedded.dsn(database)
                if self.embedded
                else make_conninfo(self._given or "", dbname=database)
            )
        # Over TCP: the socket lets in only the owner's names.
        base = self.embedded.tcp_dsn(database) if self.embedded else self._given or ""
        return make_conninfo(base, dbname=database, user=role.name, password=role.password)

    def admin_dsn(self, database: str = "postgres") -> str:
        """Give the DSN of a database for the most powerful role that there is."""
        if self.embedded:
            return self.embedded.dsn(database, user="postgres")
        return make_conninfo(self._given or "", dbname=database)

    def admin(self, database: str = "postgres") -> psycopg.Connection[tuple[Any, ...]]:
        """Connect as that role, in autocommit."""
        return psycopg.connect(self.admin_dsn(database), autocommit=True)

    @contextlib.contextmanager
    def fresh(self, template: str = "template0", owner: str | None = None) -> Iterator[str]:
        """Make a database, give its name, and drop it at the end."""
        name = f"{self._prefix}_{next(self._numbers)}"
        self._create(name, template, owner)
        try:
            yield name
        finally:
            self.drop(name)

    def migrated_template(self) -> str:
        """Give the name of a database with the schema, to make others from; made once."""
        if self._template is None:
            name = f"{self._prefix}_template"
            self._create(name, "template0", None)
            migrate(self.dsn(name))
            self._template = name
        return self._template

    @contextlib.contextmanager
    def role(self, attributes: str = "") -> Iterator[Role]:
        """Make a role that can log in; drop it and what it owns at the end of the test.

        Args:
            attributes: For ``create role``, such as ``createrole``.
        """
        role = Role(f"{self._prefix}_r{next(self._numbers)}", secrets.token_hex(8))
        with self.admin() as admin:
            admin.execute(
                f"create role {role.name} login {attributes} password '{role.password}'".encode()
            )
            # Members may give away what is theirs, which makes them owners of databases.
            admin.execute(f"grant {role.name} to current_user".encode())
        try:
            yield role
        finally:
            with self.admin() as admin:
                admin.execute(f"drop role {role.name}".encode())

    def drop(self, name: str) -> None:
        """Drop a database, with the sessions that a test left open in it."""
        with self.admin() as admin:
            admin.execute(
                sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name))
            )

    def _create(self, name: str, template: str, owner: str | None) -> None:
        owner = owner or ("skiplane" if self.embedded else None)
        with self.admin() as admin:
            admin.execute(
                sql.SQL("create database {} template {} strategy file_copy {}").format(
                    sql.Identifier(name),
                    sql.Identifier(template),
                    sql.SQL("owner {}").format(sql.Identifier(owner)) if owner else sql.SQL(""),
                )
            )


@contextlib.contextmanager
def server_folder() -> Iterator[Path]:
    """Make a folder that the server's user can enter, which pytest's own is not for root.

    In memory where there is room: every test has a database of its own, and a disk
    that cannot follow holds everybody up for seconds at a time.
    """
    folder = Path(tempfile.mkdtemp(prefix="skiplane-test-", dir=_roomy()))
    folder.chmod(0o711)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _roomy() -> str:
    with contextlib.suppress(OSError):
        if shutil.disk_usage(_MEMORY).free > _ROOM_BYTES:
            return _MEMORY
    return "/tmp"

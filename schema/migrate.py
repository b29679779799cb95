"""Bring a database to the schema of this release, or say what that would change.

Tables change by Alembic versions; functions, views and grants are files that are
applied whole when they differ. All happens in one transaction: a migration that
fails, is killed or meets a lock leaves the database as it was.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg

from .install import files, run, session, versions
from .install.differences import differences
from .install.errors import (
    LockTimeout,
    MigrationError,
    SchemaMissing,
    SchemaTooNew,
    ServerTooOld,
    SqlFileError,
)
from .install.versions import ensure_served

__all__ = [
    "LockTimeout",
    "MigrationError",
    "SchemaMissing",
    "SchemaTooNew",
    "ServerTooOld",
    "SqlFileError",
    "check",
    "ensure_served",
    "migrate",
]

# Alembic keeps the migration that runs in a module: one at a time in a process.
_ALEMBIC = threading.Lock()


def migrate(
    dsn: str,
    shards: int | None = None,
    lock_timeout: str = "5s",
    *,
    report: Callable[[str], None] = lambda line: None,
    sql_root: Path = files.ROOT,
    migrations: Path = versions.FOLDER,
) -> list[str]:
    """Install the schema, or bring it to this release.

    Args:
        dsn: A libpq connection string. The role must own schema skiplane, or may
            make it (CREATE on the database); it need not be a superuser.
        shards: Number of shards, 1 on a new database when None. Can be raised
            later, never lowered.
        lock_timeout: Longest wait for a lock, as PostgreSQL writes it; so long
            may other sessions have to wait behind the migration.
        report: Told each thing as it is done, and warnings.
        sql_root: Folder with tables, functions, views and grants.
        migrations: Folder with the Alembic environment.

    Returns:
        What was done, one line each; nothing when the database was up to date.

    Raises:
        SchemaTooNew: A newer release has migrated this database.
        LockTimeout: Another session holds what is needed.
        ServerTooOld: The server is older than PostgreSQL 15.
        MigrationError: Anything else, with the reason.
    """
    from alembic import command
    from sqlalchemy import NullPool, create_engine

    with _ALEMBIC, session.connect(dsn) as connection:
        # Alembic wants an engine; the session stays the one that we prepare.
        engine = create_engine(
            "postgresql+psycopg://", creator=lambda: connection, poolclass=NullPool
        )
        installation = run.Installation(connection, sql_root, migrations, shards, report)
        with (
            engine.connect().execution_options(isolation_level="READ COMMITTED") as alembic_side,
            session.naming_blockers(dsn, lock_timeout) as blockers,
            _explained(),
            alembic_side.begin(),
        ):
            session.prepare(connection, lock_timeout)
            blockers.of(connection)
            session.take_turn(connection, lock_timeout, report)
            config = versions.alembic_config(migrations)
            config.attributes["connection"] = alembic_side
            config.attributes["installation"] = installation
            command.upgrade(config, "head")
        return installation.done


def check(
    dsn: str, *, sql_root: Path = files.ROOT, migrations: Path = versions.FOLDER
) -> list[str]:
    """Say what migrate would do, without changing or locking anything.

    Args:
        dsn: A libpq connection string of a role that may read schema skiplane.
        sql_root: As in migrate.
        migrations: As in migrate.

    Returns:
        One line for each difference, of which some (an invalid index, changed
        table files) need more than migrate; nothing when all is as it should be.

    Raises:
        SchemaTooNew: A newer release has migrated this database.
        MigrationError: It cannot be read.
    """
    with session.connect(dsn) as connection, _explained():
        connection.read_only = True
        # One picture, also while somebody migrates.
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        session.prepare(connection, "5s")
        return differences(connection, sql_root, migrations)


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    """Give errors of the server that nobody foresaw the type that callers expect."""
    try:
        yield
    except psycopg.errors.LockNotAvailable:
        raise
    except psycopg.Error as error:
        raise MigrationError(f"The database refused: {str(error).strip()}") from error

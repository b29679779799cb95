"""Views: replaced where PostgreSQL can do that, else dropped and made again."""

import re

import psycopg

from .errors import MigrationError, SqlFileError, detail
from .files import SqlFile, execute_file, remember
from .session import Connection

MADE = re.compile(r"^\s*create\s+(?:or\s+replace\s+)?view\s+(skiplane\.\w+)", re.I | re.M)


def views_of(file: SqlFile) -> dict[str, str]:
    """Give the qualified names of the views that a file makes."""
    return {name.lower(): "" for name in MADE.findall(file.text)}


def views(connection: Connection) -> dict[str, str]:
    """Give the views of the schema. Their text is no hash: each server version prints it anew."""
    rows = connection.execute(
        "select format('%I.%I', 'skiplane', relname) from pg_class"
        " where relnamespace = to_regnamespace('skiplane') and relkind = 'v' order by 1"
    )
    return {name: "" for (name,) in rows}


def apply_views(connection: Connection, files: list[SqlFile], known: set[str]) -> list[str]:
    """Apply the files whole; give what was done beyond that.

    Args:
        connection: In the migration's transaction.
        files: All files, in the order in which views build on each other.
        known: Views that earlier releases made, of which some may be gone now.

    Raises:
        MigrationError: A view must be dropped and something of a user's needs it.
    """
    made = {name for file in files for name in views_of(file)}
    try:
        # Replacing takes a weaker look at what users built on a view: it stays.
        with connection.transaction():
            _execute(connection, files)
    except SqlFileError as error:
        # Columns were taken away, renamed or given another type.
        if not isinstance(
            error.__cause__,
            psycopg.errors.InvalidTableDefinition | psycopg.errors.DuplicateTable,
        ):
            raise
        _drop(connection, (known | made) & views(connection).keys())
        _execute(connection, files)
        return ["dropped and re-created all views"]
    gone = (known - made) & views(connection).keys()
    _drop(connection, gone)
    return [f"dropped view {name}" for name in sorted(gone)]


def _execute(connection: Connection, files: list[SqlFile]) -> None:
    for file in files:
        execute_file(connection, file.name, file.text)
        remember(connection, file, views_of(file))


def _drop(connection: Connection, names: set[str]) -> None:
    if not names:
        return
    try:
        # In one statement their order does not matter.
        connection.execute(f"drop view {', '.join(sorted(names))}".encode())
    except psycopg.errors.DependentObjectsStillExist as error:
        raise MigrationError(
            f"A view of Skiplane changes its columns, and something uses it: "
            f"{detail(error)}. Drop that, migrate, and make it again."
        ) from error

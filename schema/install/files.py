"""The SQL files of the schema, and what of them a database has."""

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, LiteralString

import psycopg
from psycopg.types.json import Jsonb

from .errors import MigrationError, detail, failed_in
from .session import Connection

ROOT = Path(__file__).parent.parent

# The migrator's own memory, so it is here and no version changes it.
BOOTSTRAP: LiteralString = """
create table if not exists skiplane.applied_file (
    name text primary key,
    checksum text not null,
    objects jsonb not null default '{}',
    applied_at timestamptz not null
);
comment on table skiplane.applied_file is
'SQL files that are in force, so that a migration applies what changed and drops what went.';
comment on column skiplane.applied_file.name is 'Folder and name of the file.';
comment on column skiplane.applied_file.checksum is 'SHA-256 of its text and what it depends on.';
comment on column skiplane.applied_file.objects is 'What it made: functions with a hash, or views.';
comment on column skiplane.applied_file.applied_at is 'When it was applied.';
"""


@dataclass(frozen=True)
class SqlFile:
    """One file: its folder and name, its text, and a hash of the text."""

    name: str
    text: str
    checksum: str

    @classmethod
    def of(cls, name: str, text: str, depends_on: str = "") -> "SqlFile":
        """Make one; ``depends_on`` is what else must lead to applying it again."""
        return cls(name, text, hashlib.sha256((text + depends_on).encode()).hexdigest())


@dataclass(frozen=True)
class Applied:
    """What a database remembers of one file; ``objects`` maps each to its hash."""

    checksum: str
    objects: dict[str, str] = field(default_factory=dict)


def read_files(root: Path, kind: str, depends_on: str = "") -> list[SqlFile]:
    """Give the files of one folder below ``root``, in the order of their names."""
    return [
        # Universal newlines: a checkout on Windows is the same file.
        SqlFile.of(f"{kind}/{path.name}", path.read_text(encoding="utf-8"), depends_on)
        for path in sorted((root / kind).glob("*.sql"))
    ]


def execute_file(connection: Connection, name: str, text: str) -> None:
    """Run a text of many statements.

    Raises:
        SqlFileError: One of them failed; the message has file and line.
        psycopg.errors.LockNotAvailable: As it is, for naming who blocks.
    """
    try:
        # Without parameters the driver sends the text as it is.
        connection.execute(text.encode())
    except psycopg.errors.LockNotAvailable:
        raise
    except psycopg.Error as error:
        raise failed_in(name, text, error) from error


def read_applied(connection: Connection) -> dict[str, Applied]:
    """Give what the database remembers, by name of the file; nothing when it is new."""
    if not exists(connection, "skiplane.applied_file"):
        return {}
    rows = connection.execute("select name, checksum, objects from skiplane.applied_file")
    return {name: Applied(checksum, objects) for name, checksum, objects in rows}


def remember(connection: Connection, file: SqlFile, objects: dict[str, str]) -> None:
    """Write down that a file is in force."""
    connection.execute(
        "insert into skiplane.applied_file (name, checksum, objects, applied_at)"
        " values (%s, %s, %s, now()) on conflict (name) do update"
        " set checksum = excluded.checksum, objects = excluded.objects,"
        " applied_at = excluded.applied_at",
        [file.name, file.checksum, Jsonb(objects)],
    )


def forget(connection: Connection, names: set[str]) -> None:
    """Drop files that are no more from the database's memory."""
    connection.execute("delete from skiplane.applied_file where name = any (%s)", [list(names)])


def exists(connection: Connection, relation: str) -> bool:
    """Tell whether a table, view or sequence of that qualified name exists."""
    row = connection.execute("select to_regclass(%s) is not null", [relation]).fetchone()
    return bool(row and row[0])


# Names are in the form of regprocedure; the migrating session's search_path
# makes them qualified. The hash is of what a server upgrade does not rewrite.
FUNCTIONS: LiteralString = """
select p.oid::regprocedure::text,
       md5(concat_ws('|', p.prosrc, p.proconfig::text, p.prosecdef, p.provolatile, p.proparallel)),
       p.xmin = pg_current_xact_id()::xid
from pg_proc p
where p.pronamespace = to_regnamespace('skiplane')
  and not exists (select from pg_depend d
                  where d.classid = 'pg_proc'::regclass and d.objid = p.oid and d.deptype = 'e')
order by 1
"""


def functions(connection: Connection) -> dict[str, str]:
    """Give the functions of the schema by signature, each with a hash."""
    return {name: digest for name, digest, _ in connection.execute(FUNCTIONS)}


def apply_functions(connection: Connection, files: list[SqlFile]) -> None:
    """Apply the files whole and remember which functions each made.

    A function belongs to the first file in this transaction after which its row
    was written by this transaction. One that is made in a DO block with an
    exception handler escapes (its row carries a subtransaction's number).
    """
    seen: set[str] = set()
    for file in files:
        execute_file(connection, file.name, file.text)
        made = {
            name: digest
            for name, digest, ours in connection.execute(FUNCTIONS)
            if ours and name not in seen
        }
        seen |= made.keys()
        remember(connection, file, made)


def drop_functions(connection: Connection, names: set[str]) -> list[str]:
    """Drop those of the functions that exist; give what was done.

    Raises:
        MigrationError: Something outside the schema uses one.
    """
    done = []
    for name in sorted(names & functions(connection).keys()):
        try:
            connection.execute(f"drop routine {name}".encode())
        except psycopg.errors.DependentObjectsStillExist as error:
            raise MigrationError(
                f"Function {name} is no longer part of Skiplane but is still used: "
                f"{detail(error)}. Change or drop that first."
            ) from error
        done.append(f"dropped function {name}")
    return done


def check_bodies(connection: Connection, names: list[str]) -> None:
    """Let the server check each function against the finished schema.

    Raises:
        SqlFileError: A body is wrong.
    """
    connection.execute("set local check_function_bodies = on")
    for name in names:
        try:
            connection.execute(
                "select case l.lanname when 'sql' then fmgr_sql_validator(p.oid)"
                " when 'plpgsql' then plpgsql_validator(p.oid) end"
                " from pg_proc p join pg_language l on l.oid = p.prolang"
                " where p.oid = %s::regprocedure",
                [name],
            )
        except psycopg.Error as error:
            raise failed_in(f"function {name}", "", error) from error
    connection.execute("set local check_function_bodies = off")


def changed(files: list[SqlFile], applied: dict[str, Applied], kind: str) -> dict[str, str]:
    """Give the names in folder ``kind`` that differ, each with how."""
    now = {file.name: file.checksum for file in files if file.name.startswith(f"{kind}/")}
    before = {name for name in applied if name.startswith(f"{kind}/")}
    differ = {
        name: "new" if name not in before else "changed"
        for name, checksum in now.items()
        if name not in before or applied[name].checksum != checksum
    }
    return differ | dict.fromkeys(sorted(before - now.keys()), "removed")


def tampered(
    files: list[SqlFile], applied: dict[str, Applied], existing: dict[str, Any]
) -> dict[str, str]:
    """Give the functions or views that somebody dropped or replaced by hand, each with how."""
    found: dict[str, str] = {}
    for file in files:
        for name, digest in (applied[file.name].objects if file.name in applied else {}).items():
            if name not in existing:
                found[name] = "missing"
            elif existing[name] != digest:
                found[name] = "changed by hand"
    return found

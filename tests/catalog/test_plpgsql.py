"""plpgsql_check, on whichever server of this machine has it."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from skiplane.schema.embedded import Binaries, EmbeddedServer
from skiplane.schema.migrate import migrate
from skiplane.tests.support import Databases
from skiplane.tests.support.databases import server_folder

Connection = psycopg.Connection[tuple[Any, ...]]

# What the check cannot know.
HARMLESS = {
    # Assignments cast, which is meant.
    "target type is different type than source type",
    # _refuse never returns.
    "control reached end of function without RETURN",
}
TRUSTED = {
    # _day_bound gives a quoted literal.
    ("_make_partition", "text type variable is not sanitized"),
    # Called for what they do: an assignment costs a fraction of PERFORM.
    ("_submit_one", 'never read variable "v_woken"'),
    ("submit_task", 'never read variable "v_xid"'),
}

CHECK = """
    select p.proname, f.lineno, f.level, f.message, f.query
    from pg_proc p
    join pg_language l on l.oid = p.prolang and l.lanname = 'plpgsql'
    left join pg_trigger t on t.tgfoid = p.oid
    cross join lateral plpgsql_check_function_tb(
        p.oid, coalesce(t.tgrelid, 0),
        extra_warnings => true, security_warnings => true, other_warnings => true) f
    where p.pronamespace = 'skiplane'::regnamespace
"""


@pytest.fixture
def checked(databases: Databases) -> Iterator[Connection]:
    """An administrator's connection to a migrated database with the extension."""
    with contextlib.ExitStack() as stack:
        name = stack.enter_context(databases.fresh(template=databases.migrated_template()))
        conn = stack.enter_context(databases.admin(name))
        if not available(conn):
            conn = stack.enter_context(on_debians_server(stack))
        conn.execute("create extension plpgsql_check")
        yield conn


def available(conn: Connection) -> bool:
    return bool(
        conn.execute("select from pg_available_extensions where name = 'plpgsql_check'").fetchall()
    )


def on_debians_server(stack: contextlib.ExitStack) -> Connection:
    for library in Path("/usr/lib/postgresql").glob("*/lib/plpgsql_check.so"):
        programs = Binaries(library.parent.parent / "bin")
        folder = stack.enter_context(server_folder())
        server = stack.enter_context(EmbeddedServer(folder, fast=True, binaries=programs))
        migrate(server.dsn())
        return psycopg.connect(server.dsn(user="postgres"), autocommit=True)
    pytest.skip(
        "the extension plpgsql_check is not installed (Debian: postgresql-15-plpgsql-check)"
    )


def test_plpgsql_check_finds_nothing(checked: Connection):
    found = [
        " | ".join(map(str, row))
        for row in checked.execute(CHECK)
        if row[3] not in HARMLESS and (row[0], row[3]) not in TRUSTED
    ]
    assert found == []


def test_plpgsql_check_would_find_something(checked: Connection):
    checked.execute(
        "create function skiplane.bad() returns int language plpgsql as"
        " 'begin return (select no_such_column from skiplane.task); end'"
    )
    assert any("no_such_column" in row[3] for row in checked.execute(CHECK))

"""A small tree of SQL files that tests change, and a migrator in its own process."""

import contextlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from skiplane.schema.install.versions import FOLDER
from skiplane.schema.migrate import check, migrate
from skiplane.tests.support import Databases, Role

FILES = {
    "tables/010_setting.sql": """
        create table skiplane.setting (name text primary key, value jsonb not null);
        insert into skiplane.setting values ('shards', '[0]');
    """,
    "tables/020_thing.sql": "create table skiplane.thing (id int primary key, name text);",
    "functions/010_first.sql": """
        create or replace function skiplane.names() returns setof text
        language sql as $$ select name from skiplane.things $$;
        create or replace function skiplane.one() returns int language sql as $$ select 1 $$;
    """,
    "functions/900_schema_info.sql": """
        create or replace function skiplane.schema_info() returns jsonb language sql
        security definer set search_path = pg_catalog, pg_temp as $$
        select jsonb_build_object(
            'version', (select version_num from skiplane.schema_version),
            'oldest_code', (select value from skiplane.setting where name = 'oldest_code')) $$;
    """,
    "views/010_things.sql": """
        create or replace view skiplane.things as
        select id, name, skiplane.one() from skiplane.thing;
    """,
    "views/020_names.sql": """
        create or replace view skiplane.thing_names as select name from skiplane.things;
    """,
    "grants/010_read.sql": """
        revoke execute on all functions in schema skiplane from public;
        grant usage on schema skiplane to skiplane_reader;
        grant select on skiplane.things to skiplane_reader;
        grant execute on function skiplane.one() to skiplane_reader;
    """,
}

MIGRATOR = """
import json, sys
from pathlib import Path
from skiplane.schema.migrate import MigrationError, migrate
dsn, root, migrations, lock_timeout = sys.argv[1:]
def report(line):
    print(line, file=sys.stderr, flush=True)
try:
    done = migrate(dsn, None, lock_timeout, report=report, sql_root=Path(root),
                   migrations=Path(migrations))
    print(json.dumps(done))
except MigrationError as error:
    print(type(error).__name__, error, flush=True)
    sys.exit(1)
"""


# What web applications set on their roles, and what an enemy would.
HOSTILE = {
    "statement_timeout": "'5s'",
    "lock_timeout": "'1s'",
    "idle_in_transaction_session_timeout": "'10s'",
    "default_transaction_isolation": "serializable",
    "default_transaction_read_only": "on",
    "default_transaction_deferrable": "on",
    "search_path": "evil, public",
    "datestyle": "'SQL, DMY'",
    "intervalstyle": "iso_8601",
    "timezone": "'Asia/Tokyo'",
    "standard_conforming_strings": "off",
    "check_function_bodies": "off",
    "client_encoding": "latin1",
    "bytea_output": "escape",
    "transform_null_equals": "on",
    "quote_all_identifiers": "on",
    "row_security": "off",
    "client_min_messages": "debug1",
}


class Tree:
    """SQL files and Alembic versions in a folder of the test."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "sql"
        self.migrations = folder / "migrations"
        for name, text in FILES.items():
            self.write(name, text)
        shutil.copytree(FOLDER, self.migrations, ignore=shutil.ignore_patterns("__pycache__"))

    def write(self, name: str, text: str) -> None:
        """Write or replace a file."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def remove(self, name: str) -> None:
        """Remove a file."""
        (self.root / name).unlink()

    def version(self, number: int, sql: str) -> None:
        """Add an Alembic version that runs one statement."""
        (self.migrations / "versions" / f"{number:04}_more.py").write_text(
            f'"""more"""\nfrom alembic import op\n'
            f"revision = '{number:04}'\ndown_revision = '{number - 1:04}'\n"
            f"def upgrade():\n    op.execute({sql!r})\n"
        )

    def migrate(self, dsn: str, shards: int | None = None, **options: Any) -> list[str]:
        """Migrate a database to this tree."""
        return migrate(dsn, shards, sql_root=self.root, migrations=self.migrations, **options)

    def check(self, dsn: str) -> list[str]:
        """Say what migrate would do."""
        return check(dsn, sql_root=self.root, migrations=self.migrations)

    def migrator(self, dsn: str, lock_timeout: str = "5s") -> "subprocess.Popen[str]":
        """Migrate in a process of its own."""
        return subprocess.Popen(
            [sys.executable, "-c", MIGRATOR, dsn, self.root, self.migrations, lock_timeout],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """The small tree, as it is in a first release."""
    return Tree(tmp_path)


@pytest.fixture
def query(empty_dsn: str) -> Iterator[Callable[..., Any]]:
    """Run a query in the database of ``empty_dsn`` and give its first value."""
    with psycopg.connect(empty_dsn, autocommit=True) as connection:

        def run(text: str, *values: Any) -> Any:
            cursor = connection.execute(text.encode(), values or None)
            row = cursor.fetchone() if cursor.description else None
            return row[0] if row else None

        yield run


def result(process: "subprocess.Popen[str]") -> list[str]:
    """Wait for a migrator and give what it did."""
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, out + err
    done: list[str] = json.loads(out)
    return done


def refusal(process: "subprocess.Popen[str]") -> str:
    """Wait for a migrator that must fail and give what it said."""
    out, err = process.communicate(timeout=60)
    assert process.returncode == 1, out + err
    return out


@contextlib.contextmanager
def owner_of_a_database(
    databases: Databases, attributes: str = ""
) -> Iterator[tuple[Role, str, psycopg.Connection[Any]]]:
    """Make a role, a database of its own, and a connection of an administrator to it."""
    with (
        databases.role(attributes) as role,
        databases.fresh(owner=role.name) as name,
        databases.admin(name) as admin,
    ):
        yield role, databases.dsn(name, role), admin

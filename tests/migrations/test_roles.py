"""Grants go to group roles, which a migrator may be unable to make."""

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from skiplane.schema.install import roles
from skiplane.tests.support import Databases

from .conftest import Tree

Query = Callable[..., Any]

# Roles belong to the whole server, which other tests use: these have names of their own.
READ = """
    grant usage on schema skiplane to {reader};
    grant select on skiplane.things to {reader};
"""


@pytest.fixture
def names(
    databases: Databases, tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[str, str]]:
    """Two group roles that do not exist, in place of the real ones."""
    made = ("skiplane_test_producer", "skiplane_test_reader")
    monkeypatch.setattr(roles, "ROLES", made)
    tree.write("grants/010_read.sql", READ.format(reader=made[1]))
    yield made
    with databases.admin() as admin:
        for name in made:
            admin.execute(f"drop role if exists {name}".encode())


def readable(query: Query, role: str) -> Any:
    return query(f"select has_table_privilege('{role}', 'skiplane.things', 'select')")


def test_migrator_that_may_makes_the_roles_and_grants(
    databases: Databases, tree: Tree, names: tuple[str, str]
):
    with databases.role("createrole") as role, databases.fresh(owner=role.name) as name:
        dsn = databases.dsn(name, role)
        done = tree.migrate(dsn)
        assert {f"created role {made}" for made in names} <= set(done)
        assert done[-1] == "grants"
        with psycopg.connect(dsn, autocommit=True) as connection:
            row = connection.execute(
                "select has_table_privilege(%s, 'skiplane.things', 'select')", [names[1]]
            ).fetchone()
        assert row == (True,)
        assert tree.migrate(dsn) == []


def test_migrator_that_may_not_says_what_a_dba_must_run_and_grants_later(
    databases: Databases, tree: Tree, names: tuple[str, str]
):
    with databases.role("nocreaterole") as role, databases.fresh(owner=role.name) as name:
        dsn = databases.dsn(name, role)
        said: list[str] = []
        assert "grants" not in tree.migrate(dsn, report=said.append)
        [warning] = [line for line in said if line.startswith("warning")]
        statements = warning[warning.index("create role") : warning.index(" Then")]
        assert statements == "".join(f"create role {made} nologin; " for made in names).strip()
        assert tree.check(dsn) == [f"group roles are missing; run: {statements}"]
        assert tree.migrate(dsn) == []
        with databases.admin() as admin:
            admin.execute(statements.encode())
        assert tree.check(dsn) == ["grants/010_read.sql new"]
        assert tree.migrate(dsn) == ["grants"]
        with psycopg.connect(dsn, autocommit=True) as connection:
            row = connection.execute(
                "select has_table_privilege(%s, 'skiplane.things', 'select')", [names[1]]
            ).fetchone()
        assert row == (True,)
        assert tree.migrate(dsn) == []


def test_role_made_anew_gets_its_grants_again(
    databases: Databases, tree: Tree, names: tuple[str, str], empty_dsn: str, query: Query
):
    tree.migrate(empty_dsn)
    assert readable(query, names[1])
    with databases.admin(query("select current_database()")) as admin:
        admin.execute(f"drop owned by {names[1]}".encode())
        admin.execute(f"drop role {names[1]}".encode())
        admin.execute(f"create role {names[1]} nologin".encode())
    assert not readable(query, names[1])
    assert tree.migrate(empty_dsn) == ["grants"]
    assert readable(query, names[1])


def test_roles_made_by_another_databases_migration_meanwhile_are_used(
    databases: Databases, tree: Tree, names: tuple[str, str], empty_dsn: str, query: Query
):
    with databases.admin() as other:
        other.autocommit = False
        for name in names:
            other.execute(f"create role {name} nologin".encode())
        migrator = tree.migrator(empty_dsn)
        other.commit()
        out, err = migrator.communicate(timeout=60)
        assert migrator.returncode == 0, out + err


def test_changed_grants_are_applied(tree: Tree, empty_dsn: str, query: Query):
    tree.migrate(empty_dsn)
    tree.write("grants/020_more.sql", "grant select on skiplane.thing to skiplane_operator;")
    assert tree.check(empty_dsn) == ["grants/020_more.sql new"]
    assert tree.migrate(empty_dsn) == ["grants"]
    assert query("select has_table_privilege('skiplane_operator', 'skiplane.thing', 'select')")
    assert tree.migrate(empty_dsn) == []


def test_new_function_is_closed_by_the_grants(tree: Tree, empty_dsn: str, query: Query):
    tree.migrate(empty_dsn)
    tree.write(
        "functions/020_more.sql",
        "create or replace function skiplane.late() returns int language sql as 'select 1';",
    )
    tree.migrate(empty_dsn)
    assert not query("select has_function_privilege('public', 'skiplane.late()', 'execute')")

"""What a role, a database, a pooler or other applications bring does not matter."""

from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from skiplane.schema.migrate import MigrationError, ServerTooOld
from skiplane.tests.support import Databases

from .conftest import FILES, HOSTILE, Tree, owner_of_a_database

Query = Callable[..., Any]


def one(connection: psycopg.Connection[Any], text: str) -> Any:
    row = connection.execute(text.encode()).fetchone()
    return row and row[0]


def test_settings_of_the_role_do_not_matter(databases: Databases, tree: Tree):
    with owner_of_a_database(databases) as (role, dsn, admin):
        for name, value in HOSTILE.items():
            admin.execute(f"alter role {role.name} set {name} = {value}".encode())
        admin.execute(
            f"""
            create schema evil authorization {role.name};
            set role {role.name};
            create function evil.now() returns timestamptz language sql as 'select ''2000-01-01''::timestamptz';
            create function evil.to_regclass(text) returns regclass language plpgsql
                as 'begin raise exception ''evil was called''; end';
            create function evil.md5(text) returns text language plpgsql
                as 'begin raise exception ''evil was called''; end';
            create table evil.thing (evil int);
            create table evil.schema_version (version_num text);
            create table evil.pg_class (evil int);
            reset role;
            """.encode()  # noqa: E501
        )
        tree.migrate(dsn)
        assert tree.check(dsn) == []
        assert tree.migrate(dsn) == []
        assert one(admin, "select min(applied_at) > '2020-01-01' from skiplane.applied_file")
        assert one(admin, "select count(*) from skiplane.thing_names") == 0


@pytest.mark.parametrize("path", ["''", "pg_catalog", '"$user"'])
def test_any_search_path_will_do(databases: Databases, tree: Tree, path: str):
    with owner_of_a_database(databases) as (role, dsn, admin):
        admin.execute(f"alter role {role.name} set search_path = {path}".encode())
        tree.migrate(dsn)
        assert tree.migrate(dsn) == []


def test_own_statement_timeout_is_long_enough(databases: Databases, tree: Tree):
    tree.version(2, "select pg_sleep(0.3)")
    with owner_of_a_database(databases) as (role, dsn, admin):
        admin.execute(f"alter role {role.name} set statement_timeout = '100ms'".encode())
        assert "version 0002 more" in tree.migrate(dsn)


def test_owner_of_a_database_needs_no_more(databases: Databases, tree: Tree):
    with owner_of_a_database(databases, "nosuperuser nocreatedb nocreaterole") as (_, dsn, admin):
        admin.execute("revoke all on schema public from public")
        tree.migrate(dsn)
        assert tree.migrate(dsn) == []


def test_create_on_the_database_is_enough(databases: Databases, tree: Tree):
    with (
        databases.role() as role,
        databases.fresh() as name,
        databases.admin(name) as admin,
    ):
        dsn = databases.dsn(name, role)
        admin.execute("revoke all on schema public from public")
        with pytest.raises(MigrationError, match=f'grant create on database "{name}" to'):
            tree.migrate(dsn)
        admin.execute(f"grant create on database {name} to {role.name}".encode())
        tree.migrate(dsn)
        assert tree.migrate(dsn) == []


def test_an_own_schema_is_enough(databases: Databases, tree: Tree):
    with (
        databases.role() as role,
        databases.fresh() as name,
        databases.admin(name) as admin,
    ):
        admin.execute(f"create schema skiplane authorization {role.name}".encode())
        tree.migrate(databases.dsn(name, role))
        assert tree.migrate(databases.dsn(name, role)) == []


def test_superuser_migrates_as_the_owner(databases: Databases, tree: Tree):
    with owner_of_a_database(databases) as (role, dsn, admin):
        tree.migrate(dsn)
        tree.version(2, "create table skiplane.later (n int)")
        database = str(conninfo_to_dict(dsn)["dbname"])
        tree.migrate(databases.admin_dsn(database))
        assert (
            one(admin, "select relowner::regrole::text from pg_class where relname = 'later'")
            == role.name
        )
        tree.write("functions/020_more.sql", FILES["functions/010_first.sql"])
        tree.migrate(databases.admin_dsn(database))
        tree.remove("functions/020_more.sql")
        assert tree.migrate(dsn) != []


def test_another_role_is_refused_by_name(databases: Databases, tree: Tree):
    with owner_of_a_database(databases) as (role, dsn, _), databases.role() as other:
        tree.migrate(dsn)
        database = str(conninfo_to_dict(dsn)["dbname"])
        with pytest.raises(MigrationError, match=f"belongs to role {role.name}.*{other.name}"):
            tree.migrate(databases.dsn(database, other))


def test_tables_of_other_applications_stay(tree: Tree, empty_dsn: str, query: Query):
    query("create table public.task (own int); insert into public.task values (1)")
    query("create table public.alembic_version (version_num text)")
    query("insert into public.alembic_version values ('theirs')")
    tree.migrate(empty_dsn)
    assert query("select own from public.task") == 1
    assert query("select version_num from public.alembic_version") == "theirs"


def test_foreign_schema_of_the_same_name_is_refused(tree: Tree, empty_dsn: str, query: Query):
    query("create schema skiplane create table boats (n int)")
    with pytest.raises(MigrationError, match=r"skiplane\.boats, which is not of Skiplane"):
        tree.migrate(empty_dsn)


def test_no_server_is_said(tree: Tree):
    with pytest.raises(MigrationError, match="Cannot connect"):
        tree.migrate("postgresql://nobody@127.0.0.1:1/none?connect_timeout=2")


def test_old_server_is_refused(tree: Tree, empty_dsn: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("skiplane.schema.install.session.OLDEST_SERVER", 990000)
    with pytest.raises(ServerTooOld, match=r"This server is PostgreSQL \d\d, and Skiplane needs"):
        tree.migrate(empty_dsn)


def test_session_keeps_nothing_of_the_migration(tree: Tree, empty_dsn: str):
    # Behind a pooler in transaction mode the session goes on to somebody else.
    with psycopg.connect(empty_dsn, autocommit=True) as shared:
        before = shared.execute("select name, setting from pg_settings order by 1").fetchall()
        from skiplane.schema.install import session

        with shared.transaction():
            session.prepare(shared, "5s")
            assert one(shared, "show search_path") == "pg_catalog, pg_temp"
        assert shared.execute("select name, setting from pg_settings order by 1").fetchall() == (
            before
        )

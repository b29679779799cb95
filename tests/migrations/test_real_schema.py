"""The schema of this release, installed where little is allowed and much is odd."""

import pytest

from skiplane.schema.install import session
from skiplane.schema.migrate import check, ensure_served, migrate
from skiplane.tests.support import Databases

from .conftest import HOSTILE, owner_of_a_database


def test_installs_and_is_then_up_to_date(empty_dsn: str):
    assert "version 0001 initial tables" in migrate(empty_dsn)
    assert migrate(empty_dsn) == []
    assert check(empty_dsn) == []


def test_installs_for_a_role_with_odd_settings(databases: Databases):
    with owner_of_a_database(databases) as (role, dsn, admin):
        admin.execute("revoke all on schema public from public")
        for name, value in HOSTILE.items():
            admin.execute(f"alter role {role.name} set {name} = {value}".encode())
        migrate(dsn, shards=3)
        assert migrate(dsn) == []
        assert check(dsn) == []


def test_installs_for_a_role_that_owns_only_the_schema(databases: Databases):
    with (
        databases.role() as role,
        databases.fresh() as name,
        databases.admin(name) as admin,
    ):
        admin.execute(f"create schema skiplane authorization {role.name}".encode())
        migrate(databases.dsn(name, role))
        assert migrate(databases.dsn(name, role)) == []


def test_partitions_are_the_same_whatever_the_time_zone(databases: Databases):
    bounds = []
    for zone in ("UTC", "Asia/Tokyo", "America/New_York"):
        with owner_of_a_database(databases) as (role, dsn, admin):
            admin.execute(f"alter role {role.name} set timezone = '{zone}'".encode())
            migrate(dsn)
            admin.execute("set timezone = 'UTC'")
            bounds.append(
                admin.execute(
                    "select c.relname, pg_get_expr(c.relpartbound, c.oid) from pg_class c"
                    " where c.relnamespace = 'skiplane'::regnamespace and c.relispartition"
                    " and c.relkind = 'r' order by 1"
                ).fetchall()
            )
    assert bounds[0] != []
    assert bounds[0] == bounds[1] == bounds[2]


@pytest.mark.parametrize("group", ["producer", "worker", "operator", "reader"])
def test_every_group_role_can_check_at_its_start(databases: Databases, group: str):
    with (
        databases.fresh(template=databases.migrated_template()) as name,
        databases.role() as role,
        databases.admin(name) as admin,
    ):
        admin.execute(f"grant skiplane_{group} to {role.name}".encode())
        with session.connect(databases.dsn(name, role)) as connection:
            ensure_served(connection)


def test_uninstall_leaves_nothing_and_install_works_again(empty_dsn: str):
    migrate(empty_dsn)
    with session.connect(empty_dsn) as connection:
        connection.execute("drop schema skiplane cascade")
    assert check(empty_dsn)[0] == "schema skiplane is not installed"
    migrate(empty_dsn)
    assert check(empty_dsn) == []

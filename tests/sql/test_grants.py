"""Roles may call their verbs and nothing else; no role touches a table."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

from skiplane.tests.support import Databases
from skiplane.tests.support.engine import Connection, Engine

ROLES = ("skiplane_reader", "skiplane_producer", "skiplane_worker", "skiplane_operator")
VERBS = {
    "submit": "select skiplane.submit_task('work')",
    "submit many": "select skiplane.submit_tasks('[]')",
    "submit batch": "select skiplane.submit_batch('work', '{}')",
    "get": "select skiplane.get_results('{}')",
    "list": "select skiplane.list_tasks()",
    "list dead": "select skiplane.list_dead_letters()",
    "health": "select skiplane.health()",
    "cancel": "select skiplane.cancel_task(gen_random_uuid())",
    "edit": "select skiplane.edit_task(gen_random_uuid(), 1, '{}')",
    "retry": "select skiplane.retry_task(gen_random_uuid())",
    "retry dead": "select skiplane.retry_dead_letters()",
    "discard": "select skiplane.discard_dead_letter(gen_random_uuid())",
    "drain": "select skiplane.drain_worker(gen_random_uuid())",
    "claim": "select skiplane.claim_tasks(gen_random_uuid(), '{q}')",
    "finish": "select skiplane.finish_tasks(gen_random_uuid(), 1, '{}', '{}')",
    "release": "select skiplane.release_worker(gen_random_uuid())",
    "promote": "select skiplane.promote_tasks()",
    "sweep": "select skiplane.sweep_leases()",
    "refresh": "select skiplane.refresh_lanes()",
    "maintain": "select skiplane.maintain_partitions()",
    "create schedule": "select skiplane.create_cron_task('n', '* * * * *', 'work')",
    "sync schedules": "select skiplane.sync_cron_tasks('app', '[]')",
    "run schedule": "select skiplane.run_cron_task(gen_random_uuid())",
    "list schedules": "select skiplane.list_cron_tasks()",
    "fire": "select skiplane.take_due_schedules()",
    "read schedules": "select * from skiplane.cron_tasks",
    "read fires": "select * from skiplane.cron_fires",
    "read tasks": "select * from skiplane.tasks",
    "read dead": "select * from skiplane.dead_letter_queue",
    "read queues": "select * from skiplane.queues",
    "read workers": "select * from skiplane.workers",
}
EVERYBODY = {"get", "list", "list dead", "health", "list schedules"}
VIEWS = {"read tasks", "read dead", "read queues", "read workers", "read schedules", "read fires"}
PRODUCE = {
    "submit",
    "submit many",
    "submit batch",
    "cancel",
    "edit",
    "create schedule",
    "sync schedules",
    "run schedule",
}
MAY = {
    "skiplane_reader": EVERYBODY | VIEWS,
    "skiplane_producer": EVERYBODY | PRODUCE,
    "skiplane_worker": EVERYBODY
    | {"claim", "finish", "release", "promote", "sweep", "refresh", "maintain", "fire"},
    "skiplane_operator": EVERYBODY | VIEWS | PRODUCE | {"retry", "retry dead", "discard", "drain"},
}


@pytest.fixture(scope="module")
def database(databases: Databases) -> Iterator[Connection]:
    """A superuser's connection to a database with a running task."""
    with databases.fresh(template=databases.migrated_template()) as name:
        with psycopg.connect(databases.dsn(name), autocommit=True) as owner:
            engine = Engine(owner)
            engine.submit()
            engine.claim()
        with databases.admin(name) as admin:
            yield admin


@contextmanager
def acting_as(conn: Connection, role: str) -> Iterator[None]:
    with conn.transaction(force_rollback=True):
        conn.execute(f"set local role {role}".encode())
        yield


def allowed(conn: Connection, role: str, statement: str) -> bool:
    """Tell whether a role may do something; refusals of the engine mean that it may."""
    try:
        with acting_as(conn, role):
            conn.execute(statement.encode())
    except psycopg.errors.InsufficientPrivilege:
        return False
    except psycopg.Error as error:
        if not (error.sqlstate or "").startswith("SK"):
            raise
    return True


@pytest.mark.parametrize("role", ROLES)
def test_role_may_do_what_it_is_for_and_no_more(database: Connection, role: str):
    found = {verb for verb, statement in VERBS.items() if allowed(database, role, statement)}
    assert found == MAY[role]


@pytest.mark.parametrize("role", ROLES)
def test_no_role_touches_a_table(database: Connection, role: str):
    tables = database.execute(
        "select oid::regclass::text from pg_class where relnamespace = 'skiplane'::regnamespace"
        " and relkind in ('r', 'p')"
    ).fetchall()
    assert len(tables) > 15
    for (table,) in tables:
        for statement in (f"select from {table}", f"delete from {table}", f"truncate {table}"):
            assert not allowed(database, role, statement), statement


@pytest.mark.parametrize("role", ROLES)
def test_private_functions_stay_private(database: Connection, role: str):
    open_to_it = database.execute(
        "select proname from pg_proc where pronamespace = 'skiplane'::regnamespace"
        " and proname ~ '^_' and has_function_privilege(%s, oid, 'execute')",
        [role],
    ).fetchall()
    allowed_ones = {"_find_lease"} if role in ("skiplane_reader", "skiplane_operator") else set()
    assert {name for (name,) in open_to_it} <= allowed_ones


def test_stranger_may_do_nothing(database: Connection, databases: Databases):
    with databases.role() as stranger:
        found = {v for v, statement in VERBS.items() if allowed(database, stranger.name, statement)}
    assert found == set()


def test_hostile_search_path_changes_nothing(database: Connection):
    with database.transaction(force_rollback=True):
        database.execute("create schema evil")
        database.execute("create table evil.task (id int)")
        database.execute(
            "create function evil.clock_timestamp() returns timestamptz"
            " language sql as $$ select '2000-01-01'::timestamptz $$"
        )
        database.execute("set local search_path = evil, pg_catalog")
        created = database.execute("select created_at from skiplane.submit_task('work')").fetchone()
        assert created
        assert created[0].year > 2000
        database.execute("set local search_path = ''")
        assert database.execute("select skiplane.submit_task('work')").fetchone()

"""Two migrators, somebody in the way, a migrator that is killed: all or nothing."""

import signal
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from skiplane.schema.install.session import LOCK
from skiplane.schema.migrate import LockTimeout, MigrationError
from skiplane.tests.support import wait_until

from .conftest import Tree, refusal, result

Query = Callable[..., Any]

WAITING = (
    "select pid from pg_stat_activity where datname = current_database()"
    " and application_name = 'skiplane migrate' and wait_event_type = 'Lock'"
)


def test_second_migrator_waits_then_finds_nothing_to_do(tree: Tree, empty_dsn: str, query: Query):
    tree.migrate(empty_dsn)
    tree.version(2, "alter table skiplane.thing add extra int")
    with psycopg.connect(empty_dsn) as other:
        # The first migrator waits here, the second one for the first.
        other.execute("lock table skiplane.thing in access share mode")
        first = tree.migrator(empty_dsn, "30s")
        wait_until(lambda: query(WAITING), what="the first to wait")
        second = tree.migrator(empty_dsn, "1s")
        wait_until(lambda: query(f"select count(*) = 2 from ({WAITING}) w"), what="the second")
    assert result(first) == ["version 0002 more", "grants"]
    out, said = second.communicate(timeout=60)
    assert (second.returncode, out) == (0, "[]\n")
    assert "another migration of this database runs (process " in said


def test_two_first_migrators_install_once(tree: Tree, empty_dsn: str, query: Query):
    both = [tree.migrator(empty_dsn), tree.migrator(empty_dsn)]
    done = sorted((result(one) for one in both), key=len)
    assert done[0] == []
    assert "version 0001 initial tables" in done[1]


def test_lock_timeout_names_who_blocks_and_changes_nothing(
    tree: Tree, empty_dsn: str, query: Query
):
    tree.migrate(empty_dsn)
    tree.version(2, "create table skiplane.early (n int)")
    tree.version(3, "alter table skiplane.thing add extra int")
    with psycopg.connect(empty_dsn, application_name="the_backup") as other:
        other.execute("select 1 from skiplane.thing limit 1")
        with pytest.raises(LockTimeout) as caught:
            tree.migrate(empty_dsn, lock_timeout="700ms")
        message = str(caught.value)
        assert f"process {other.info.backend_pid} " in message
        assert "application the_backup, idle in transaction" in message
        assert message.startswith("Gave up after waiting 700ms for a lock held by")
    assert query("select to_regclass('skiplane.early') is null")
    assert query("select version_num from skiplane.schema_version") == "0001"
    assert tree.migrate(empty_dsn)[:2] == ["version 0002 more", "version 0003 more"]


def test_replacing_a_view_gives_up_on_a_reader_and_keeps_it(
    tree: Tree, empty_dsn: str, query: Query
):
    tree.migrate(empty_dsn)
    tree.write(
        "views/010_things.sql",
        "create or replace view skiplane.things as select name from skiplane.thing;",
    )
    with psycopg.connect(empty_dsn) as other:
        other.execute("select 1 from skiplane.things")
        with pytest.raises(LockTimeout):
            tree.migrate(empty_dsn, lock_timeout="300ms")
    assert query("select count(id) from skiplane.things") == 0


def test_other_sessions_wait_no_longer_than_the_lock_timeout(
    tree: Tree, empty_dsn: str, query: Query
):
    tree.migrate(empty_dsn)
    tree.version(2, "alter table skiplane.thing add extra int")
    with psycopg.connect(empty_dsn) as other:
        other.execute("select 1 from skiplane.thing limit 1")
        migrator = tree.migrator(empty_dsn, "1s")
        wait_until(lambda: query(WAITING), what="the migrator to wait")
        # A reader queues behind the waiting migrator, and gets through once it gives up.
        query("set statement_timeout = '20s'")
        assert query("select count(*) from skiplane.thing") == 0
        assert refusal(migrator).startswith("LockTimeout")


def test_killed_migrator_leaves_nothing_half_done(tree: Tree, empty_dsn: str, query: Query):
    tree.migrate(empty_dsn)
    tree.version(2, "create table skiplane.early (n int)")
    tree.version(3, "alter table skiplane.thing add extra int")
    with psycopg.connect(empty_dsn) as other:
        other.execute("lock table skiplane.thing in access share mode")
        migrator = tree.migrator(empty_dsn, "30s")
        wait_until(lambda: query(WAITING), what="the migrator to wait")
        migrator.send_signal(signal.SIGKILL)
        migrator.communicate(timeout=60)
    assert query("select to_regclass('skiplane.early') is null")
    # The server notices the dead client when it has the lock; the next one waits for that.
    assert tree.migrate(empty_dsn)[:2] == ["version 0002 more", "version 0003 more"]


def test_killed_first_migrator_leaves_no_schema(tree: Tree, empty_dsn: str, query: Query):
    tree.version(2, "select pg_sleep(600)")
    migrator = tree.migrator(empty_dsn)
    sleeping = (
        "select pid from pg_stat_activity where datname = current_database()"
        " and wait_event = 'PgSleep'"
    )
    pid = wait_until(lambda: query(sleeping), what="the migrator to sleep")
    migrator.kill()
    migrator.communicate(timeout=60)
    query("select pg_terminate_backend(%s)", pid)
    wait_until(lambda: not query(sleeping), what="its session to end")
    assert query("select to_regnamespace('skiplane') is null")


def test_endless_other_migration_is_given_up_on(
    tree: Tree, empty_dsn: str, query: Query, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("skiplane.schema.install.session.LONGEST_WAIT", "200ms")
    query("select pg_advisory_lock(%s)", LOCK)
    with pytest.raises(LockTimeout, match="Another migration of this database"):
        tree.migrate(empty_dsn)


def test_nonsense_lock_timeout_is_refused(tree: Tree, empty_dsn: str):
    with pytest.raises(MigrationError, match="'soon' is no time"):
        tree.migrate(empty_dsn, lock_timeout="soon")

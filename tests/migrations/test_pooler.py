"""Migrations work behind a pooler in transaction mode."""

import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from urllib.parse import quote

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from skiplane.schema.migrate import LockTimeout
from skiplane.tests.support import Databases, wait_until
from skiplane.tests.support.databases import server_folder

from .conftest import Tree

SETTINGS = """
[databases]
pooled = host='{host}' port={port} dbname={database} user=skiplane
[pgbouncer]
listen_addr =
listen_port = 6432
unix_socket_dir = {folder}
auth_type = any
pool_mode = transaction
default_pool_size = 2
logfile = {folder}/log
"""


@pytest.fixture
def pooled_dsn(databases: Databases, empty_dsn: str) -> Iterator[str]:
    """DSN of the empty database through pgbouncer."""
    program = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None or databases.embedded is None:
        pytest.skip("needs pgbouncer (Debian: pgbouncer) and an embedded server")
    server = conninfo_to_dict(empty_dsn)
    uid = pwd.getpwnam("nobody").pw_uid if os.geteuid() == 0 else None
    with server_folder() as folder:
        settings = folder / "pgbouncer.ini"
        settings.write_text(
            SETTINGS.format(
                host=server["host"],
                port=server["port"],
                database=server["dbname"],
                folder=folder,
            )
        )
        if uid is not None:
            os.chown(folder, uid, uid)
        pooler = subprocess.Popen([program, str(settings)], user=uid, stderr=subprocess.DEVNULL)
        try:
            wait_until((folder / ".s.PGSQL.6432").exists, what="pgbouncer")
            yield f"postgresql://skiplane@/pooled?host={quote(str(folder), safe='')}&port=6432"
        finally:
            pooler.terminate()
            pooler.wait(10)


def pool_settings(dsn: str) -> list[tuple[object, ...]]:
    with psycopg.connect(dsn, prepare_threshold=None) as connection:
        return connection.execute(
            "select pid, s.name, s.setting from pg_settings s,"
            " (select pg_backend_pid()) p(pid) where s.name in"
            " ('search_path', 'lock_timeout', 'statement_timeout', 'check_function_bodies')"
        ).fetchall()


def test_migrates_through_a_pooler_and_leaves_it_clean(tree: Tree, pooled_dsn: str, empty_dsn: str):
    tree.migrate(pooled_dsn)
    assert tree.migrate(pooled_dsn) == []
    assert tree.check(pooled_dsn) == []
    settings = {(name, value) for _, name, value in pool_settings(pooled_dsn)}
    assert settings == {
        ("search_path", '"$user", public'),
        ("lock_timeout", "0"),
        ("statement_timeout", "0"),
        ("check_function_bodies", "on"),
    }
    with psycopg.connect(empty_dsn) as direct:
        row = direct.execute("select count(*) from pg_locks where locktype = 'advisory'").fetchone()
    assert row == (0,)


def test_blocker_is_named_through_a_pooler(tree: Tree, pooled_dsn: str, empty_dsn: str):
    tree.migrate(pooled_dsn)
    tree.version(2, "alter table skiplane.thing add extra int")
    with psycopg.connect(empty_dsn, application_name="the_backup") as other:
        other.execute("select 1 from skiplane.thing limit 1")
        with pytest.raises(LockTimeout, match="application the_backup"):
            tree.migrate(pooled_dsn, lock_timeout="700ms")

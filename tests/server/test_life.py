"""The embedded server starts, keeps its data, is shared, and never outlives its starter."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from skiplane.schema.embedded import EmbeddedError, EmbeddedServer
from skiplane.tests.support import wait_until

from .conftest import Starter, nobody, processes_of

Start = Callable[..., Starter]


def value(dsn: str, query: str) -> object:
    with psycopg.connect(dsn, autocommit=True) as connection:
        row = connection.execute(query.encode()).fetchone()
    return row and row[0]


def execute(dsn: str, statement: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(statement.encode())


def test_server_of_root_runs_as_another_user(folder: Path):
    uid = nobody()
    with EmbeddedServer(folder, fast=True) as server:
        assert os.stat(f"/proc/{server.pid}").st_uid == uid
        assert value(server.dsn(), "select 1") == 1


def test_server_of_an_ordinary_user_runs_as_that_user(empty_folder: Path, starter: Start):
    uid = nobody()
    os.chown(empty_folder, uid, uid)
    server = starter(empty_folder / "data", user=uid).ready()
    assert os.stat(f"/proc/{server.pid}").st_uid == uid


def test_root_restarts_an_ordinary_users_server_as_that_user(empty_folder: Path, starter: Start):
    uid = nobody()
    os.chown(empty_folder, uid, uid)
    starter(empty_folder / "data", user=uid).ready().end()
    with EmbeddedServer(empty_folder / "data", fast=True) as server:
        assert os.stat(f"/proc/{server.pid}").st_uid == uid
        assert value(server.dsn(), "select 1") == 1


def test_restart_keeps_data_and_port(folder: Path):
    with EmbeddedServer(folder, fast=True) as server:
        execute(server.dsn(), "create table kept as select 42 as n")
        before = server.tcp_dsn()
    with EmbeddedServer(folder, fast=True) as server:
        assert value(server.dsn(), "select n from kept") == 42
        assert server.tcp_dsn() == before


def test_role_owns_its_database_and_is_no_superuser(folder: Path):
    with EmbeddedServer(folder, fast=True) as server:
        assert value(server.dsn(), "select rolsuper from pg_roles where rolname = user") is False
        execute(server.dsn(), "create schema mine")


def test_fsync_is_on_unless_fast(empty_folder: Path):
    with EmbeddedServer(empty_folder / "safe") as safe:
        assert value(safe.dsn(), "show fsync") == "on"
        assert value(safe.dsn(), "show synchronous_commit") == "on"
        assert value(safe.dsn(), "show data_checksums") == "on"
    with EmbeddedServer(empty_folder / "fast", fast=True) as fast:
        assert value(fast.dsn(), "show fsync") == "off"


def test_given_settings_win(folder: Path):
    with EmbeddedServer(folder, fast=True, settings={"max_connections": "33"}) as server:
        assert value(server.dsn(), "show max_connections") == "33"


def test_database_is_utf8_and_sorts_by_code_point(folder: Path):
    with EmbeddedServer(folder, fast=True) as server:
        assert value(server.dsn(), "show server_encoding") == "UTF8"
        assert value(server.dsn(), "select 'B' < 'a'") is True
        assert value(server.dsn(), "select upper('ä')") == "Ä"


def test_tcp_asks_for_the_password(folder: Path):
    with EmbeddedServer(folder, fast=True) as server:
        good = server.tcp_dsn()
        assert value(good, "select inet_server_addr()::text") == "127.0.0.1/32"
        password = (folder / "password").read_text()
        assert (folder / "password").stat().st_mode & 0o777 == 0o600
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(good.replace(password, "guess"))
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(good.replace(f":{password}", ""), passfile="/dev/null")
        assert password not in (folder / "pg.log").read_text()


def test_without_tcp_nothing_listens_but_the_socket(folder: Path):
    with EmbeddedServer(folder, fast=True, tcp=False) as server:
        assert value(server.dsn(), "show listen_addresses") == ""


def test_socket_folder_is_closed_to_others(folder: Path):
    with EmbeddedServer(folder, fast=True) as server:
        sockets = Path(str(value(server.dsn(), "show unix_socket_directories")).strip('"'))
        assert sockets.stat().st_mode & 0o777 == 0o700
    assert not sockets.exists()


def test_second_start_attaches_and_leaves_the_server_running(folder: Path, starter: Start):
    with EmbeddedServer(folder, fast=True) as first:
        second = starter(folder).ready()
        assert (second.attached, second.pid) == (True, first.pid)
        second.end()
        assert value(first.dsn(), "select 1") == 1
    assert processes_of(folder) == []


def test_starts_at_the_same_moment_share_one_server(empty_folder: Path, starter: Start):
    both = [starter(empty_folder), starter(empty_folder)]
    attached = [one.ready().attached for one in both]
    assert sorted(attached) == [False, True]
    assert both[0].pid == both[1].pid


@pytest.mark.parametrize("parent_death", ["signal", "pipe"])
def test_killed_starter_leaves_no_process(folder: Path, starter: Start, parent_death: str):
    one = starter(folder, parent_death=parent_death).ready()
    # The thread that started it is long gone, and the server still answers.
    execute(one.dsn, "create table kept as select 42 as n")
    one.kill()
    wait_until(lambda: not processes_of(folder), what="the server to end")
    with EmbeddedServer(folder, fast=True) as server:
        assert value(server.dsn(), "select n from kept") == 42


@pytest.mark.parametrize("parent_death", ["signal", "pipe"])
def test_server_ends_with_its_starter(folder: Path, starter: Start, parent_death: str):
    one = starter(folder, parent_death=parent_death).ready()
    one.end()
    assert processes_of(folder) == []


def test_killed_server_starts_again_with_its_data(folder: Path):
    server = EmbeddedServer(folder)
    execute(server.start(), "create table kept as select 42 as n")
    server.kill9()
    assert (folder / "pg" / "postmaster.pid").exists()
    with EmbeddedServer(folder) as server:
        assert value(server.dsn(), "select n from kept") == 42


def test_pid_file_that_names_somebody_elses_process_is_ignored(folder: Path):
    server = EmbeddedServer(folder, fast=True)
    server.start()
    server.kill9()
    owner = (folder / "pg").stat().st_uid
    other = subprocess.Popen(["sleep", "600"], cwd="/", user=owner)
    try:
        file = folder / "pg" / "postmaster.pid"
        lines = file.read_text().splitlines()
        file.write_text("\n".join([str(other.pid), *lines[1:]]) + "\n")
        with EmbeddedServer(folder, fast=True) as server:
            assert value(server.dsn(), "select 1") == 1
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_unfinished_initdb_is_done_again(empty_folder: Path):
    (empty_folder / "pg.new").mkdir()
    (empty_folder / "pg.new" / "PG_VERSION").write_text("18\n")
    with EmbeddedServer(empty_folder, fast=True) as server:
        assert value(server.dsn(), "select 1") == 1


def test_child_that_ends_does_not_stop_its_parents_server(folder: Path):
    # In a process of its own: forking one that runs tests is a hazard of itself.
    program = (
        "import os, sys, psycopg\n"
        "from skiplane.schema.embedded import EmbeddedServer\n"
        "server = EmbeddedServer(sys.argv[1], fast=True)\n"
        "server.start()\n"
        "child = os.fork()\n"
        "if child == 0: sys.exit(0)\n"
        "os.waitpid(child, 0)\n"
        "psycopg.connect(server.dsn()).close()\n"
        "print('still there')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(folder)], capture_output=True, text=True, cwd="/"
    )
    assert done.stdout == "still there\n", done.stderr
    # Nothing stopped it explicitly: it ends with the interpreter.
    wait_until(lambda: not processes_of(folder), what="the server to end")


def test_failed_start_says_what_the_server_said(empty_folder: Path):
    with pytest.raises(EmbeddedError, match="no_such_setting"):
        EmbeddedServer(empty_folder, fast=True, settings={"no_such_setting": "1"}).start()
    with EmbeddedServer(empty_folder, fast=True) as server:
        assert value(server.dsn(), "select 1") == 1


def test_stop_is_harmless_when_nothing_runs(folder: Path):
    server = EmbeddedServer(folder, fast=True)
    server.stop()
    server.start()
    server.stop()
    server.stop()
    with pytest.raises(EmbeddedError, match="has not been started"):
        server.dsn()

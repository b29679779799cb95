"""The example of a pooler starts, and tasks are submitted and run through it, by password."""

import configparser
import io
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from skiplane import Skiplane
from skiplane.tests.pooler.pgbouncer import KEEPS_STATEMENTS, find_program, started, version
from skiplane.tests.support import Databases, wait_until
from skiplane.tests.support.databases import server_folder
from skiplane.tests.worker.helpers import Tasks, running_worker

from .manifests import DEPLOY

EXAMPLE = DEPLOY / "pgbouncer" / "pgbouncer.ini"


def example() -> configparser.ConfigParser:
    """Read it."""
    parser = configparser.ConfigParser(interpolation=None)
    parser.read(EXAMPLE)
    return parser


def settings_here(folder: Path, server: dict[str, str], program: str) -> str:
    """Give the example's settings with the addresses and folders of this test."""
    parser = example()
    parser["databases"]["skiplane"] = " ".join(
        f"{key}={server[key]}" for key in ("host", "port", "dbname")
    )
    here = {
        "listen_addr": "",
        "unix_socket_dir": str(folder),
        "logfile": str(folder / "log"),
        "pidfile": str(folder / "pid"),
        "auth_file": str(folder / "userlist.txt"),
    }
    parser["pgbouncer"].update(here)
    if version(program) < KEEPS_STATEMENTS:
        # As its comment says.
        del parser["pgbouncer"]["max_prepared_statements"]
    out = io.StringIO()
    parser.write(out)
    return out.getvalue()


def test_transactions_share_sessions_and_what_listens_goes_past():
    said = example()["pgbouncer"]
    assert said["pool_mode"] == "transaction"
    assert said["auth_type"] == "scram-sha-256"
    assert "SKIPLANE_LISTEN_DSN" in EXAMPLE.read_text()


def test_tasks_are_submitted_and_run_through_it(databases: Databases, dsn: str, tmp_path: Path):
    program = find_program()
    with databases.role() as role, server_folder() as folder:
        database = str(conninfo_to_dict(dsn)["dbname"])
        direct = databases.dsn(database, role)
        with databases.admin() as admin:
            admin.execute(f"grant skiplane_operator, skiplane_worker to {role.name}".encode())
        (folder / "userlist.txt").write_text(f'"{role.name}" "{role.password}"\n')
        server = {key: str(value) for key, value in conninfo_to_dict(direct).items()}
        with started(program, folder, settings_here(folder, server, program)):
            pooled = make_conninfo(
                host=str(folder),
                port=6432,
                dbname="skiplane",
                user=role.name,
                password=role.password,
            )
            # Somebody without the password gets no further.
            with pytest.raises(psycopg.OperationalError, match="auth"):
                psycopg.connect(pooled, password="wrong")
            run_tasks(pooled, direct, dsn, tmp_path)


def run_tasks(pooled: str, direct: str, dsn: str, tmp_path: Path) -> None:
    """Submit and run through the pooler; look past it."""
    with (
        psycopg.connect(dsn, autocommit=True) as conn,
        running_worker(pooled, tmp_path, "--listen-dsn", direct) as worker,
        Skiplane(pooled) as app,
    ):
        tasks = Tasks(conn)
        handles = [app.submit_sync("echo", {"value": n}) for n in range(50)]
        tasks.wait_all([str(handle.id) for handle in handles])
        assert [handle.result_sync(timeout=30) for handle in handles] == list(range(50))
        # It hears of new tasks, past the pooler.
        listening = "select count(*) from pg_stat_activity where application_name ~ 'listener$'"
        wait_until(lambda: tasks.scalar(listening) == 1, 30, "the worker to listen")
        assert worker.stop() == 0

"""Settings that a role has for the sake of others do not stop the system's own sessions."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from psycopg import sql

from skiplane import Skiplane
from skiplane.tests.scheduler.helpers import running_scheduler
from skiplane.tests.support import Databases, wait_until
from skiplane.tests.support.engine import Connection, Engine
from skiplane.tests.worker.helpers import APP

PROGRAM = "from skiplane.cli import main; main(prog_name='skiplane')"
STRICT = {
    "statement_timeout": "5s",
    "lock_timeout": "1s",
    "idle_in_transaction_session_timeout": "10s",
    "idle_session_timeout": "2s",
    "default_transaction_isolation": "serializable",
}


@pytest.fixture
def strict_dsn(databases: Databases, dsn: str, conn: Connection) -> str:
    """The database with settings on it that hurt every session that does not set its own."""
    with databases.admin() as admin:
        for name, value in STRICT.items():
            admin.execute(
                sql.SQL("alter database {} set {} = {}").format(
                    sql.Identifier(conn.info.dbname), sql.Identifier(name), sql.Literal(value)
                )
            )
    return dsn


def test_worker_and_scheduler_go_on_under_strict_settings(
    strict_dsn: str, conn: Connection, tmp_path: Path
):
    engine = Engine(conn)
    log = tmp_path / "worker.log"
    command = [sys.executable, "-c", PROGRAM, "worker", "--app", APP, "--dsn", strict_dsn]
    with running_scheduler(strict_dsn, tmp_path) as scheduler, log.open("wb") as out:
        worker = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env=os.environ)
        try:
            with Skiplane(dsn=strict_dsn) as app:
                first = app.submit_sync("echo", {"value": 1})
                soon = app.submit_sync("echo", {"value": 2}, delay=0.2)
                # Longer than the time-out of idle sessions, and of statements.
                slow = app.submit_sync("sleep", {"seconds": 6})
                ids = [first.id, soon.id, slow.id]
                wait_until(lambda: {engine.status(i) for i in ids} == {"SUCCEEDED"}, 30)
                again = app.submit_sync("echo", {"value": 3})
                wait_until(lambda: engine.status(again.id) == "SUCCEEDED", 10)
            assert worker.poll() is None
            assert scheduler.process.poll() is None
            assert "SerializationFailure" not in log.read_text()
            assert not scheduler.lines("the database is away")
        finally:
            worker.terminate()
            assert worker.wait(20) == 0

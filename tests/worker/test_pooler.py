"""Behind pgbouncer in transaction mode, where no session lasts."""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from skiplane.tests.support import wait_until
from skiplane.tests.worker.helpers import Tasks, running_worker
from skiplane.tests.worker.test_connection import LISTENERS, wait_asleep

PGBOUNCER = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
ADVISORY = (
    "select count(*) from pg_locks where locktype = 'advisory'"
    " and database = (select oid from pg_database where datname = current_database())"
)

pytestmark = pytest.mark.skipif(PGBOUNCER is None, reason="pgbouncer is not installed")


@pytest.fixture
def pooled(dsn: str) -> Iterator[str]:
    """DSN of the fresh database through a pooler with five server connections."""
    with psycopg.connect(dsn) as conn:
        info = conn.info
        host, port, name, user = info.host, info.port, info.dbname, info.user
        password = info.password or None
    with tempfile.TemporaryDirectory(prefix="skb") as folder:
        os.chmod(folder, 0o777)
        config = Path(folder) / "pgbouncer.ini"
        config.write_text(
            f"[databases]\n{name} = host={host} port={port} dbname={name} user={user}\n"
            f"[pgbouncer]\nlisten_addr=\nlisten_port=6432\nunix_socket_dir={folder}\n"
            "auth_type=any\npool_mode=transaction\ndefault_pool_size=5\nlogfile=\n"
        )
        # It does not run as root; the server lets its own user in.
        command = [str(PGBOUNCER), *(["-u", "nobody"] if os.geteuid() == 0 else []), str(config)]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        pooled = make_conninfo(host=folder, port=6432, dbname=name, user=user, password=password)
        try:
            wait_until(lambda: (Path(folder) / ".s.PGSQL.6432").exists(), 10, "pgbouncer")
            yield pooled
        finally:
            process.send_signal(signal.SIGTERM)
            process.kill()
            process.wait()


def test_a_pooled_worker_works_and_says_what_it_lacks(pooled: str, tasks: Tasks, tmp_path: Path):
    with running_worker(pooled, tmp_path) as worker:
        worker.wait_for("no notifications")
        ids = [tasks.submit("echo", {"value": n}) for n in range(100)]
        ids += [tasks.submit("sync_where") for _ in range(20)]
        ids += [tasks.submit("where") for _ in range(20)]
        tasks.wait_all(ids)
        assert {tasks.status(task_id) for task_id in ids} == {"SUCCEEDED"}
        # Nothing is left on sessions that belong to others too.
        assert tasks.scalar(ADVISORY) == 0
        assert not worker.lines("a loop failed")
        assert worker.stop() == 0


def test_notifications_come_past_the_pooler(dsn: str, pooled: str, tasks: Tasks, tmp_path: Path):
    options = ("--listen-dsn", dsn, "--poll-seconds", "60")
    with running_worker(pooled, tmp_path, *options):
        wait_asleep(tasks)
        assert tasks.scalar(LISTENERS) == 1
        assert tasks.wait(tasks.submit("echo", {"value": 1}), timeout=30)["status"] == "SUCCEEDED"

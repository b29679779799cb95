"""Limits with real workers and a scheduler: kept, used up, and none lost by kills."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from skiplane.tests.support import wait_until
from skiplane.tests.worker.helpers import Tasks, running_worker

APP = "skiplane.tests.worker.limited_app"
PROGRAM = "from skiplane.cli import main; main(prog_name='skiplane')"
POLL_SECONDS = 60.0
SLOW_POLL = ("--poll-seconds", f"{POLL_SECONDS:g}")


@contextmanager
def running_scheduler(dsn: str, folder: Path) -> Iterator[None]:
    with (folder / "scheduler.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, "scheduler", "--dsn", dsn],
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, "SKIPLANE_LOG_FORMAT": "json"},
        )
        try:
            wait_until(
                lambda: "scheduler started" in (folder / "scheduler.log").read_text(),
                20,
                "the scheduler to start",
            )
            yield
        finally:
            process.kill()
            process.wait()


def test_limits_of_the_code_are_known_when_the_worker_has_started(
    dsn: str, tmp_path: Path, tasks: Tasks
):
    tasks.conn.execute("select skiplane.set_task_type('single', p_concurrency => 7)")
    with running_worker(dsn, tmp_path, app=APP):
        told = "select skiplane.get_task_type(%s) ->> %s"
        assert tasks.scalar(told, ["paced", "rate_limit"]) == "40/s"
        assert tasks.scalar(told, ["paced", "set_by_application"]) == "true"
        assert tasks.scalar(told, ["single", "concurrency"]) == "7"


def test_idle_workers_use_a_rate_up(dsn: str, tmp_path: Path, tasks: Tasks):
    """They come back when the next start is due, and not with the next poll."""
    with running_scheduler(dsn, tmp_path), running_worker(dsn, tmp_path, *SLOW_POLL, app=APP):
        ids = tasks.many("paced", {}, 125)
        tasks.wait_all(ids)
        first, last, count = tasks.conn.execute(
            "select min(extract(epoch from started_at))::float8,"
            " max(extract(epoch from started_at))::float8, count(*)::int"
            " from skiplane.tasks where task_type = 'paced'"
        ).fetchone() or (0, 0, 0)
    assert count == 125
    # 120 after the burst of 5 take 3 s.
    assert 2.9 < last - first < POLL_SECONDS / 2


def test_freed_place_is_used_by_who_is_idle(dsn: str, tmp_path: Path, tasks: Tasks):
    with ExitStack() as stack:
        stack.enter_context(running_scheduler(dsn, tmp_path))
        for _ in range(2):
            stack.enter_context(
                running_worker(dsn, tmp_path, *SLOW_POLL, "--concurrency", "2", app=APP)
            )
        began = time.monotonic()
        tasks.wait_all(tasks.many("single", {"seconds": 0.1}, 10))
        assert 1.0 <= time.monotonic() - began < POLL_SECONDS / 2
    overlaps = tasks.scalar(
        "select count(*) from skiplane.tasks a join skiplane.tasks b"
        " on a.task_id < b.task_id and a.started_at < b.completed_at"
        " and b.started_at < a.completed_at"
    )
    assert overlaps == 0


def test_killed_workers_lose_no_place(dsn: str, tmp_path: Path, tasks: Tasks):
    with running_scheduler(dsn, tmp_path):
        ids = tasks.many("few", {"seconds": 0.02}, 150, max_retries=1000)
        most = 0
        for _ in range(3):
            with running_worker(dsn, tmp_path, "--lease-seconds", "1", app=APP) as worker:
                until = time.monotonic() + 0.7
                while time.monotonic() < until:
                    most = max(
                        most,
                        int(
                            tasks.scalar(
                                "select coalesce(sum(cardinality(ids)), 0) from skiplane.lease"
                            )
                        ),
                    )
                for pid in worker.child_pids():
                    os.kill(pid, signal.SIGKILL)
                worker.signal(signal.SIGKILL)
        with running_worker(dsn, tmp_path, "--lease-seconds", "1", app=APP):
            tasks.wait_all(ids)
    assert 1 <= most <= 3
    assert tasks.scalar("select skiplane.recount_limits()") == 0
    assert tasks.scalar("select count(*) from skiplane.lease") == 0

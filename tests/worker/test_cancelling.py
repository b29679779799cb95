"""Cancelling what runs: the body is told, and its end changes nothing any more."""

import random
import threading
from pathlib import Path

import psycopg

from skiplane.tests.support import wait_until
from skiplane.tests.worker.helpers import ENDED, Tasks, alive, running_worker


def test_a_running_async_task_is_cancelled_at_once(dsn: str, tasks: Tasks, tmp_path: Path):
    mark = tmp_path / "mark"
    with running_worker(dsn, tmp_path):
        task_id = tasks.submit("watch_cancel", {"mark": str(mark)})
        wait_until(lambda: mark.exists() and mark.read_text() == "began")
        assert tasks.cancel(task_id)["status"] == "CANCELLED"
        wait_until(lambda: mark.read_text() == "cancelled=True", 2)
        assert tasks.status(task_id) == "CANCELLED"
        # The worker lives on, and its place is free.
        assert tasks.wait(tasks.submit("echo", {"value": 1}))["status"] == "SUCCEEDED"


def test_a_process_task_can_see_that_it_is_cancelled(dsn: str, tasks: Tasks, tmp_path: Path):
    mark = tmp_path / "mark"
    with running_worker(dsn, tmp_path, "--kill-grace-seconds", "8"):
        task_id = tasks.submit("sync_watch_cancel", {"mark": str(mark)})
        wait_until(lambda: mark.exists() and mark.read_text() == "began")
        tasks.cancel(task_id)
        wait_until(lambda: mark.read_text() == "cancelled=True", 5)
        assert tasks.status(task_id) == "CANCELLED"


def test_a_process_task_that_does_not_look_is_killed_after_the_grace(
    dsn: str, tasks: Tasks, tmp_path: Path
):
    mark = tmp_path / "mark"
    with running_worker(dsn, tmp_path, "--kill-grace-seconds", "0.5", "--pool", "1"):
        task_id = tasks.submit("sync_sleep", {"seconds": 1000, "mark": str(mark)})
        pid = int(wait_until(lambda: mark.exists() and mark.read_text()))
        tasks.cancel(task_id)
        wait_until(lambda: not alive(pid), 5)
        assert tasks.wait(tasks.submit("sync_echo", {"value": 1}))["status"] == "SUCCEEDED"
        assert tasks.status(task_id) == "CANCELLED"


def test_a_task_that_ignores_its_cancellation_stays_cancelled(
    dsn: str, tasks: Tasks, tmp_path: Path
):
    with running_worker(dsn, tmp_path, "--concurrency", "1", "--kill-grace-seconds", "0.5") as w:
        task_id = tasks.submit("stubborn", {"seconds": 2})
        tasks.wait(task_id, "RUNNING")
        tasks.cancel(task_id)
        w.wait_for("a task ignores")
        assert tasks.wait(tasks.submit("echo", {"value": 1}))["status"] == "SUCCEEDED"
        assert tasks.status(task_id) == "CANCELLED"


def test_cancel_and_finish_agree(dsn: str, tasks: Tasks, tmp_path: Path):
    """Each task has one end, the one that the caller of cancel was told."""
    with running_worker(dsn, tmp_path), psycopg.connect(dsn, autocommit=True) as other:
        told: dict[str, str] = {}

        def cancel(task_id: str) -> None:
            try:
                other.execute("select skiplane.cancel_task(%s::uuid)", [task_id])
            except psycopg.Error as error:
                told[task_id] = str(error.sqlstate)
            else:
                told[task_id] = "CANCELLED"

        pause = threading.Event()
        for _ in range(150):
            task_id = tasks.submit("sleep", {"seconds": random.uniform(0.001, 0.02)})
            pause.wait(random.uniform(0, 0.02))
            cancel(task_id)
        ended = {task_id: tasks.wait(task_id, *ENDED)["status"] for task_id in told}
    for task_id, answer in told.items():
        assert ended[task_id] == ("CANCELLED" if answer == "CANCELLED" else "SUCCEEDED")
        assert answer in ("CANCELLED", "SK003")

"""How tasks are spread over pool processes."""

import os
from collections import Counter
from pathlib import Path

from skiplane.tests.support import wait_until
from skiplane.tests.worker.helpers import Tasks, running_worker


def test_short_tasks_stay_on_as_many_processes_as_cores(dsn: str, tasks: Tasks, tmp_path: Path):
    with running_worker(dsn, tmp_path, "--concurrency", "12") as worker:
        worker.wait_for("worker started")
        # Long ones need a process each, and these stay.
        tasks.wait_all(tasks.many("sync_sleep", {"seconds": 1.5}, 24))
        tasks.wait_all(tasks.many("sync_pid", {}, 50))
        ids = tasks.many("sync_pid", {}, 600)
        tasks.wait_all(ids)
        used = Counter(tasks.get(task_id)["result"] for task_id in ids)
    cores = os.cpu_count() or 1
    # Not all: one that is held up for a moment counts as long.
    assert sum(count for _, count in used.most_common(cores)) > 0.6 * len(ids), used


def test_long_tasks_get_a_process_each(dsn: str, tasks: Tasks, tmp_path: Path):
    marks = [tmp_path / f"mark{n}" for n in range(12)]
    with running_worker(dsn, tmp_path, "--concurrency", "12"):
        for mark in marks:
            tasks.submit("sync_sleep", {"seconds": 1000, "mark": str(mark)})
        wait_until(lambda: all(mark.exists() and mark.read_text() for mark in marks), 60)
    assert len({mark.read_text() for mark in marks}) == len(marks)

"""A task that is stopped takes the processes along that it has started, and no others."""

from pathlib import Path

import pytest

from skiplane.tests.support import wait_until
from skiplane.tests.worker.helpers import Tasks, alive, running_worker, wait_gone

WAYS = ["exec", "shell", "session", "run", "popen"]


def family(mark: Path) -> list[int]:
    """Wait for the ids of a shell and of what it has started."""
    text = str(wait_until(lambda: mark.exists() and mark.read_text()))
    return [int(pid) for pid in text.split()]


@pytest.mark.parametrize("how", WAYS)
def test_a_late_coroutine_dies_with_what_it_started(
    dsn: str, tasks: Tasks, tmp_path: Path, how: str
):
    mark, others = tmp_path / "mark", tmp_path / "others"
    with running_worker(dsn, tmp_path):
        tasks.submit("parent", {"mark": str(others), "how": how})
        payload = {"mark": str(mark), "how": how}
        task_id = tasks.submit("parent", payload, timeout_seconds=1, max_retries=0)
        tasks.wait(task_id)
        for pid in family(mark):
            wait_gone(pid)
        assert all(alive(pid) for pid in family(others))


@pytest.mark.parametrize("how", WAYS)
def test_a_cancelled_coroutine_dies_with_what_it_started(
    dsn: str, tasks: Tasks, tmp_path: Path, how: str
):
    mark = tmp_path / "mark"
    with running_worker(dsn, tmp_path):
        task_id = tasks.submit("parent", {"mark": str(mark), "how": how})
        pids = family(mark)
        tasks.cancel(task_id)
        for pid in pids:
            wait_gone(pid, 5)


def test_a_late_thread_dies_with_what_it_started(dsn: str, tasks: Tasks, tmp_path: Path):
    mark = tmp_path / "mark"
    with running_worker(dsn, tmp_path, "--kill-grace-seconds", "0.1"):
        payload = {"mark": str(mark)}
        task_id = tasks.submit("thread_parent", payload, timeout_seconds=1, max_retries=0)
        assert tasks.wait(task_id)["error_type"] == "TimeoutError"
        for pid in family(mark):
            wait_gone(pid)


def test_a_coroutine_that_ends_by_itself_may_leave_a_process_behind(
    dsn: str, tasks: Tasks, tmp_path: Path
):
    mark, until = tmp_path / "mark", tmp_path / "until"
    until.touch()
    with running_worker(dsn, tmp_path):
        payload = {"mark": str(mark), "how": "exec", "until": str(until)}
        assert tasks.wait(tasks.submit("parent", payload))["status"] == "SUCCEEDED"
        assert all(alive(pid) for pid in family(mark))

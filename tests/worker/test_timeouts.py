"""A task whose time is up is stopped for real, once, and its place is free again."""

from pathlib import Path

import pytest

from skiplane.tests.support import wait_until
from skiplane.tests.worker.helpers import Tasks, running_worker, wait_gone


def test_late_tasks_are_recorded_and_make_room(dsn: str, tasks: Tasks, tmp_path: Path):
    options = ("--concurrency", "4", "--kill-grace-seconds", "1")
    with running_worker(dsn, tmp_path, *options) as worker:
        late = [
            tasks.submit("sleep", {"seconds": 60}, timeout_seconds=1, max_retries=0),
            tasks.submit("stubborn", {"seconds": 60}, timeout_seconds=1, max_retries=0),
            tasks.submit("sync_sleep", {"seconds": 60}, timeout_seconds=1, max_retries=0),
            tasks.submit("sync_sleep", {"seconds": 60}, timeout_seconds=1, max_retries=0),
        ]
        quick = [tasks.submit("echo", {"value": 1}) for _ in range(20)]
        quick += [tasks.submit("sync_echo", {"value": 1}) for _ in range(20)]
        for task_id in late:
            task = tasks.wait(task_id)
            assert (task["status"], task["error_type"]) == ("DEAD", "TimeoutError"), task
            assert 900 <= task["duration_ms"] < 4000
        tasks.wait_all(quick)
        assert len(worker.child_pids()) == 1


def test_a_timeout_counts_as_one_attempt_of_the_retry_rules(dsn: str, tasks: Tasks, tmp_path: Path):
    with running_worker(dsn, tmp_path):
        rules = {"max_retries": 1, "retry_delay_seconds": 0, "retry_jitter": "none"}
        task_id = tasks.submit("sync_sleep", {"seconds": 60}, timeout_seconds=0.5, **rules)
        tasks.wait(task_id, "RETRYING", "PENDING", "RUNNING")

        def dead() -> bool:
            tasks.release_due()
            return tasks.status(task_id) == "DEAD"

        wait_until(dead, 60, "the task to be dead")
        task = tasks.get(task_id)
        assert task["attempt"] == 2
        assert [a["outcome"].lower() for a in task["attempts"]] == ["timeout", "timeout"]


@pytest.mark.parametrize("own_session", [False, True])
def test_a_late_process_task_dies_with_what_it_started(
    dsn: str, tasks: Tasks, tmp_path: Path, own_session: bool
):
    mark = tmp_path / "mark"
    with running_worker(dsn, tmp_path):
        payload = {"mark": str(mark), "own_session": own_session}
        task_id = tasks.submit("family", payload, timeout_seconds=1, max_retries=0)
        tasks.wait(task_id)
        for pid in map(int, mark.read_text().split()):
            wait_gone(pid)


def test_tasks_behind_a_late_one_in_its_process_are_not_charged(
    dsn: str, tasks: Tasks, tmp_path: Path
):
    options = ("--concurrency", "12", "--pool", "1")
    with running_worker(dsn, tmp_path, *options):
        tasks.wait_all(tasks.many("sync_echo", {"value": 1}, 50))  # known as short
        late = tasks.submit("sync_sleep", {"seconds": 60}, timeout_seconds=1, max_retries=0)
        quick = tasks.many("sync_echo", {"value": 1}, 8)
        tasks.wait_all([*quick, late])
        assert {tasks.get(task_id)["attempt"] for task_id in quick} == {1}


def test_a_short_timeout_strikes_even_at_once(dsn: str, tasks: Tasks, tmp_path: Path):
    with running_worker(dsn, tmp_path):
        ids = [
            tasks.submit(kind, {"seconds": 30}, timeout_seconds=0.001, max_retries=0)
            for kind in ("sleep", "sync_sleep")
        ]
        for task_id in ids:
            assert tasks.wait(task_id)["error_type"] == "TimeoutError"


def test_the_clock_starts_with_execution_and_not_with_the_claim(
    dsn: str, tasks: Tasks, tmp_path: Path
):
    with running_worker(dsn, tmp_path, "--concurrency", "1"):
        ids = [
            tasks.submit("sleep", {"seconds": 0.6}, timeout_seconds=1.5, max_retries=0)
            for _ in range(4)
        ]
        tasks.wait_all(ids)
        assert [tasks.status(task_id) for task_id in ids] == ["SUCCEEDED"] * 4


def test_a_blocked_event_loop_is_ended_by_the_supervisor(dsn: str, tasks: Tasks, tmp_path: Path):
    with running_worker(dsn, tmp_path, "--lease-seconds", "1.5") as worker:
        task_id = tasks.submit("block", {"seconds": 1000}, timeout_seconds=0.5, max_retries=0)
        task = tasks.wait(task_id, timeout=40)
        assert task["status"] == "DEAD"
        worker.wait_for("worker started", 2)
        assert tasks.wait(tasks.submit("echo", {"value": 1}))["status"] == "SUCCEEDED"


def test_lost_threads_end_the_process_for_a_new_one(dsn: str, tasks: Tasks, tmp_path: Path):
    with running_worker(dsn, tmp_path, "--threads", "2") as worker:
        late = [
            tasks.submit("thread_sleep", {"seconds": 60}, timeout_seconds=0.5, max_retries=0)
            for _ in range(2)
        ]
        for task_id in late:
            assert tasks.wait(task_id)["error_type"] == "TimeoutError"
        worker.wait_for("a thread is lost", 2)
        worker.wait_for("worker started", 2)
        assert tasks.wait(tasks.submit("thread_echo", {"value": 1}))["status"] == "SUCCEEDED"

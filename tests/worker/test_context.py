"""What a task can ask and say through its context."""

import os
import signal
from pathlib import Path
from typing import Any

import psycopg
import pytest

from skiplane.tests.support import wait_until
from skiplane.tests.worker.helpers import Tasks, running_worker

Connection = psycopg.Connection[tuple[Any, ...]]


@pytest.fixture
def payments(conn: Connection) -> Connection:
    """A table of the user's own."""
    conn.execute("create table payment (how text)")
    return conn


def count(conn: Connection) -> int:
    """Count the payments."""
    row = conn.execute("select count(*) from payment").fetchone()
    assert row is not None
    return int(row[0])


def test_a_task_knows_about_itself(dsn: str, tasks: Tasks, tmp_path: Path):
    with running_worker(dsn, tmp_path) as worker:
        metadata = {"tenant_id": "acme", "tags": ["a"]}
        task_id = tasks.submit("where", metadata=metadata, timeout_seconds=60)
        result = tasks.wait(task_id)["result"]
        assert result["metadata"]["tags"] == ["a"]
        assert result == {
            "task_id": task_id,
            "type": "where",
            "attempt": 1,
            "fence": 1,
            "tenant": "acme",
            "metadata": result["metadata"],
            "deadline": True,
            "cancelled": False,
        }
        assert worker.wait_for("here")["task_id"] == task_id
        same = tasks.wait(tasks.submit("sync_where", metadata=metadata))["result"]
        assert same["metadata"]["tags"] == ["a"]


@pytest.mark.parametrize("task_type", ["steps", "sync_steps"])
def test_a_retry_starts_from_the_checkpoint(dsn: str, tasks: Tasks, tmp_path: Path, task_type: str):
    with running_worker(dsn, tmp_path):
        task_id = tasks.submit(task_type, retry_delay_seconds=0)

        def ended() -> bool:
            tasks.release_due()
            return tasks.status(task_id) == "SUCCEEDED"

        wait_until(ended)
        task = tasks.get(task_id)
        assert task["result"] == {"done": 3}
        assert task["progress"]["share"] == 0.5
        assert task["progress"]["message"] == "half"


@pytest.mark.parametrize("task_type", ["pay", "sync_pay"])
def test_own_writes_and_success_commit_together(
    dsn: str, tasks: Tasks, payments: Connection, tmp_path: Path, task_type: str
):
    with running_worker(dsn, tmp_path):
        task = tasks.wait(tasks.submit(task_type))
        assert (task["status"], task["result"], count(payments)) == (
            "SUCCEEDED",
            {"paid": "well"},
            1,
        )
        # Recorded is recorded: what happens after the block changes nothing.
        task = tasks.wait(tasks.submit(task_type, {"how": "fail_after"}))
        assert (task["status"], task["attempt"], count(payments)) == ("SUCCEEDED", 1, 2)
        task = tasks.wait(tasks.submit(task_type, {"how": "fail_inside"}, max_retries=0))
        assert (task["status"], count(payments)) == ("DEAD", 2)
        assert tasks.wait(tasks.submit("echo", {"value": 1}))["status"] == "SUCCEEDED"


@pytest.mark.parametrize("task_type", ["pay", "sync_pay"])
def test_a_success_that_the_task_recorded_has_its_duration(
    dsn: str, tasks: Tasks, payments: Connection, tmp_path: Path, task_type: str
):
    with running_worker(dsn, tmp_path):
        task = tasks.wait(tasks.submit(task_type, {"seconds": 0.2}))
    assert task["status"] == "SUCCEEDED"
    assert 200 <= task["duration_ms"] < 5000
    [attempt] = task["attempts"]
    assert task["started_at"] == attempt["started_at"] < task["completed_at"]


def test_a_cancelled_task_commits_nothing(
    dsn: str, tasks: Tasks, payments: Connection, tmp_path: Path
):
    mark, go = tmp_path / "mark", tmp_path / "go"
    with running_worker(dsn, tmp_path):
        task_id = tasks.submit("slow_pay", {"mark": str(mark), "go": str(go)})
        wait_until(mark.exists)
        tasks.cancel(task_id)
        go.touch()
        assert tasks.wait(tasks.submit("echo", {"value": 1}))["status"] == "SUCCEEDED"
        assert (tasks.status(task_id), count(payments)) == ("CANCELLED", 0)


def test_an_attempt_that_lost_its_lease_commits_nothing(
    dsn: str, tasks: Tasks, payments: Connection, tmp_path: Path
):
    mark, go = tmp_path / "mark", tmp_path / "go"
    with running_worker(dsn, tmp_path, "--lease-seconds", "1.5") as worker:
        task_id = tasks.submit(
            "slow_pay", {"mark": str(mark), "go": str(go)}, max_retries=5, retry_delay_seconds=0
        )
        wait_until(mark.exists)
        child = worker.child_pids()[0]
        os.kill(child, signal.SIGSTOP)

        def returned() -> bool:
            tasks.sweep()
            tasks.release_due()
            return tasks.status(task_id) == "PENDING"

        wait_until(returned, 60)
        # The body goes on at once, before any heartbeat can stop it.
        go.touch()
        mark.unlink()
        os.kill(child, signal.SIGCONT)
        task = tasks.wait(task_id)
        assert (task["status"], task["attempt"]) == ("SUCCEEDED", 2)
        assert count(payments) == 1


def test_a_task_does_not_see_the_context_of_another(dsn: str, tasks: Tasks, tmp_path: Path):
    with running_worker(dsn, tmp_path, "--concurrency", "1"):
        ids = tasks.many("look_around", {}, 50)
        tasks.wait_all(ids)
    assert {tasks.get(task_id)["result"] for task_id in ids} == {0}

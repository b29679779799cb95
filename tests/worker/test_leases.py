"""Who holds a task: heartbeats that nothing starves, and late writes that change nothing."""

import os
import signal
import uuid
from pathlib import Path

import pytest

from skiplane.tests.support import wait_until
from skiplane.tests.worker.helpers import Tasks, alive, running_worker

LEASE = ("--lease-seconds", "1.5")


@pytest.mark.parametrize(
    ("task_type", "seconds"),
    [("sleep", 5), ("block", 5), ("hold_gil", 5), ("sync_sleep", 5), ("thread_sleep", 5)],
)
def test_a_task_longer_than_its_lease_runs_once(
    dsn: str, tasks: Tasks, tmp_path: Path, task_type: str, seconds: int
):
    with running_worker(dsn, tmp_path, *LEASE):
        task_id = tasks.submit(task_type, {"seconds": seconds})

        def ended() -> bool:
            tasks.sweep()
            return tasks.status(task_id) == "SUCCEEDED"

        wait_until(ended, 60)
        assert tasks.get(task_id)["attempt"] == 1


def test_a_stopped_worker_loses_its_task_and_cannot_finish_it(
    dsn: str, tasks: Tasks, tmp_path: Path
):
    with running_worker(dsn, tmp_path, *LEASE) as worker:
        task_id = tasks.submit("sleep", {"seconds": 2}, max_retries=5, retry_delay_seconds=0)
        tasks.wait(task_id, "RUNNING")
        child = worker.child_pids()[0]
        os.kill(child, signal.SIGSTOP)
        try:

            def returned() -> bool:
                tasks.sweep()
                tasks.release_due()
                return tasks.status(task_id) == "PENDING"

            wait_until(returned, 60)
            # Somebody else has it now.
            other = str(uuid.uuid4())
            lease = tasks.conn.execute(
                "select lease_id from skiplane.claim_tasks(%s::uuid, '{default}', 1)", [other]
            ).fetchone()
            assert lease is not None
            assert lease[0] is not None
        finally:
            os.kill(child, signal.SIGCONT)
        quick = tasks.submit("echo", {"value": 1})
        assert tasks.wait(quick)["status"] == "SUCCEEDED"  # alive, with a free place
        document = tasks.get(task_id)
        assert (document["status"], document["worker_id"]) == ("RUNNING", other)
        stale = tasks.scalar(
            "select skiplane.finish_tasks(%s::uuid, %s, array[%s::uuid], array['2'])",
            [other, lease[0], task_id],
        )
        assert not stale
        assert tasks.get(task_id)["result"] == 2


def test_tasks_of_a_dead_process_run_again_before_their_lease_ends(
    dsn: str, tasks: Tasks, tmp_path: Path
):
    options = ("--lease-seconds", "60", "--processes", "2", "--poll-seconds", "0.5")
    with running_worker(dsn, tmp_path, *options, ready=2) as worker:
        first = tasks.submit("sleep", {"seconds": 1}, max_retries=2, retry_delay_seconds=0)
        tasks.wait(first, "RUNNING")
        holder = "select w.pid from skiplane.lease l join skiplane.worker w using (worker_id)"
        assert tasks.scalar(holder) in worker.child_pids()
        os.kill(tasks.scalar(holder), signal.SIGKILL)

        def again() -> bool:
            tasks.release_due()
            task = tasks.get(first)
            return (task["attempt"], task["status"]) == (2, "RUNNING")

        wait_until(again, 30)
        assert tasks.wait(first)["status"] == "SUCCEEDED"
        assert tasks.get(first)["attempts"][0]["outcome"].lower() == "lost"


def test_a_poison_task_is_dead_after_its_attempts(dsn: str, tasks: Tasks, tmp_path: Path):
    with running_worker(dsn, tmp_path) as worker:
        rules = {"max_retries": 1, "retry_delay_seconds": 0}
        poison = tasks.submit("die", {"how": "exit"}, **rules)

        def dead() -> bool:
            tasks.release_due()
            return tasks.status(poison) == "DEAD"

        wait_until(dead, 60)
        task = tasks.get(poison)
        assert task["attempt"] == 2
        # The second time it ran apart, and only its own process ended.
        first, second = (attempt["error_message"] for attempt in task["attempts"])
        assert "worker process ended" in first
        assert (
            second == task["error_message"] == ("The process that ran the task ended: exit code 0.")
        )
        worker.wait_for("worker started", 2)
        assert tasks.wait(tasks.submit("echo", {"value": 1}))["status"] == "SUCCEEDED"


@pytest.mark.parametrize("how", ["exit", "kill"])
def test_a_pool_process_that_dies_costs_its_own_task_only(
    dsn: str, tasks: Tasks, tmp_path: Path, how: str
):
    with running_worker(dsn, tmp_path, "--pool", "1") as worker:
        tasks.wait_all(tasks.many("sync_echo", {"value": 1}, 50))
        before = tasks.many("sync_echo", {"value": 1}, 5)
        poison = tasks.submit("sync_die", {"how": how}, max_retries=0)
        after = tasks.many("sync_echo", {"value": 1}, 20)
        tasks.wait_all([*before, poison, *after])
        assert tasks.get(poison)["error_type"] == "ProcessLost"
        for task_id in before + after:
            task = tasks.get(task_id)
            assert (task["status"], task["attempt"]) == ("SUCCEEDED", 1)
        assert len(worker.child_pids()) == 1


def test_what_a_long_task_keeps_waiting_is_handed_back(dsn: str, tasks: Tasks, tmp_path: Path):
    """A worker never sits on tasks that another could run."""
    with running_worker(dsn, tmp_path, "--concurrency", "2"):
        tasks.wait_all(tasks.many("echo", {"value": 1}, 2000))  # so it claims far ahead
        long = tasks.many("sleep", {"seconds": 3}, 2)
        waiting = tasks.many("echo", {"value": 2}, 200)
        wait_until(lambda: [tasks.status(task_id) for task_id in long] == ["RUNNING"] * 2)
        held = "select coalesce(sum(cardinality(ids)), 0) from skiplane.lease"
        wait_until(lambda: tasks.scalar(held) == 2, 2, "only what runs to be held")
        tasks.wait_all([*long, *waiting])
        assert {tasks.get(task_id)["attempt"] for task_id in waiting} == {1}


def test_killed_processes_lose_no_task(dsn: str, tasks: Tasks, tmp_path: Path):
    options = ("--processes", "2", "--poll-seconds", "0.5", "--lease-seconds", "2")
    with running_worker(dsn, tmp_path, *options, ready=2) as worker:
        ids = [
            task_id
            for task_type in ("sleep", "sync_sleep")
            for task_id in tasks.many(task_type, {"seconds": 0.01}, 800)
        ]
        done = "select count(*) from skiplane.get_results(%s::uuid[]) where done"
        for share in (100, 400, 700):
            wait_until(lambda share=share: tasks.scalar(done, [ids]) > share, 30)  # type: ignore[misc]
            os.kill(next(p for p in reversed(worker.child_pids()) if alive(p)), signal.SIGKILL)

        def ended() -> bool:
            tasks.sweep()
            tasks.release_due()
            return bool(tasks.scalar(done, [ids]) == len(ids))

        wait_until(ended, 60)
        states = "select array_agg(distinct status) from skiplane.get_results(%s::uuid[])"
        assert tasks.scalar(states, [ids]) == ["SUCCEEDED"]


def test_pool_processes_do_not_share_randomness(dsn: str, tasks: Tasks, tmp_path: Path):
    with running_worker(dsn, tmp_path):
        ids = [tasks.submit("sync_random") for _ in range(40)]
        results = [tasks.wait(task_id)["result"] for task_id in ids]
    assert len({pid for pid, _ in results}) > 1
    assert len({number for _, number in results}) == len(results)


def test_a_long_task_does_not_hold_back_the_results_of_its_batch(
    dsn: str, tasks: Tasks, tmp_path: Path
):
    with running_worker(dsn, tmp_path, "--concurrency", "20") as worker:
        worker.wait_for("worker started")
        long = tasks.submit("sleep", {"seconds": 100})
        quick = tasks.many("echo", {"value": 1}, 10)
        tasks.wait_all(quick, timeout=50)
        assert tasks.status(long) == "RUNNING"

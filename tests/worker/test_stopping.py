"""How a worker stops, and how it lives with its children."""

import os
import signal
from pathlib import Path
from time import monotonic

import pytest

from skiplane.tests.support import wait_until
from skiplane.tests.worker.helpers import (
    APP,
    Tasks,
    WorkerCommand,
    alive,
    running_worker,
    wait_gone,
)
from skiplane.tests.worker.proxy import proxy_before


@pytest.mark.parametrize("task_type", ["sleep", "sync_sleep", "thread_sleep"])
def test_running_tasks_finish_within_the_grace(
    dsn: str, tasks: Tasks, tmp_path: Path, task_type: str
):
    with running_worker(dsn, tmp_path, "--concurrency", "2", "--lease-seconds", "1") as worker:
        # What has not begun goes back; so the processes must have come up.
        tasks.wait_all([tasks.submit(task_type, {"seconds": 0.5}) for _ in range(2)])
        running = [tasks.submit(task_type, {"seconds": 3}) for _ in range(2)]
        for task_id in running:
            tasks.wait(task_id, "RUNNING")
        worker.signal(signal.SIGTERM)
        worker.wait_for("worker stopping")
        late = tasks.submit("echo", {"value": 1})
        wait_until(lambda: tasks.scalar("select draining from skiplane.worker"), 3)

        def over() -> bool:
            tasks.sweep()  # nobody may take them while they run
            return worker.process.poll() is not None

        wait_until(over, 60)
        assert worker.process.returncode == 0
        for task_id in running:
            task = tasks.get(task_id)
            assert (task["status"], task["attempt"]) == ("SUCCEEDED", 1)
        assert tasks.status(late) == "PENDING"
        assert tasks.scalar("select count(*) from skiplane.worker") == 0


@pytest.mark.parametrize("task_type", ["sleep", "sync_sleep", "thread_sleep", "stubborn", "block"])
def test_what_outlasts_the_grace_goes_back_uncharged(
    dsn: str, tasks: Tasks, tmp_path: Path, task_type: str
):
    options = ("--grace-seconds", "0.5", "--kill-grace-seconds", "0.5", "--lease-seconds", "2")
    with running_worker(dsn, tmp_path, *options) as worker:
        task_id = tasks.submit(task_type, {"seconds": 1000})
        tasks.wait(task_id, "RUNNING")
        assert worker.stop() == 0
        task = tasks.get(task_id)
        assert (task["status"], task["attempt"], task["attempts"]) == ("PENDING", 0, [])


def test_waiting_tasks_go_back_at_once(dsn: str, tasks: Tasks, tmp_path: Path):
    with running_worker(dsn, tmp_path, "--concurrency", "1") as worker:
        tasks.wait_all(tasks.many("echo", {"value": 1}, 2000))  # so it claims far ahead
        ids = tasks.many("sleep", {"seconds": 0.4}, 100)
        tasks.wait(ids[0], "RUNNING")
        assert worker.stop() == 0
        states = {tasks.status(task_id) for task_id in ids}
        assert states == {"SUCCEEDED", "PENDING"}
        assert {tasks.get(i)["attempt"] for i in ids if tasks.status(i) == "PENDING"} == {0}


def test_ends_are_recorded_when_the_database_returns_during_the_stop(
    dsn: str, tasks: Tasks, tmp_path: Path
):
    with proxy_before(dsn) as proxy, running_worker(proxy.dsn, tmp_path) as worker:
        task_id = tasks.submit("sleep", {"seconds": 1})
        tasks.wait(task_id, "RUNNING")
        worker.signal(signal.SIGTERM)
        worker.wait_for("worker stopping")
        proxy.cut()
        away = monotonic() + 2.5
        wait_until(lambda: monotonic() > away)
        proxy.restore()
        assert worker.process.wait(15) == 0
        task = tasks.get(task_id)
        assert (task["status"], task["attempt"]) == ("SUCCEEDED", 1)


def test_a_task_that_takes_the_signals_cannot_prevent_the_stop(
    dsn: str, tasks: Tasks, tmp_path: Path
):
    with running_worker(dsn, tmp_path) as worker:
        tasks.wait(tasks.submit("take_signals"))
        assert worker.stop() == 0


def test_a_second_interrupt_kills(dsn: str, tasks: Tasks, tmp_path: Path):
    with running_worker(dsn, tmp_path) as worker:
        task_id = tasks.submit("sleep", {"seconds": 1000})
        tasks.wait(task_id, "RUNNING")
        worker.signal(signal.SIGINT)
        worker.wait_for("worker stopping")
        worker.signal(signal.SIGINT)
        worker.process.wait(5)


@pytest.mark.parametrize("task_type", ["family", "async_family"])
def test_everything_dies_with_the_supervisor(
    dsn: str, tasks: Tasks, tmp_path: Path, task_type: str
):
    mark = tmp_path / "mark"
    with running_worker(dsn, tmp_path) as worker:
        tasks.submit(task_type, {"mark": str(mark)})
        wait_until(lambda: mark.exists() and mark.read_text())
        pids = [*worker.child_pids(), *map(int, mark.read_text().split())]
        worker.process.kill()
        for pid in pids:
            wait_gone(pid, 5)


def test_processes_share_the_work_and_are_all_stopped(dsn: str, tasks: Tasks, tmp_path: Path):
    with running_worker(dsn, tmp_path, "--processes", "2", ready=2) as worker:
        ids = tasks.many("sleep", {"seconds": 0.05}, 200)
        tasks.wait_all(ids)
        used = tasks.scalar(
            "select count(distinct worker_id) from skiplane.tasks where task_id = any(%s::uuid[])",
            [ids],
        )
        assert used == 2
        assert worker.stop() == 0
        assert not [pid for pid in worker.child_pids() if alive(pid)]


def test_a_drained_worker_ends(dsn: str, tasks: Tasks, tmp_path: Path):
    with running_worker(dsn, tmp_path) as worker:
        task_id = tasks.submit("sleep", {"seconds": 1})
        tasks.wait(task_id, "RUNNING")
        tasks.conn.execute("select skiplane.drain_worker(worker_id) from skiplane.worker")
        assert worker.process.wait(10) == 0
        assert tasks.status(task_id) == "SUCCEEDED"


def test_a_worker_runs_as_process_one(dsn: str, tasks: Tasks, tmp_path: Path):
    """In a process namespace of its own, as in a container with the exec form."""
    unshare = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
    if os.geteuid() != 0 or os.system(" ".join([*unshare, "true"]) + " 2>/dev/null") != 0:
        pytest.skip("needs the right to make a process namespace")
    worker = WorkerCommand(dsn, tmp_path / "log", prefix=unshare)
    try:
        worker.wait_for("worker started")
        assert tasks.wait(tasks.submit("sync_echo", {"value": 1}))["status"] == "SUCCEEDED"
        inside = int(
            Path(f"/proc/{worker.process.pid}/task/{worker.process.pid}/children")
            .read_text()
            .split()[0]
        )
        os.kill(inside, signal.SIGTERM)
        assert worker.process.wait(15) == 0
    finally:
        if worker.process.poll() is None:
            worker.process.kill()
            worker.process.wait()


@pytest.mark.parametrize(
    ("app", "options", "said"),
    [
        ("no.such.module", (), "no module"),
        (f"{APP}:nothing", (), "no Skiplane app"),
        ("skiplane.tests.worker.broken_app", (), "RuntimeError"),
        (APP, ("--types", "echo,unheard"), "unheard"),
    ],
)
def test_what_cannot_work_is_said_at_the_start(
    dsn: str, tmp_path: Path, app: str, options: tuple[str, ...], said: str
):
    worker = WorkerCommand(dsn, tmp_path / "log", *options, app=app)
    try:
        assert worker.process.wait(20) == 2
        assert said in worker.wait_for("the worker cannot start")["cause"]
    finally:
        worker.kill()

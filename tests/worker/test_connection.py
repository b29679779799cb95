"""The database may go away at any time: nothing crashes, nothing done is lost."""

from pathlib import Path
from time import monotonic

from skiplane.tests.support import wait_until
from skiplane.tests.worker.helpers import Tasks, WorkerCommand, running_worker
from skiplane.tests.worker.proxy import proxy_before

SLOW_POLL = ("--poll-seconds", "60")
LISTENERS = (
    "select count(*) from pg_stat_activity"
    " where application_name = 'skiplane worker listener' and datname = current_database()"
)
WAITING = (
    "select count(*) from pg_locks where locktype = 'advisory' and mode = 'ShareLock'"
    " and database = (select oid from pg_database where datname = current_database())"
)


def wait_asleep(tasks: Tasks) -> None:
    """Wait until an idle worker has asked to be notified."""
    wait_until(lambda: tasks.scalar(WAITING) > 0, 15, "a worker to wait for work")


def test_an_idle_worker_starts_new_work_at_once(dsn: str, tasks: Tasks, tmp_path: Path):
    with running_worker(dsn, tmp_path, *SLOW_POLL):
        wait_asleep(tasks)
        for _ in range(5):
            task_id = tasks.submit("echo", {"value": 1})
            assert tasks.wait(task_id, timeout=30)["status"] == "SUCCEEDED"


def test_a_killed_listener_comes_back_and_looks_for_missed_work(
    dsn: str, tasks: Tasks, tmp_path: Path
):
    with running_worker(dsn, tmp_path, *SLOW_POLL):
        wait_asleep(tasks)
        tasks.conn.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where application_name = 'skiplane worker listener' and datname = current_database()"
        )
        missed = tasks.submit("echo", {"value": 1})
        assert tasks.wait(missed, timeout=30)["status"] == "SUCCEEDED"
        wait_until(lambda: tasks.scalar(LISTENERS) == 1)
        wait_asleep(tasks)
        assert tasks.wait(tasks.submit("echo", {"value": 1}), timeout=30)["status"] == "SUCCEEDED"


def test_an_outage_is_told_once_and_what_was_done_is_recorded(
    dsn: str, tasks: Tasks, tmp_path: Path
):
    options = (*SLOW_POLL, "--lease-seconds", "30")
    with proxy_before(dsn) as proxy, running_worker(proxy.dsn, tmp_path, *options) as worker:
        wait_asleep(tasks)
        running = [tasks.submit("sleep", {"seconds": 3}) for _ in range(3)]
        for task_id in running:
            tasks.wait(task_id, "RUNNING")
        proxy.cut()
        missed = tasks.submit("echo", {"value": 1})
        worker.wait_for("the database is away")
        end = monotonic() + 4
        wait_until(lambda: monotonic() > end, 6)  # the tasks end meanwhile
        assert [tasks.status(task_id) for task_id in running] == ["RUNNING"] * 3
        proxy.restore()
        tasks.wait_all([*running, missed], timeout=30)
        assert {tasks.get(task_id)["attempt"] for task_id in running} == {1}
        # One line from the worker, one from its supervisor; nobody has restarted.
        assert len(worker.lines("the database is away")) <= 2
        assert len(worker.child_pids()) == 1
        wait_asleep(tasks)
        assert tasks.wait(tasks.submit("echo", {"value": 1}), timeout=30)["status"] == "SUCCEEDED"


def test_connections_killed_under_load_lose_nothing(dsn: str, tasks: Tasks, tmp_path: Path):
    with running_worker(dsn, tmp_path, "--lease-seconds", "3", "--poll-seconds", "1"):
        ids = [
            *tasks.many("echo", {"value": 1}, 4000),
            *tasks.many("sleep", {"seconds": 0.01}, 500),
        ]
        kill = (
            "select count(pg_terminate_backend(pid)) from pg_stat_activity"
            " where application_name like 'skiplane worker%' and datname = current_database()"
        )
        killed = 0
        done = "select count(*) from skiplane.get_results(%s::uuid[]) where done"

        def ended() -> bool:
            nonlocal killed
            if killed < 6:
                killed += 1
                tasks.conn.execute(kill)
            tasks.sweep()
            tasks.release_due()
            return bool(tasks.scalar(done, [ids]) == len(ids))

        wait_until(ended, 60)
        states = tasks.scalar(
            "select array_agg(distinct status) from skiplane.get_results(%s::uuid[])", [ids]
        )
        assert states == ["SUCCEEDED"]


def test_a_worker_waits_for_a_database_that_is_not_there_yet(
    dsn: str, tasks: Tasks, tmp_path: Path
):
    with proxy_before(dsn) as proxy:
        proxy.cut()
        worker = WorkerCommand(proxy.dsn, tmp_path / "log")
        try:
            worker.wait_for("the database is away")
            proxy.restore()
            worker.wait_for("worker started")
            assert tasks.wait(tasks.submit("echo", {"value": 1}))["status"] == "SUCCEEDED"
            assert len(worker.child_pids()) == 1
        finally:
            worker.kill()


def test_a_worker_can_be_stopped_while_the_database_is_away(dsn: str, tmp_path: Path):
    with proxy_before(dsn) as proxy, running_worker(proxy.dsn, tmp_path) as worker:
        proxy.cut()
        worker.wait_for("the database is away")
        assert worker.stop() == 0


def test_a_loop_that_is_refused_goes_on_when_it_may_again(dsn: str, tasks: Tasks, tmp_path: Path):
    with running_worker(dsn, tmp_path, "--poll-seconds", "0.2") as worker:
        tasks.conn.execute("alter function skiplane.claim_tasks rename to claim_tasks_away")
        worker.wait_for("a loop failed")
        again = monotonic() + 2
        wait_until(lambda: monotonic() > again)
        assert len(worker.lines("a loop failed")) <= 3  # one for each loop, not one for each try
        tasks.conn.execute("alter function skiplane.claim_tasks_away rename to claim_tasks")
        assert tasks.wait(tasks.submit("echo", {"value": 1}))["status"] == "SUCCEEDED"
        assert len(worker.child_pids()) == 1


def test_a_database_without_skiplane_is_refused_in_one_sentence(empty_dsn: str, tmp_path: Path):
    worker = WorkerCommand(empty_dsn, tmp_path / "log")
    try:
        assert worker.process.wait(20) == 2
        assert "run skiplane migrate" in worker.wait_for("the worker cannot start")["cause"]
    finally:
        worker.kill()

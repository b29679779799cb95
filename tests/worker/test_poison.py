"""A task that kills its process takes others along at most once: after that it runs apart."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from skiplane.tests.support import wait_until
from skiplane.tests.worker.helpers import Tasks, running_worker

APP = "skiplane.tests.worker.poison_app"
FELLOWS = 3


class Fold:
    """Innocent tasks and a poison among them."""

    def __init__(self, tasks: Tasks, folder: Path) -> None:
        self.tasks = tasks
        self.began, self.until, self.mark = (folder / name for name in ("began", "until", "mark"))

    def submit(self, innocent: str, poison: str, max_retries: int = 3) -> tuple[list[str], str]:
        """Submit FELLOWS innocent tasks, then the poison."""
        payload: dict[str, Any] = {"began": str(self.began), "until": str(self.until)}
        innocents = self.tasks.many(innocent, payload, FELLOWS, max_retries=max_retries)
        payload = {"began": str(self.began), "fellows": FELLOWS, "mark": str(self.mark)}
        return innocents, self.tasks.submit(poison, payload, max_retries=max_retries)


@pytest.fixture
def fold(tasks: Tasks, tmp_path: Path) -> Fold:
    return Fold(tasks, tmp_path)


@pytest.mark.parametrize(
    ("innocent", "poison"),
    [
        ("resting", "felling"),
        ("thread_resting", "thread_felling"),
        ("thread_resting", "felling"),
        ("process_resting", "felling"),
    ],
)
def test_companions_of_a_poison_survive_it(
    dsn: str, tasks: Tasks, fold: Fold, tmp_path: Path, innocent: str, poison: str
):
    innocents, poisoned = fold.submit(innocent, poison, max_retries=3)
    with running_worker(dsn, tmp_path, app=APP):
        dead = tasks.wait(poisoned, timeout=40)
        fold.until.touch()
        tasks.wait_all(innocents)
    assert (dead["status"], dead["attempt"]) == ("DEAD", 4)
    assert [a["outcome"] for a in dead["attempts"]] == ["lost"] * 4
    assert fold.mark.read_text() == "...."
    for task_id in innocents:
        task = tasks.get(task_id)
        assert (task["status"], task["result"], task["attempt"]) == ("SUCCEEDED", 2, 2)


def test_companions_in_other_processes_are_not_even_charged(
    dsn: str, tasks: Tasks, fold: Fold, tmp_path: Path
):
    innocents, poisoned = fold.submit("process_resting", "process_felling", max_retries=2)
    with running_worker(dsn, tmp_path, app=APP):
        dead = tasks.wait(poisoned, timeout=40)
        fold.until.touch()
        tasks.wait_all(innocents)
    assert (dead["status"], dead["attempt"]) == ("DEAD", 3)
    assert {tasks.get(task_id)["attempt"] for task_id in innocents} == {1}


def test_what_ran_in_pool_processes_is_excused_when_the_worker_dies(
    dsn: str, tasks: Tasks, fold: Fold, tmp_path: Path
):
    payload = {"began": str(fold.began), "until": str(fold.until)}
    beside, apart = tasks.submit("resting", payload), tasks.submit("process_resting", payload)
    with running_worker(dsn, tmp_path, app=APP) as worker:
        wait_until(lambda: fold.began.exists() and len(fold.began.read_text()) == 2)
        os.kill(worker.child_pids()[0], signal.SIGKILL)
        fold.until.touch()
        tasks.wait_all([beside, apart])
    excused = "select jsonb_object_agg(id, excused) from skiplane.attempt where outcome = 'lost'"
    assert tasks.scalar(excused) == {beside: False, apart: True}


def test_a_coroutine_that_runs_apart_has_its_whole_context(dsn: str, tasks: Tasks, tmp_path: Path):
    task_id = tasks.submit("deep", {"checkpoint": True})
    with running_worker(dsn, tmp_path, app=APP) as worker:
        task = tasks.wait(task_id)
        pids = worker.child_pids()
    assert (task["status"], task["attempt"]) == ("SUCCEEDED", 2)
    assert int(task["result"]) not in pids
    assert task["duration_ms"] >= 50


def test_a_coroutine_that_runs_apart_is_cancelled_before_it_is_killed(
    dsn: str, tasks: Tasks, tmp_path: Path
):
    mark = tmp_path / "mark"
    task_id = tasks.submit("patient", {"mark": str(mark)})
    with running_worker(dsn, tmp_path, app=APP):
        wait_until(mark.exists, 60)
        tasks.cancel(task_id)
        wait_until(lambda: mark.read_text() == "cleaned up")


def test_a_coroutine_that_runs_apart_may_clean_up_after_its_time(
    dsn: str, tasks: Tasks, tmp_path: Path
):
    mark = tmp_path / "mark"
    task_id = tasks.submit("patient", {"mark": str(mark)}, timeout_seconds=2, max_retries=1)
    with running_worker(dsn, tmp_path, app=APP):
        task = tasks.wait(task_id)
    assert (task["status"], task["error_type"]) == ("DEAD", "TimeoutError")
    assert mark.read_text() == "cleaned up"


def test_a_task_that_kills_the_host_of_its_process_is_charged(
    dsn: str, tasks: Tasks, tmp_path: Path
):
    task_id = tasks.submit("headless", max_retries=1)
    with running_worker(dsn, tmp_path, app=APP):
        task = tasks.wait(task_id, timeout=40)
    assert (task["status"], task["attempt"], task["error_type"]) == ("DEAD", 2, "ProcessLost")


def test_an_app_that_cannot_be_there_twice_runs_its_lost_tasks_with_the_others(
    dsn: str, tasks: Tasks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("SKIPLANE_TEST_PLACE", str(tmp_path))
    with running_worker(dsn, tmp_path, app="skiplane.tests.worker.single_app") as worker:
        ended = []
        for deaths in (1, 2):
            ended.append(tasks.wait(tasks.submit("die_once")))
            worker.wait_for("lost tasks cannot run apart", deaths)
        pids = worker.child_pids()
    assert [task["result"] for task in ended] == pids[1:]
    assert [task["attempt"] for task in ended] == [2, 2]

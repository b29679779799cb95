"""Whom a worker process's death is charged to: what it had begun, not what it held."""

import os
import signal
from pathlib import Path

import pytest

from skiplane.tests.support import wait_until
from skiplane.tests.worker.helpers import Tasks, running_worker
from skiplane.worker import begun
from skiplane.worker.begun import Begun, Noted, read, shared_file
from skiplane.worker.leases import Lease

APP = "skiplane.tests.worker.poison_app"
IDS = [f"01234567-89ab-cdef-0123-{number:012x}" for number in range(400)]


def test_what_has_begun_can_be_read_until_its_end_is_recorded():
    with shared_file() as file:
        noted, lease = Begun(file.fileno()), Lease(1, 0, 0.0)
        for task_id in IDS:
            noted.add(lease, task_id)
        assert read(file) == Noted(IDS, [])
        noted.discard(lease, IDS[:-2])
        assert read(file) == Noted(IDS[-2:], [])


def test_what_runs_apart_is_told_apart():
    with shared_file() as file:
        noted, lease = Begun(file.fileno()), Lease(1, 0, 0.0)
        noted.add(lease, IDS[0])
        noted.add(lease, IDS[1], apart=True)
        assert read(file) == Noted([IDS[0]], [IDS[1]])
        noted.discard(lease, IDS[:1])
        assert read(file) == Noted([], [IDS[1]])


def test_ends_of_what_never_began_change_nothing():
    with shared_file() as file:
        noted, lease = Begun(file.fileno()), Lease(1, 0, 0.0)
        noted.add(lease, IDS[0])
        noted.discard(lease, [IDS[1]])
        assert read(file) == Noted([IDS[0]], [])


def test_places_are_used_again():
    with shared_file() as file:
        noted, lease = Begun(file.fileno()), Lease(1, 0, 0.0)
        for _ in range(1000):
            for task_id in IDS:
                noted.add(lease, task_id)
            noted.discard(lease, IDS)
        noted.add(lease, IDS[0])
        assert read(file) == Noted([IDS[0]], [])


def test_a_task_claimed_again_keeps_its_note_when_its_former_end_is_recorded():
    with shared_file() as file:
        noted, former, again = Begun(file.fileno()), Lease(1, 0, 0.0), Lease(2, 0, 0.0)
        noted.add(former, IDS[0])
        noted.add(again, IDS[0])
        noted.discard(former, [IDS[0]])
        assert read(file) == Noted([IDS[0]], [])


def test_a_note_that_a_death_cut_short_is_no_task():
    with shared_file() as file:
        noted, lease = Begun(file.fileno()), Lease(1, 0, 0.0)
        noted.add(lease, IDS[0])
        at = lease.begun[IDS[0]] + 37
        os.pwrite(file.fileno(), b"h" + IDS[1][:20].encode(), at)
        assert read(file) == Noted([IDS[0]], [])


def test_everything_counts_when_nothing_had_begun():
    with shared_file() as file:
        assert read(file) is None


def test_everything_counts_when_too_much_had_begun(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(begun, "_SIZE", 37 * 10)
    with shared_file() as file:
        noted, lease = Begun(file.fileno()), Lease(1, 0, 0.0)
        for task_id in IDS[:9]:
            noted.add(lease, task_id)
        assert read(file) == Noted(IDS[:9], [])
        noted.add(lease, IDS[9])
        assert read(file) is None
        noted.discard(lease, IDS)
        assert read(file) is None


# What has ended, but is not recorded when the poison kills, counts as begun, so that
# the poison waits for that.
@pytest.mark.parametrize("kind", ["poison", "thread_poison"])
def test_poison_ends_dead_and_takes_nobody_along(dsn: str, tasks: Tasks, tmp_path: Path, kind: str):
    innocent = tasks.many("innocent", {}, 150, max_retries=0)
    mark = tmp_path / "starts"
    poison = tasks.submit(kind, {"mark": str(mark)}, max_retries=3)
    innocent += tasks.many("innocent", {}, 150, max_retries=0)
    with running_worker(dsn, tmp_path, "--concurrency", "1", app=APP):
        tasks.wait_all([poison, *innocent], 60)
    states = "select array_agg(distinct status) from skiplane.get_results(%s::uuid[])"
    assert tasks.scalar(states, [innocent]) == ["SUCCEEDED"]
    dead = tasks.get(poison)
    assert (dead["status"], dead["error_type"], dead["attempt"]) == ("DEAD", "ProcessLost", 4)
    assert len(dead["attempts"]) == 4
    assert mark.read_text() == "...."


@pytest.mark.parametrize(
    ("task_type", "option"), [("hang_first", "--pool"), ("thread_hang_first", "--threads")]
)
def test_a_task_that_waits_for_a_process_or_a_thread_has_not_begun(
    dsn: str, tasks: Tasks, tmp_path: Path, task_type: str, option: str
):
    mark = tmp_path / "mark"
    ids = tasks.many(task_type, {"mark": str(mark)}, 2, max_retries=0)
    with running_worker(dsn, tmp_path, "--concurrency", "2", option, "1", app=APP) as worker:
        held = "select coalesce(sum(cardinality(ids)), 0) from skiplane.lease"
        wait_until(lambda: mark.exists() and tasks.scalar(held) == 2)
        os.kill(worker.child_pids()[0], signal.SIGKILL)
        tasks.wait_all(ids)
    assert sorted(tasks.status(task_id) for task_id in ids) == ["DEAD", "SUCCEEDED"]

"""The watchdog: leases that ran out, time-outs that passed, tasks that expired."""

import uuid
from typing import Any

import pytest

from skiplane.tests.support.engine import Engine


@pytest.fixture
def still(engine: Engine) -> Engine:
    """The verbs with a clock that moves only when told."""
    engine.one("select set_config('skiplane.now', skiplane.clock()::text, true)")
    return engine


def test_lease_that_ran_out_is_charged(still: Engine):
    ids = still.many(3)
    still.claim(3)
    still.skip(9.9)
    assert still.value("sweep_leases")[0] == 0
    still.skip(0.2)
    assert still.value("sweep_leases")[0] == 3
    for task_id in ids:
        task = still.get(task_id)
        assert (task["status"], task["attempt"]) == ("PENDING", 1)
        assert [a["outcome"] for a in task["attempts"]] == ["lost"]
        assert task["attempts"][0]["error_type"] == "WorkerLost"
    assert still.value("sweep_leases")[0] == 0


def test_last_attempt_of_a_lost_task_ends_dead(still: Engine):
    task_id = still.submit(max_retries=0)
    still.claim()
    still.skip(10.1)
    assert still.value("sweep_leases")[0] == 1
    assert still.status(task_id) == "DEAD"


def losses(still: Engine, task_id: uuid.UUID, claims: list[tuple[uuid.UUID, int]]) -> int:
    """Lose a task, claimed so by workers, again and again; give how often until it was dead."""
    count = 0
    while still.status(task_id) != "DEAD":
        for worker, limit in claims:
            still.claim(limit, worker=worker)
        still.skip(10.1)
        still.value("sweep_leases")
        count += 1
        assert count < 20
    return count


@pytest.mark.parametrize("retries", [0, 1, 3])
def test_a_task_that_is_lost_alone_is_charged_each_time(still: Engine, retries: int):
    task_id = still.submit(max_retries=retries, retry_delay_seconds=0)
    assert losses(still, task_id, [(uuid.uuid4(), 1)]) == retries + 1


@pytest.mark.parametrize("retries", [0, 1, 3])
def test_a_task_that_is_lost_beside_others_has_as_many_tries_more(still: Engine, retries: int):
    task_id = still.submit(max_retries=retries, retry_delay_seconds=0)
    still.submit(max_retries=100, retry_delay_seconds=0)
    assert losses(still, task_id, [(uuid.uuid4(), 2)]) == 2 * retries + 1
    task = still.get(task_id)
    assert task["attempt"] == 2 * retries + 1
    assert "excused" in task["attempts"][0]["error_message"]


def test_what_is_lost_in_two_leases_or_processes_of_a_supervisor_is_lost_together(still: Engine):
    supervisor, first, second = (uuid.uuid4() for _ in range(3))
    for worker in (first, second):
        still.value(
            "register_worker",
            worker_id=worker,
            name="w",
            queues=["default"],
            supervisor_id=supervisor,
        )
    ids = still.many(2, max_retries=1, retry_delay_seconds=0)
    assert losses(still, ids[0], [(first, 1), (second, 1)]) == 3
    assert still.status(ids[1]) == "DEAD"
    ids = still.many(2, max_retries=1, retry_delay_seconds=0)
    assert losses(still, ids[0], [(first, 1), (first, 1)]) == 3
    assert still.status(ids[1]) == "DEAD"


def test_neighbours_that_live_on_are_no_excuse(still: Engine):
    task_id = still.submit(max_retries=1, retry_delay_seconds=0)
    still.claim()
    still.skip(9)
    still.submit()
    still.claim(worker=uuid.uuid4())
    still.skip(1.1)
    assert still.value("sweep_leases")[0] == 1
    still.claim()
    still.skip(10.1)
    still.value("sweep_leases")
    assert still.status(task_id) == "DEAD"


def test_from_the_second_loss_in_a_row_on_a_task_waits_by_its_retry_rules(still: Engine):
    rules: dict[str, Any] = {"retry_backoff": "linear", "retry_delay_seconds": 7}
    task_id = still.submit(max_retries=9, retry_jitter="none", **rules)
    waits = []
    for _ in range(3):
        still.claim()
        still.skip(10.1)
        still.value("sweep_leases")
        waits.append(still.status(task_id))
        still.skip(0 if waits[-1] == "PENDING" else 7 * len(waits))
        still.value("promote_tasks")
    assert waits == ["PENDING", "RETRYING", "RETRYING"]
    assert still.status(task_id) == "PENDING"


def test_a_manual_retry_excuses_anew(still: Engine):
    task_id = still.submit(max_retries=1, retry_delay_seconds=0)
    still.submit(max_retries=100, retry_delay_seconds=0)
    assert losses(still, task_id, [(uuid.uuid4(), 2)]) == 3
    still.value("retry_task", task_id=task_id)
    assert losses(still, task_id, [(uuid.uuid4(), 2)]) == 3


def test_an_excused_loss_leaves_other_failures_their_tries(still: Engine):
    task_id = still.submit(max_retries=1, retry_delay_seconds=0)
    still.submit(priority="low", max_retries=100, retry_delay_seconds=0)
    still.claim(2)
    still.skip(10.1)
    still.value("sweep_leases")
    for status in ("PENDING", "DEAD"):
        claim = still.claim()
        still.finish(claim, failures=[{"task_id": str(task_id), "kind": "error"}])
        assert still.status(task_id) == status


def test_sweeps_are_bounded_and_the_time_passed_back_skips_nothing(still: Engine):
    still.many(30)
    for _ in range(30):
        still.claim(worker=uuid.uuid4())
    still.skip(10.1)
    returned, after = [], None
    for _ in range(4):
        count, after = still.value("sweep_leases", limit=10, after=after)
        returned.append(count)
    assert returned == [10, 10, 10, 0]


def test_young_leases_do_not_hold_back_the_old(still: Engine):
    still.many(2)
    still.claim(lease_seconds=60)
    after = still.value("sweep_leases")[1]
    still.claim(lease_seconds=5)
    still.skip(6)
    assert still.value("sweep_leases", after=after)[0] == 1


def test_time_out_passed_is_the_end_of_the_attempt(still: Engine):
    task_id = still.submit(timeout_seconds=5, retry_delay_seconds=30, retry_jitter="none")
    claim = still.claim(lease_seconds=600)
    still.skip(14.9)
    assert still.value("sweep_leases")[0] == 0
    still.skip(0.2)
    assert still.value("sweep_leases")[0] == 1
    task = still.get(task_id)
    assert (task["status"], task["attempt"]) == ("RETRYING", 1)
    assert task["attempts"][0]["outcome"] == "timeout"
    assert task["attempts"][0]["error_type"] == "TimeoutError"
    assert still.finish(claim, {task_id: 1}) == [task_id]


def test_time_out_takes_only_what_is_late(still: Engine):
    slow, quick = (
        still.submit("slow", timeout_seconds=100),
        still.submit("quick", timeout_seconds=5),
    )
    plain = still.submit("plain")
    claim = still.claim(3, lease_seconds=600)
    still.skip(16)
    assert still.value("sweep_leases")[0] == 1
    assert still.status(quick) == "RETRYING"
    assert still.finish(claim, dict.fromkeys([slow, plain], 1)) == []


def test_clock_of_a_time_out_starts_with_the_execution(still: Engine):
    """A worker may hold tasks ready: only those reported as running have a deadline."""
    first, second = still.many(2, timeout_seconds=5)
    claim = still.claim(2, lease_seconds=30)
    still.skip(12)
    still.value(
        "heartbeat",
        worker_id=still.worker,
        lease_ids=[claim.lease_id],
        held=claim.ids,
        running_us={str(first): 2_000_000},
        lease_seconds=30,
    )
    still.skip(12.9)
    assert still.value("sweep_leases")[0] == 0
    still.skip(0.2)
    assert still.value("sweep_leases")[0] == 1
    assert (still.status(first), still.status(second)) == ("RETRYING", "RUNNING")


def test_finished_task_leaves_no_deadline_behind(still: Engine):
    quick, slow = still.submit("a", timeout_seconds=5), still.submit("b")
    claim = still.claim(2, lease_seconds=600)
    still.finish(claim, {quick: 1})
    still.skip(20)
    assert still.value("sweep_leases")[0] == 0
    assert still.status(slow) == "RUNNING"
    still.skip(2)
    assert still.value("sweep_leases")[0] == 0
    assert still.one("select kill_at is null from skiplane.lease")


def test_pending_task_expires_as_failed(still: Engine):
    soon = still.one("select skiplane.clock() + interval '5 seconds'")
    ids = still.many(3, expires_at=soon)
    kept = still.submit()
    assert still.value("expire_tasks") == 0
    still.skip(5)
    assert still.value("expire_tasks", limit=2) == 2
    assert still.value("expire_tasks") == 1
    for task_id in ids:
        task = still.get(task_id)
        assert (task["status"], task["error_type"], task["attempt"]) == ("FAILED", "Expired", 0)
        assert task["expires_at"] in task["error_message"]
    assert still.status(kept) == "PENDING"


def test_retry_after_the_expiry_never_starts(still: Engine):
    soon = still.one("select skiplane.clock() + interval '5 seconds'")
    task_id = still.submit(expires_at=soon, retry_delay_seconds=10)
    still.fail(still.claim())
    still.skip(60)
    assert still.value("promote_tasks")[0] == 1
    assert still.claim().lease_id is None
    assert still.value("expire_tasks") == 1
    assert still.status(task_id) == "FAILED"


def test_running_task_does_not_expire(still: Engine):
    soon = still.one("select skiplane.clock() + interval '5 seconds'")
    task_id = still.submit(expires_at=soon)
    claim = still.claim(lease_seconds=60)
    still.skip(20)
    assert still.value("expire_tasks") == 0
    assert still.finish(claim, {task_id: 1}) == []
    assert still.status(task_id) == "SUCCEEDED"


def test_one_bad_task_does_not_stop_the_sweep(still: Engine):
    good = still.submit()
    bad = still.submit("bad")
    still.claim(2)
    still.conn.execute("delete from skiplane.task where id = %s", [bad])
    still.skip(10.1)
    assert still.value("sweep_leases")[0] == 2
    assert still.status(good) == "PENDING"

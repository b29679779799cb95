"""The watchdog: leases that ran out, time-outs that passed, tasks that expired."""

import uuid

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

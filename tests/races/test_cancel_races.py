"""Cancelling against claims, finishes, promotions and itself: one end per task."""

import psycopg
import pytest

from skiplane.tests.support.engine import Engine
from skiplane.tests.support.races import Racer


def test_cancel_waits_for_the_claim_and_stops_the_worker(
    first: Engine, second: Engine, watcher: Engine
):
    task_id = watcher.submit()
    with first.conn.transaction():
        claim = first.claim()
        cancel = Racer(second, "cancel_task", task_id=task_id).wait_for_lock(watcher)
    assert cancel.result()["status"] == "CANCELLED"
    assert first.finish(claim, {task_id: 1}) == [task_id]
    assert watcher.places(task_id) == ["outcome"]


def test_cancel_takes_what_a_rolled_back_claim_left(first: Engine, second: Engine, watcher: Engine):
    task_id = watcher.submit()
    with first.conn.transaction(force_rollback=True):
        first.claim()
        cancel = Racer(second, "cancel_task", task_id=task_id).wait_for_lock(watcher)
    document = cancel.result()
    assert (document["status"], document["attempt"]) == ("CANCELLED", 0)


def test_claim_passes_by_what_is_being_cancelled(first: Engine, second: Engine, watcher: Engine):
    doomed, other = watcher.many(2)
    with first.conn.transaction():
        first.value("cancel_task", task_id=doomed)
        assert second.claim(5).ids == [other]
    assert second.claim(5).lease_id is None
    assert watcher.status(doomed) == "CANCELLED"


def test_cancel_comes_too_late_for_a_finish(first: Engine, second: Engine, watcher: Engine):
    task_id = watcher.submit()
    claim = first.claim()
    with first.conn.transaction():
        assert first.finish(claim, {task_id: "done"}) == []
        cancel = Racer(second, "cancel_task", task_id=task_id).wait_for_lock(watcher)
    with pytest.raises(psycopg.Error, match="SUCCEEDED") as caught:
        cancel.result()
    assert caught.value.sqlstate == "SK003"
    assert watcher.get(task_id)["result"] == "done"


def test_cancel_follows_a_task_whose_attempt_just_failed(
    first: Engine, second: Engine, watcher: Engine
):
    task_id = watcher.submit()
    claim = first.claim()
    with first.conn.transaction():
        first.fail(claim)
        cancel = Racer(second, "cancel_task", task_id=task_id).wait_for_lock(watcher)
    assert cancel.result()["status"] == "CANCELLED"
    assert watcher.places(task_id) == ["outcome"]


def test_finish_comes_too_late_for_a_cancel(first: Engine, second: Engine, watcher: Engine):
    ids = watcher.many(2)
    claim = second.claim(2)
    with first.conn.transaction():
        first.value("cancel_task", task_id=ids[0])
        finish = Racer(
            second,
            "finish_tasks",
            worker_id=claim.worker,
            lease_id=claim.lease_id,
            task_ids=ids,
            results=["1", "2"],
        ).wait_for_lock(watcher)
    assert finish.result() == [ids[0]]
    assert [watcher.status(i) for i in ids] == ["CANCELLED", "SUCCEEDED"]


def test_second_of_two_cancels_is_a_conflict(first: Engine, second: Engine, watcher: Engine):
    task_id = watcher.submit()
    with first.conn.transaction():
        first.value("cancel_task", task_id=task_id, reason="one")
        cancel = Racer(second, "cancel_task", task_id=task_id).wait_for_lock(watcher)
    with pytest.raises(psycopg.Error) as caught:
        cancel.result()
    assert caught.value.sqlstate == "SK003"
    assert watcher.get(task_id)["error_message"] == "one"
    assert len(watcher.get(task_id)["actions"]) == 1


@pytest.mark.parametrize("running", [True, False])
def test_two_cancels_of_neighbours_do_not_disturb_each_other(
    first: Engine, second: Engine, watcher: Engine, running: bool
):
    ids = watcher.many(2)
    if running:
        watcher.claim(2)
    with first.conn.transaction():
        first.value("cancel_task", task_id=ids[0])
        cancel = Racer(second, "cancel_task", task_id=ids[1])
        if running:
            cancel.wait_for_lock(watcher)
        else:
            cancel.result()
    assert cancel.result()["status"] == "CANCELLED"
    assert {watcher.status(i) for i in ids} == {"CANCELLED"}
    assert watcher.one("select count(*) from skiplane.lease") == 0


def test_cancel_follows_a_task_through_its_promotion(
    first: Engine, second: Engine, watcher: Engine
):
    task_id = watcher.submit(delay_seconds=0.001)
    with first.conn.transaction():
        first.skip(1)
        assert first.value("promote_tasks")[0] == 1
        cancel = Racer(second, "cancel_task", task_id=task_id).wait_for_lock(watcher)
    assert cancel.result()["status"] == "CANCELLED"
    assert watcher.places(task_id) == ["outcome"]
    assert watcher.claim().lease_id is None


def test_promotion_passes_by_what_is_being_cancelled(
    first: Engine, second: Engine, watcher: Engine
):
    doomed, other = (watcher.submit(delay_seconds=0.001) for _ in range(2))
    with first.conn.transaction():
        first.value("cancel_task", task_id=doomed)
        second.skip(1)
        assert second.value("promote_tasks")[0] == 1
    assert second.value("promote_tasks")[0] == 0
    assert (watcher.status(doomed), watcher.status(other)) == ("CANCELLED", "PENDING")


def test_second_of_two_retries_is_a_conflict(first: Engine, second: Engine, watcher: Engine):
    task_id = watcher.submit(max_retries=0)
    watcher.fail(watcher.claim())
    with first.conn.transaction():
        first.value("retry_task", task_id=task_id)
        with pytest.raises(psycopg.Error) as caught:
            second.value("cancel_task", task_id=task_id)
        assert caught.value.sqlstate == "SK003"
        other = Racer(second, "retry_task", task_id=task_id).wait_for_lock(watcher)
    with pytest.raises(psycopg.Error) as caught:
        other.result()
    assert caught.value.sqlstate == "SK003"
    assert watcher.places(task_id) == ["ready"]
    assert watcher.one("select count(*) from skiplane.dead") == 0


def test_two_retries_of_all_share_the_letters(first: Engine, second: Engine, watcher: Engine):
    watcher.many(6, max_retries=0)
    watcher.fail(watcher.claim(6))
    with first.conn.transaction():
        assert first.value("retry_dead_letters", limit=4) == 4
        assert second.value("retry_dead_letters", limit=4) == 2
    assert watcher.one("select count(*) from skiplane.ready") == 6

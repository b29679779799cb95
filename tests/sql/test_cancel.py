"""Cancelling: at once in every state, for good."""

import uuid

import pytest

from skiplane.tests.support import wait_until
from skiplane.tests.support.engine import Engine, refused


@pytest.mark.parametrize("delay", [0, 60, 86400 * 3000])
def test_waiting_task_is_cancelled_at_once(engine: Engine, delay: int):
    task_id = engine.submit(delay_seconds=delay)
    task = engine.value("cancel_task", task_id=task_id, reason="too late", actor="ann")
    assert task["status"] == "CANCELLED"
    assert (task["error_type"], task["error_message"]) == ("Cancelled", "too late")
    assert (task["attempt"], task["started_at"], task["attempts"]) == (0, None, [])
    [action] = task["actions"]
    assert (action["actor"], action["verb"]) == ("ann", "cancel")
    assert action["detail"] == {"reason": "too late"}
    assert engine.places(task_id) == ["outcome"]
    engine.skip(120)
    engine.value("promote_tasks")
    assert engine.claim(10).lease_id is None


def test_retrying_task_is_cancelled_with_its_history(engine: Engine):
    task_id = engine.submit()
    engine.fail(engine.claim(), error_message="first")
    task = engine.value("cancel_task", task_id=task_id)
    assert (task["status"], task["attempt"]) == ("CANCELLED", 1)
    assert [attempt["error_message"] for attempt in task["attempts"]] == ["first"]
    engine.skip(86400)
    assert engine.value("promote_tasks")[0] == 0


def test_running_task_loses_its_lease(engine: Engine):
    task_id = engine.submit()
    claim = engine.claim()
    task = engine.value("cancel_task", task_id=task_id)
    assert task["status"] == "CANCELLED"
    assert task["worker_id"] == str(claim.worker)
    assert [attempt["outcome"] for attempt in task["attempts"]] == ["cancelled"]
    assert engine.finish(claim, {task_id: "done"}) == [task_id]
    assert engine.fail(claim) == [task_id]
    lost, _, _ = engine.value(
        "heartbeat", worker_id=claim.worker, lease_ids=[claim.lease_id], held=[task_id]
    )
    assert lost == [task_id]
    assert engine.status(task_id) == "CANCELLED"


def test_others_of_the_batch_go_on(engine: Engine):
    ids = engine.many(3)
    claim = engine.claim(3)
    engine.value("cancel_task", task_id=ids[1])
    assert engine.finish(claim, dict.fromkeys(ids, 1)) == [ids[1]]
    assert [engine.status(i) for i in ids] == ["SUCCEEDED", "CANCELLED", "SUCCEEDED"]
    assert engine.one("select count(*) from skiplane.lease") == 0


def test_worker_is_told_by_a_notification(live: Engine):
    task_id = live.submit()
    claim = live.claim()
    channel = live.one("select skiplane.worker_channel(%s)", [claim.worker])
    live.conn.execute(f"listen {channel}".encode())
    live.value("cancel_task", task_id=task_id)
    [notice] = wait_until(lambda: list(live.conn.notifies(timeout=0.1)))
    assert (notice.channel, notice.payload) == (channel, str(task_id))


@pytest.mark.parametrize("end", ["SUCCEEDED", "FAILED", "DEAD", "CANCELLED"])
def test_ended_task_is_a_conflict(engine: Engine, end: str):
    task_id = engine.submit(max_retries=0)
    if end == "CANCELLED":
        engine.value("cancel_task", task_id=task_id, reason="first")
    elif end == "SUCCEEDED":
        engine.finish(engine.claim())
    else:
        engine.fail(engine.claim(), "permanent" if end == "FAILED" else "error")
    with refused(engine.conn, "SK003", "task_id", str(task_id)) as caught:
        engine.value("cancel_task", task_id=task_id)
    assert end in str(caught.value)
    assert engine.status(task_id) == end


def test_cancelled_task_never_comes_back_by_itself(engine: Engine):
    ids = engine.many(4)
    engine.claim(2)
    for task_id in ids:
        engine.value("cancel_task", task_id=task_id)
    engine.skip(3600)
    engine.value("sweep_leases")
    engine.value("promote_tasks")
    engine.value("retry_dead_letters")
    engine.value("release_worker", worker_id=engine.worker)
    assert {engine.status(task_id) for task_id in ids} == {"CANCELLED"}
    assert engine.claim(10).lease_id is None


def test_actor_is_the_session_user_unless_given(engine: Engine):
    task_id = engine.submit()
    task = engine.value("cancel_task", task_id=task_id, reason="x" * 5000)
    assert task["actions"][0]["actor"] == engine.one("select session_user")
    assert len(task["error_message"]) < 1001
    with refused(engine.conn, "SK002", "task_id"):
        engine.value("cancel_task", task_id=uuid.uuid4())

"""Editing what waits: guarded by a version, checked as a submission is."""

import uuid
from typing import Any

import pytest

from skiplane.tests.support.engine import Engine, refused


def edit(engine: Engine, task_id: uuid.UUID, version: int = 1, **changes: Any) -> dict[str, Any]:
    """Edit and give the new document."""
    document = engine.value("edit_task", task_id=task_id, version=version, changes=changes)
    assert isinstance(document, dict)
    return document


def retrying(engine: Engine) -> uuid.UUID:
    """Make a task that waits for its second attempt."""
    task_id = engine.submit(retry_delay_seconds=600)
    engine.fail(engine.claim())
    return task_id


@pytest.mark.parametrize("state", ["SCHEDULED", "PENDING", "RETRYING"])
def test_every_field_can_be_changed_while_a_task_waits(engine: Engine, state: str):
    task_id = (
        retrying(engine)
        if state == "RETRYING"
        else engine.submit(delay_seconds=60 if state == "SCHEDULED" else None)
    )
    expires = engine.one("select skiplane._utc_text(skiplane.clock() + interval '1 day')")
    changes: dict[str, Any] = {
        "priority": "high",
        "payload": {"new": [1, None]},
        "queue": "other",
        "max_retries": 9,
        "retry_backoff": "fixed",
        "retry_delay_seconds": 2.5,
        "retry_max_delay_seconds": 9,
        "retry_jitter": "none",
        "timeout_seconds": 7,
        "estimated_duration_seconds": 1.5,
        "concurrency_key": "c",
        "expires_at": expires,
        "callback_url": "https://example.com",
    }
    task = edit(engine, task_id, **changes)
    assert {name: task[name] for name in changes} == changes
    assert (task["status"], task["version"]) == (state, 2)
    assert [action["verb"] for action in task["actions"]] == ["edit"]
    engine.skip(700)
    engine.value("promote_tasks")
    assert engine.claim(5).lease_id is None
    claim = engine.claim(5, queues=["other"])
    assert [item["payload"] for item in claim.tasks] == [{"new": [1, None]}]
    assert claim.tasks[0]["timeout_seconds"] == 7


def test_fields_that_are_not_named_stay(engine: Engine):
    task_id = engine.submit(
        priority="low",
        max_retries=1,
        retry_backoff="linear",
        timeout_seconds=5,
        estimated_duration_seconds=2,
        concurrency_key="k",
        metadata={"tenant_id": "t"},
        idempotency_key="i",
        delay_seconds=100,
    )
    before = engine.get(task_id)
    after = edit(engine, task_id, max_retries=2)
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {"max_retries", "version", "actions"}


def test_null_takes_an_option_away(engine: Engine):
    task_id = engine.submit(timeout_seconds=5, concurrency_key="k", delay_seconds=50)
    task = edit(engine, task_id, timeout_seconds=None, concurrency_key=None, queue=None)
    assert (task["timeout_seconds"], task["concurrency_key"], task["queue"]) == (
        None,
        None,
        "default",
    )


def test_edit_of_another_version_is_stale(engine: Engine):
    task_id = engine.submit()
    edit(engine, task_id, priority="high")
    for version in (1, 3, 0):
        with refused(engine.conn, "SK005", "version", str(version)):
            edit(engine, task_id, version, priority="low")
    with refused(engine.conn, "SK005", "version", "null"):
        engine.rows("edit_task", task_id=task_id, version=None, changes={"priority": "low"})
    assert engine.get(task_id)["priority"] == "high"
    assert edit(engine, task_id, 2, priority="low")["version"] == 3


@pytest.mark.parametrize("state", ["RUNNING", "SUCCEEDED", "FAILED", "DEAD", "CANCELLED"])
def test_started_or_ended_task_is_a_conflict(engine: Engine, state: str):
    task_id = engine.submit(max_retries=0)
    claim = engine.claim()
    if state == "SUCCEEDED":
        engine.finish(claim)
    elif state == "CANCELLED":
        engine.value("cancel_task", task_id=task_id)
    elif state != "RUNNING":
        engine.fail(claim, "permanent" if state == "FAILED" else "error")
    with refused(engine.conn, "SK003", "task_id", str(task_id)) as caught:
        edit(engine, task_id, priority="high")
    assert state in str(caught.value)


def test_unknown_task_is_not_found(engine: Engine):
    with refused(engine.conn, "SK002", "task_id"):
        edit(engine, uuid.uuid4(), priority="high")


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({}, "changes"),
        ({"task_type": "other"}, "task_type"),
        ({"metadata": {}}, "metadata"),
        ({"idempotency_key": "k"}, "idempotency_key"),
        ({"status": "PENDING"}, "status"),
        ({"priority": "urgent"}, "priority"),
        ({"priority": 5}, "priority"),
        ({"queue": ""}, "queue"),
        ({"max_retries": -1}, "max_retries"),
        ({"max_retries": 1.5}, "max_retries"),
        ({"timeout_seconds": 0}, "timeout_seconds"),
        ({"scheduled_at": "2030-01-01T00:00:00"}, "scheduled_at"),
        ({"scheduled_at": "2030-01-01T00:00:00Z", "delay_seconds": 1}, None),
        ({"delay_seconds": -1}, "delay_seconds"),
        ({"expires_at": "2001-01-01T00:00:00Z"}, "expires_at"),
        ({"callback_url": "javascript:alert(1)"}, "callback_url"),
    ],
)
def test_bad_changes_are_refused_and_change_nothing(
    engine: Engine, changes: dict[str, Any], field: str | None
):
    task_id = engine.submit()
    before = engine.get(task_id)
    with refused(engine.conn, "SK001", field):
        edit(engine, task_id, **changes)
    assert engine.get(task_id) == before
    assert engine.claim().ids == [task_id]


def test_changes_must_be_an_object(engine: Engine):
    task_id = engine.submit()
    for changes in ("[]", "null", "5", None):
        with refused(engine.conn, "SK001", "changes"):
            engine.rows("edit_task", task_id=task_id, version=1, changes=changes)


def test_payload_too_large_is_refused(engine: Engine):
    with refused(engine.conn, "SK007", "payload"):
        edit(engine, engine.submit(), payload="x" * 1048577)


def test_pending_task_can_be_put_off_and_brought_back(engine: Engine):
    task_id = engine.submit(idempotency_key="k", payload={"a": 1})
    task = edit(engine, task_id, delay_seconds=60)
    assert (task["status"], task["payload"]) == ("SCHEDULED", {"a": 1})
    assert engine.places(task_id) == ["timer"]
    assert engine.one("select count(*) from skiplane.task") == 0
    assert engine.claim().lease_id is None
    task = edit(engine, task_id, 2, scheduled_at=None)
    assert task["status"] == "PENDING"
    assert engine.claim().ids == [task_id]


def test_scheduled_task_can_be_moved_far_and_near(engine: Engine):
    task_id = engine.submit(delay_seconds=60)
    edit(engine, task_id, delay_seconds=86400 * 3000)
    assert engine.places(task_id) == ["timer_far"]
    edit(engine, task_id, 2, delay_seconds=5)
    assert engine.places(task_id) == ["timer"]
    engine.skip(5)
    assert engine.value("promote_tasks")[0] == 1
    assert engine.get(task_id)["version"] == 3


def test_retrying_task_keeps_its_attempts_when_moved(engine: Engine):
    task_id = retrying(engine)
    task = edit(engine, task_id, delay_seconds=60)
    assert (task["status"], task["attempt"], len(task["attempts"])) == ("RETRYING", 1, 1)
    task = edit(engine, task_id, 2, delay_seconds=0)
    assert (task["status"], task["attempt"]) == ("PENDING", 1)
    [claimed] = engine.claim().tasks
    assert (claimed["attempt"], claimed["fence"]) == (2, 2)


def test_task_that_had_run_waits_as_retrying_when_put_off(engine: Engine):
    task_id = engine.submit()
    engine.fail(engine.claim(), "release")
    task = edit(engine, task_id, delay_seconds=60)
    assert (task["status"], task["attempt"]) == ("RETRYING", 0)
    engine.skip(60)
    engine.value("promote_tasks")
    assert engine.claim().tasks[0]["fence"] == 2


def test_edited_task_keeps_its_place_in_its_lane(engine: Engine):
    ids = engine.many(3)
    edit(engine, ids[1], payload={"n": 9})
    assert engine.claim(3).ids == ids


def test_edited_task_goes_to_the_end_of_another_lane(engine: Engine):
    first = engine.submit(queue="a")
    engine.skip(1)
    others = engine.many(2, queue="b")
    engine.skip(1)
    edit(engine, first, queue="b")
    assert engine.claim(3, queues=["b"]).ids == [*others, first]


def test_shorter_estimate_never_hides_a_task_below_the_mark(live: Engine):
    """The mark may be at the very place of the task: a shorter estimate would sort before it."""
    task_id = live.submit()
    live.one("select skiplane.refresh_lanes(null)")
    live.one("select skiplane.refresh_lanes('{}')")
    assert live.one("select id from skiplane.lane_mark") == task_id
    edit(live, task_id, estimated_duration_seconds=1)
    assert live.claim().ids == [task_id]

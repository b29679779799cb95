"""Manual retries and the dead letter queue: a fresh budget, the same history."""

import uuid
from typing import Any

import pytest

from skiplane.tests.support.engine import Engine, refused


def end(engine: Engine, status: str, **options: Any) -> uuid.UUID:
    """Make a task that ended."""
    task_id = engine.submit(max_retries=0, **options)
    claim = engine.claim(queues=[str(options.get("queue", "default"))])
    if status == "CANCELLED":
        engine.value("cancel_task", task_id=task_id)
    else:
        kind = "permanent" if status == "FAILED" else "error"
        engine.fail(claim, kind, error_type="Oops", error_message="no luck")
    assert engine.status(task_id) == status
    return task_id


def kill(engine: Engine, task_type: str = "work", **options: Any) -> uuid.UUID:
    """Make a dead letter."""
    return end(engine, "DEAD", task_type=task_type, **options)


def forget_history(engine: Engine) -> None:
    """Drop all history, as retention does."""
    for table in ("task", "outcome", "attempt"):
        engine.conn.execute(f"delete from skiplane.{table}".encode())


def letters(engine: Engine, **filters: Any) -> list[uuid.UUID]:
    return [uuid.UUID(row[0]["task_id"]) for row in engine.rows("list_dead_letters", **filters)]


@pytest.mark.parametrize("status", ["FAILED", "DEAD", "CANCELLED"])
def test_ended_task_runs_again_with_a_fresh_budget(engine: Engine, status: str):
    task_id = end(engine, status)
    task = engine.value("retry_task", task_id=task_id, reason="fixed", actor="ann")
    assert (task["status"], task["attempt"], len(task["attempts"])) == ("PENDING", 0, 1)
    assert task["actions"][-1]["actor"] == "ann"
    assert task["actions"][-1]["detail"]["from"] == status
    assert letters(engine) == []
    [claimed] = engine.claim().tasks
    assert (claimed["attempt"], claimed["fence"]) == (1, 2)


@pytest.mark.parametrize("state", ["PENDING", "SCHEDULED", "RETRYING", "RUNNING", "SUCCEEDED"])
def test_task_in_any_other_state_is_a_conflict(engine: Engine, state: str):
    task_id = engine.submit(delay_seconds=60 if state == "SCHEDULED" else None)
    if state not in ("PENDING", "SCHEDULED"):
        claim = engine.claim()
        if state == "RETRYING":
            engine.fail(claim)
        elif state == "SUCCEEDED":
            engine.finish(claim)
    for verb in ("retry_task", "retry_dead_letter", "discard_dead_letter"):
        with refused(engine.conn, "SK003", "task_id", str(task_id)):
            engine.value(verb, task_id=task_id)
    assert engine.status(task_id) == state


def test_passed_expiry_is_lifted(engine: Engine):
    soon = engine.one("select skiplane.clock() + interval '5 seconds'")
    task_id = engine.submit(expires_at=soon)
    engine.skip(5)
    assert engine.value("expire_tasks") == 1
    task = engine.value("retry_task", task_id=task_id)
    assert task["expires_at"] is None
    assert engine.claim().ids == [task_id]


def test_dead_letter_shows_what_is_needed_to_judge_it(engine: Engine):
    task_id = kill(engine, payload={"to": "a"}, metadata={"tenant_id": "t"}, queue="q")
    [[letter]] = engine.rows("list_dead_letters")
    assert letter["died_at"] >= letter["created_at"]
    assert {key: letter[key] for key in ("task_id", "queue", "tenant_id", "error_message")} == {
        "task_id": str(task_id),
        "queue": "q",
        "tenant_id": "t",
        "error_message": "no luck",
    }
    assert letter["payload"] == {"to": "a"}
    row = engine.one("select task_id, error_type, payload from skiplane.dead_letter_queue")
    assert row == (task_id, "Oops", {"to": "a"})


def test_only_used_up_retries_make_dead_letters(engine: Engine):
    end(engine, "FAILED")
    end(engine, "CANCELLED")
    assert letters(engine) == []


def test_dead_letters_are_filtered_and_paged(engine: Engine):
    made = [
        kill(engine, task_type, queue=queue, metadata={"tenant_id": tenant})
        for task_type in ("a", "b")
        for queue in ("q", "r")
        for tenant in ("t", "u")
    ]
    made.sort(reverse=True)
    assert letters(engine, limit=3) == made[:3]
    assert letters(engine, limit=5, cursor=str(made[2])) == made[3:]
    assert len(letters(engine, task_type="a")) == 4
    assert len(letters(engine, task_type="a", queue="q")) == 2
    assert len(letters(engine, task_type="a", queue="q", tenant_id="u")) == 1


def test_one_dead_letter_is_retried(engine: Engine):
    first, second = kill(engine), kill(engine)
    task = engine.value("retry_dead_letter", task_id=first, reason="again", actor="bob")
    assert task["status"] == "PENDING"
    assert letters(engine) == [second]
    with refused(engine.conn, "SK003", "task_id"):
        engine.value("retry_dead_letter", task_id=first)


def test_all_of_a_filter_are_retried_in_batches(engine: Engine):
    kept = kill(engine, "other")
    made = [kill(engine) for _ in range(5)]
    counts = []
    while count := engine.value("retry_dead_letters", task_type="work", limit=2, actor="ann"):
        counts.append(count)
    assert counts == [2, 2, 1]
    assert letters(engine) == [kept]
    assert set(engine.claim(10).ids) == set(made)
    assert {engine.get(i)["actions"][0]["actor"] for i in made} == {"ann"}
    for limit in (0, 10001):
        with refused(engine.conn, "SK001", "limit"):
            engine.value("retry_dead_letters", limit=limit)


def test_discarded_letter_leaves_a_dead_task(engine: Engine):
    task_id = kill(engine)
    document = engine.value("discard_dead_letter", task_id=task_id, reason="spam", actor="ann")
    assert document["status"] == "DEAD"
    assert letters(engine) == []
    assert engine.get(task_id)["actions"][0]["verb"] == "discard"
    with refused(engine.conn, "SK003", "task_id"):
        engine.value("discard_dead_letter", task_id=task_id)
    assert engine.value("retry_dead_letters") == 0


def test_dead_letter_outlives_the_history(engine: Engine):
    payload = {"text": 'é "quoted" \\ 🚀', "n": [1.5, None]}
    task_id = kill(
        engine, payload=payload, priority="high", timeout_seconds=4, metadata={"tenant_id": "t"}
    )
    forget_history(engine)
    [[letter]] = engine.rows("list_dead_letters")
    assert letter["payload"] == payload
    task = engine.value("retry_dead_letter", task_id=task_id)
    assert (task["status"], task["priority"], task["tenant_id"]) == ("PENDING", "high", "t")
    assert task["actions"][-1]["detail"]["from"] == "DEAD"
    [claimed] = engine.claim().tasks
    assert claimed["payload"] == payload
    assert claimed["timeout_seconds"] == 4
    # The number of claims goes on: the worker of the first claim must never look like the second.
    assert (claimed["attempt"], claimed["fence"]) == (1, 2)


def test_dead_letter_without_history_can_be_discarded(engine: Engine):
    task_id = kill(engine)
    forget_history(engine)
    document = engine.value("discard_dead_letter", task_id=task_id)
    assert (document["task_id"], document["status"]) == (str(task_id), "DEAD")
    for verb in ("retry_dead_letter", "discard_dead_letter", "retry_task"):
        with refused(engine.conn, "SK002", "task_id"):
            engine.value(verb, task_id=task_id)


def test_retried_letter_can_die_again(engine: Engine):
    task_id = kill(engine)
    for _ in range(2):
        engine.value("retry_dead_letter", task_id=task_id)
        engine.fail(engine.claim())
    task = engine.get(task_id)
    assert [a["fence"] for a in task["attempts"]] == [1, 2, 3]
    assert [a["attempt"] for a in task["attempts"]] == [1, 1, 1]
    assert letters(engine) == [task_id]

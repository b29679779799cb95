"""Finishing: every kind of end, whatever a worker sends, and only by the holder of the lease."""

import json
import uuid
from typing import Any

import pytest

from skiplane.tests.support.engine import Claim, Engine


@pytest.mark.parametrize("result", [None, {}, [], 0, "text", {"deep": [[[1.5]]]}, "é 🚀 \\u0000"])
def test_success_stores_its_result(engine: Engine, result: Any):
    task_id = engine.submit()
    assert engine.finish(engine.claim(), {task_id: result}) == []
    task = engine.get(task_id)
    assert (task["status"], task["result"], task["attempt"]) == ("SUCCEEDED", result, 1)
    assert task["worker_id"] == str(engine.worker)
    assert engine.places(task_id) == ["outcome"]
    assert engine.one("select count(*) from skiplane.attempt") == 0
    assert engine.one("select count(*) from skiplane.lease") == 0


def test_times_are_told_as_ages_by_the_worker(engine: Engine):
    task_id = engine.submit()
    engine.one("select set_config('skiplane.now', skiplane.clock()::text, true)")
    claim = engine.claim()
    engine.skip(10)
    engine.finish(claim, {task_id: 1}, started_us=[4_000_000], took_us=[1_500_000])
    task = engine.get(task_id)
    assert task["duration_ms"] == 1500
    ages = engine.one(
        "select extract(epoch from skiplane.clock() - started_at)::int,"
        " extract(epoch from skiplane.clock() - finished_at)::numeric from skiplane.outcome"
    )
    assert (ages[0], float(ages[1])) == (4, 2.5)


@pytest.mark.parametrize(
    ("started", "took"), [(10**9, 10**9), (-(10**6), -(10**6)), (0, 2147483647)]
)
def test_impossible_times_are_pressed_between_claim_and_finish(
    engine: Engine, started: int, took: int
):
    task_id = engine.submit()
    claim = engine.claim()
    engine.skip(3)
    engine.finish(claim, {task_id: 1}, started_us=[started], took_us=[took])
    task = engine.get(task_id)
    assert task["status"] == "SUCCEEDED"
    assert task["created_at"] <= task["started_at"]
    assert task["completed_at"] <= engine.one("select skiplane._utc_text(skiplane.clock())")
    assert took < 0 or task["started_at"] <= task["completed_at"]


def test_error_waits_by_the_rules_of_its_task(engine: Engine):
    task_id = engine.submit(retry_backoff="fixed", retry_delay_seconds=7, retry_jitter="none")
    engine.one("select set_config('skiplane.now', skiplane.clock()::text, true)")
    claim = engine.claim()
    stale = engine.fail(
        claim, error_type="ValueError", error_message="bad", error_detail="Traceback"
    )
    assert stale == []
    task = engine.get(task_id)
    assert (task["status"], task["attempt"], task["error_message"]) == ("RETRYING", 1, None)
    [attempt] = task["attempts"]
    assert {k: attempt[k] for k in ("outcome", "error_type", "error_message", "error_detail")} == {
        "outcome": "error",
        "error_type": "ValueError",
        "error_message": "bad",
        "error_detail": "Traceback",
    }
    assert attempt["retry_at"] == task["next_attempt_at"]
    assert engine.one("select (due_at - skiplane.clock())::text from skiplane.timer") == "00:00:07"


@pytest.mark.parametrize("kind", ["error", "timeout", "lost"])
def test_used_up_retries_end_dead(engine: Engine, kind: str):
    task_id = engine.submit(max_retries=2, retry_delay_seconds=0)
    for number in (1, 2, 3):
        [task] = engine.claim().tasks
        assert task["attempt"] == number
        engine.finish(
            Claim(engine.worker, last_lease(engine), [task], None),
            failures=[failure(task_id, kind)],
        )
    task = engine.get(task_id)
    assert (task["status"], task["attempt"], len(task["attempts"])) == ("DEAD", 3, 3)
    assert {attempt["outcome"] for attempt in task["attempts"]} == {kind}
    assert task["attempts"][-1]["retry_at"] is None
    assert engine.one("select count(*) from skiplane.dead") == 1
    assert engine.claim().lease_id is None


def last_lease(engine: Engine) -> int:
    return int(engine.one("select max(lease_id) from skiplane.lease"))


def failure(task_id: uuid.UUID, kind: str, **fields: Any) -> dict[str, Any]:
    return {"task_id": task_id, "kind": kind, "error_type": "Oops", **fields}


def test_permanent_error_fails_at_once(engine: Engine):
    task_id = engine.submit(max_retries=5)
    engine.fail(engine.claim(), "permanent", error_type="BadInput", error_message="never")
    task = engine.get(task_id)
    assert (task["status"], task["error_type"], task["error_message"]) == (
        "FAILED",
        "BadInput",
        "never",
    )
    assert engine.one("select count(*) from skiplane.dead") == 0


def test_released_task_is_not_charged(engine: Engine):
    task_id = engine.submit(max_retries=0)
    for fence in (1, 2, 3):
        claim = engine.claim()
        assert claim.tasks[0]["attempt"] == 1
        assert claim.tasks[0]["fence"] == fence
        engine.fail(claim, "release")
    task = engine.get(task_id)
    assert (task["status"], task["attempt"], task["attempts"]) == ("PENDING", 0, [])


@pytest.mark.parametrize(
    ("delay", "wait"), [(5, 5), (0, 0), (None, 0), (-5, 0), ("soon", 0), (1e300, 31536000)]
)
def test_postponed_task_waits_uncharged(engine: Engine, delay: Any, wait: int):
    task_id = engine.submit(max_retries=0)
    engine.fail(engine.claim(), "postpone", delay_seconds=delay)
    task = engine.get(task_id)
    assert (task["status"], task["attempt"]) == ("RETRYING" if wait else "PENDING", 0)
    engine.skip(wait)
    engine.value("promote_tasks")
    assert engine.places(task_id) == ["ready"] if wait < 86400 * 300 else ["timer_far"]


@pytest.mark.parametrize(
    ("after", "least"),
    [(60, 60), (1, 5), (None, 5), ("x", 5), (-1, 5), (True, 5), (1e300, 31536000)],
)
def test_retry_never_comes_before_what_the_task_asked_for(engine: Engine, after: Any, least: int):
    engine.submit(retry_jitter="none")
    engine.one("select set_config('skiplane.now', skiplane.clock()::text, true)")
    engine.fail(engine.claim(), retry_after_seconds=after)
    waits = "select extract(epoch from due_at - skiplane.clock())::int from skiplane."
    rows = engine.conn.execute(f"{waits}timer union all {waits}timer_far".encode()).fetchall()
    assert rows == [(least,)]


def test_parts_of_a_lease_end_one_after_the_other(engine: Engine):
    ids = engine.many(5)
    claim = engine.claim(5)
    assert engine.finish(claim, {ids[3]: 3}) == []
    assert engine.finish(claim, {ids[0]: 0}, [failure(ids[1], "error")]) == []
    held = engine.one("select ids, cardinality(days), cardinality(started) from skiplane.lease")
    assert held == ([ids[2], ids[4]], 2, 2)
    assert engine.finish(claim, {ids[4]: 4, ids[2]: 2}) == []
    assert engine.one("select count(*) from skiplane.lease") == 0
    assert [engine.get(i)["result"] for i in ids] == [0, None, 2, 3, 4]


def test_finish_twice_is_stale_the_second_time(engine: Engine):
    ids = engine.many(2)
    claim = engine.claim(2)
    assert engine.finish(claim, {ids[0]: 1}) == []
    assert engine.finish(claim, {ids[0]: 2, ids[1]: 2}) == [ids[0]]
    assert engine.finish(claim, {ids[1]: 3}) == [ids[1]]
    assert engine.fail(claim, "permanent") == ids
    assert [engine.get(i)["result"] for i in ids] == [1, 2]


def test_nobody_finishes_the_lease_of_another_worker(engine: Engine):
    task_id = engine.submit()
    claim = engine.claim()
    for wrong in (
        Claim(uuid.uuid4(), claim.lease_id, claim.tasks, None),
        Claim(claim.worker, 0, claim.tasks, None),
    ):
        assert engine.finish(wrong, {task_id: "stolen"}) == [task_id]
        assert engine.fail(wrong, "permanent") == [task_id]
    stranger = engine.submit()
    assert engine.finish(claim, {stranger: 1}) == [stranger]
    assert (engine.status(task_id), engine.status(stranger)) == ("RUNNING", "PENDING")


def test_stale_lease_cannot_finish_what_runs_again(engine: Engine):
    """The same worker process may even get its own lost task a second time."""
    task_id = engine.submit()
    first = engine.claim()
    engine.skip(11)
    assert engine.value("sweep_leases")[0] == 1
    second = engine.claim()
    assert engine.finish(first, {task_id: "old"}) == [task_id]
    assert engine.finish(second, {task_id: "new"}) == []
    assert engine.fail(first) == [task_id]
    assert engine.get(task_id)["result"] == "new"


def test_finish_and_claim_is_one_call(engine: Engine):
    ids = engine.many(3)
    common: dict[str, Any] = {
        "worker_id": engine.worker,
        "results": [],
        "started_us": [],
        "took_us": [],
        "failures": None,
        "queues": ["default"],
        "limit": 1,
    }
    stale, lease, tasks, cursor = engine.value(
        "finish_and_claim", lease_id=None, task_ids=[], **common
    )
    assert (stale, json.loads(tasks)[0]["task_id"]) == ([], str(ids[0]))
    given = {**common, "results": ["1", "2"], "started_us": [5, 5], "took_us": [1, 1]}
    stale, lease, tasks, _ = engine.value(
        "finish_and_claim",
        lease_id=lease,
        task_ids=[ids[0], ids[2]],
        cursor=cursor,
        **given,
    )
    assert (stale, json.loads(tasks)[0]["task_id"]) == ([ids[2]], str(ids[1]))
    assert engine.status(ids[0]) == "SUCCEEDED"


def test_task_whose_row_is_gone_fails_with_that_reason(engine: Engine):
    task_id = engine.submit()
    claim = engine.claim()
    engine.conn.execute("delete from skiplane.task")
    assert engine.fail(claim) == []
    row = engine.one(
        "select status::text, error_type from skiplane.outcome where id = %s", [task_id]
    )
    assert row == ("FAILED", "TaskMissing")

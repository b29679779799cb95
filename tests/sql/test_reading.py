"""Reading one task, lists with pages, results."""

import uuid
from typing import Any

import pytest

from skiplane.tests.support.engine import Engine, refused

FIELDS = (
    "task_id task_type queue priority status payload result error_type error_message scheduled_at"
    " created_at started_at completed_at next_attempt_at attempt max_retries retry_backoff"
    " retry_delay_seconds retry_max_delay_seconds retry_jitter timeout_seconds idempotency_key"
    " estimated_duration_seconds concurrency_key expires_at callback_url metadata tenant_id"
    " workflow_id task_name worker_id lease_expiry version duration_ms"
)
DOCUMENT = set(FIELDS.split())
ENDED = ("SUCCEEDED", "FAILED", "DEAD", "CANCELLED")


def ids_of(rows: list[tuple[Any, ...]]) -> list[uuid.UUID]:
    return [uuid.UUID(row[0]["task_id"]) for row in rows]


def pages(engine: Engine, size: int, **filters: Any) -> list[uuid.UUID]:
    """Walk a list from page to page and give all ids."""
    found: list[uuid.UUID] = []
    cursor = None
    while rows := engine.rows("list_tasks", limit=size, cursor=cursor, **filters):
        found += ids_of(rows)
        cursor = rows[-1][0]["cursor"]
    return found


def one_in_each_state(engine: Engine) -> dict[str, uuid.UUID]:
    """Make a task in each state that a task without a workflow can have."""
    made = {}
    for status in ("SUCCEEDED", "FAILED", "DEAD", "RETRYING", "RUNNING"):
        made[status] = engine.submit(max_retries=0 if status == "DEAD" else 3)
        claim = engine.claim()
        if status == "SUCCEEDED":
            engine.finish(claim, {made[status]: {"sum": 3}})
        elif status != "RUNNING":
            engine.fail(claim, "permanent" if status == "FAILED" else "error", error_type="Oops")
    made["CANCELLED"] = engine.submit()
    engine.value("cancel_task", task_id=made["CANCELLED"])
    made["SCHEDULED"] = engine.submit(delay_seconds=60)
    made["PENDING"] = engine.submit()
    return made


def test_document_is_the_same_in_every_state(engine: Engine):
    for status, task_id in one_in_each_state(engine).items():
        task = engine.get(task_id)
        assert set(task) == DOCUMENT | {"attempts", "actions", "checkpoint", "progress"}
        assert (task["status"], task["task_id"]) == (status, str(task_id))
        assert (task["completed_at"] is None) == (status not in ENDED)
        assert (task["next_attempt_at"] is None) == (status not in ("SCHEDULED", "RETRYING"))
        assert (task["lease_expiry"] is None) == (status != "RUNNING")
        assert len(task["attempts"]) == (status in ("SUCCEEDED", "FAILED", "DEAD", "RETRYING"))


def test_unknown_task_is_not_found(engine: Engine):
    unknown = uuid.uuid4()
    for verb in ("get_task", "get_result", "cancel_task", "retry_task"):
        with refused(engine.conn, "SK002", "task_id", str(unknown)):
            engine.rows(verb, task_id=unknown)
    with refused(engine.conn, "SK002", "task_id"):
        engine.rows("get_task", task_id=None)


def test_view_agrees_with_the_documents(engine: Engine):
    made = one_in_each_state(engine)
    rows = engine.conn.execute(
        "select task_id, status, attempt, payload::jsonb, error_message, worker_id, completed_at"
        " is not null from skiplane.tasks"
    ).fetchall()
    assert len(rows) == len(made)
    for task_id, status, attempt, payload, message, worker, ended in rows:
        task = engine.get(task_id)
        assert made[status] == task_id
        assert task["status"] == status
        assert (task["attempt"], task["payload"], task["error_message"]) == (
            attempt,
            payload,
            message,
        )
        assert task["worker_id"] == (worker and str(worker))
        assert (task["completed_at"] is not None) == ended


def test_views_of_queues_and_workers_and_dead_letters(engine: Engine):
    engine.many(3, queue="q", priority="high")
    engine.submit(queue="q", priority="low")
    engine.value("register_worker", worker_id=engine.worker, name="w", queues=["q"])
    engine.claim(1, queues=["q"])
    assert engine.value("refresh_depth") >= 1
    queues = engine.conn.execute(
        "select queue, priority, depth, oldest_waiting is not null from skiplane.queues"
        " order by priority desc"
    ).fetchall()
    assert queues == [("q", 10, 2, True), ("q", 0, 1, True)]
    assert engine.one("select name, status, holding from skiplane.workers") == ("w", "RUNNING", 1)
    engine.skip(21)
    assert engine.one("select status from skiplane.workers") == "LOST"


@pytest.mark.parametrize("size", [7, 1, 1000])
def test_pages_neither_lose_nor_repeat_rows_of_one_instant(engine: Engine, size: int):
    ids = engine.many(1000 if size > 1 else 40)
    assert pages(engine, size) == sorted(ids, reverse=True)


def test_pages_hold_while_tasks_come_and_go(engine: Engine):
    ids = engine.many(60)
    rows = engine.rows("list_tasks", limit=20)
    seen = ids_of(rows)
    engine.many(10)
    claim = engine.claim(30)
    engine.finish(claim)
    while rows:
        rows = engine.rows("list_tasks", limit=20, cursor=rows[-1][0]["cursor"])
        seen += ids_of(rows)
    assert seen == sorted(ids, reverse=True)


def test_each_state_can_be_listed(engine: Engine):
    made = one_in_each_state(engine)
    for status, task_id in made.items():
        assert ids_of(engine.rows("list_tasks", status=[status])) == [task_id]
    assert set(pages(engine, 3)) == set(made.values())
    some = ["SCHEDULED", "DEAD", "SUCCEEDED", "DEAD"]
    expected = sorted({made[status] for status in some}, reverse=True)
    assert pages(engine, 1, status=some) == expected
    assert engine.rows("list_tasks", status=["BLOCKED"]) == []


def test_filters_are_joined_by_and(engine: Engine):
    for queue in ("a", "b"):
        for tenant in ("t", "u"):
            for task_type in ("x", "y"):
                for delay in (0, 60):
                    engine.submit(
                        task_type,
                        queue=queue,
                        metadata={"tenant_id": tenant},
                        delay_seconds=delay,
                    )
    assert len(pages(engine, 3)) == 16
    assert len(pages(engine, 3, queue="a")) == 8
    assert len(pages(engine, 1, queue="a", tenant_id="u")) == 4
    assert len(pages(engine, 5, queue="a", tenant_id="u", task_type="x")) == 2
    [row] = engine.rows("list_tasks", status=["SCHEDULED"], queue="a", tenant_id="u", task_type="x")
    assert row[0]["status"] == "SCHEDULED"
    assert engine.rows("list_tasks", tenant_id="nobody") == []


def test_time_bounds_are_those_of_submission(engine: Engine):
    first = engine.submit()
    engine.skip(10)
    second = engine.submit(delay_seconds=60)
    engine.skip(10)
    between = engine.one("select skiplane.clock() - interval '15 seconds'")
    assert pages(engine, 10, created_before=between) == [first]
    assert pages(engine, 10, created_after=between) == [second]
    assert pages(engine, 10, created_after="-infinity", created_before="infinity") == [
        second,
        first,
    ]
    assert pages(engine, 10, created_after="infinity") == []
    assert pages(engine, 10, created_before="290000-01-01 00:00+00") == [second, first]


@pytest.mark.parametrize("limit", [0, -1, 1001, 1_000_000_000])
def test_limit_out_of_range_is_refused(engine: Engine, limit: int):
    for verb in ("list_tasks", "list_dead_letters"):
        with refused(engine.conn, "SK001", "limit", str(limit)):
            engine.rows(verb, limit=limit)


@pytest.mark.parametrize("cursor", ["abc", "", "1", "'; drop"])
def test_foreign_cursor_is_refused(engine: Engine, cursor: str):
    for verb in ("list_tasks", "list_dead_letters"):
        with refused(engine.conn, "SK001", "cursor", cursor):
            engine.rows(verb, cursor=cursor)


def test_unknown_status_is_refused(engine: Engine):
    with refused(engine.conn, "SK001", "status", "DONE"):
        engine.rows("list_tasks", status=["PENDING", "DONE"])


def test_listed_document_has_no_attempts_but_a_cursor(engine: Engine):
    engine.submit()
    [[document]] = engine.rows("list_tasks")
    assert set(document) == DOCUMENT | {"cursor"}


def test_results_come_for_known_ids_only(engine: Engine):
    made = one_in_each_state(engine)
    asked = [*made.values(), uuid.uuid4()]
    rows = {row[0]: row[1:] for row in engine.rows("get_results", task_ids=asked)}
    assert len(rows) == len(made)
    for status, task_id in made.items():
        assert rows[task_id][:2] == (status, status in ENDED)
        assert engine.rows("get_result", task_id=task_id) == [(task_id, *rows[task_id])]
    assert rows[made["SUCCEEDED"]][2] == {"sum": 3}
    assert rows[made["FAILED"]][2:] == (None, "Oops", None)
    assert engine.rows("get_results", task_ids=[]) == []


def test_result_null_is_told_from_no_result(engine: Engine):
    task_id = engine.submit()
    engine.finish(engine.claim(), {task_id: None})
    assert engine.value("get_result", task_id=task_id)[1:3] == ("SUCCEEDED", True)
    assert engine.one("select result is not null from skiplane.outcome") is True


def test_results_are_found_on_later_days(engine: Engine):
    """A task that became active on another day than that of its id."""
    task_id = engine.submit(delay_seconds=86400)
    engine.skip(86401)
    assert engine.value("promote_tasks")[0] == 1
    engine.finish(engine.claim(), {task_id: 1})
    assert engine.get(task_id)["result"] == 1
    assert engine.value("get_result", task_id=task_id)[3] == 1

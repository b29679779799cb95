"""Idempotency keys: one submission per tenant, key and meaning."""

from typing import Any

import pytest
from psycopg.types.json import Jsonb

from skiplane.tests.support.engine import Engine, refused

BODY: dict[str, Any] = {"task_type": "work", "payload": {"a": 1, "b": [2]}}


def submit(engine: Engine, **options: Any) -> tuple[Any, ...]:
    """Submit BODY with other options through submit_tasks; give the answer's row."""
    [row] = engine.rows("submit_tasks", tasks=Jsonb([{**BODY, "idempotency_key": "k", **options}]))
    return row


def test_same_key_and_body_gives_the_first_task(engine: Engine):
    first = submit(engine)
    again = submit(engine)
    assert (first[5], again[5]) == (False, True)
    assert again[1:5] == first[1:5]
    assert engine.one("select count(*) from skiplane.task") == 1


def test_replay_shows_the_state_of_today(engine: Engine):
    task_id = submit(engine)[1]
    engine.finish(engine.claim())
    assert submit(engine)[1:3] == (task_id, "SUCCEEDED")


@pytest.mark.parametrize(
    "change",
    [
        {"payload": {"a": 2, "b": [2]}},
        {"payload": {"a": 1}},
        {"priority": "high"},
        {"task_type": "other"},
        {"queue": "other"},
        {"delay_seconds": 5},
        {"max_retries": 4},
        {"timeout_seconds": 1},
        {"retry_jitter": "none"},
        {"concurrency_key": "c"},
    ],
)
def test_same_key_with_another_body_is_refused(engine: Engine, change: dict[str, Any]):
    submit(engine)
    with refused(engine.conn, "SK004", "idempotency_key", "k"):
        submit(engine, **change)
    assert engine.one("select count(*) from skiplane.task") == 1


@pytest.mark.parametrize(
    "change",
    [
        {"payload": {"b": [2], "a": 1}},
        {"queue": "default"},
        {"max_retries": 3, "retry_backoff": "exponential", "priority": "medium"},
        {"timeout_seconds": None},
        {"metadata": {}},
        {"metadata": {"traceparent": "00-1-2-01", "correlation_id": "c"}},
    ],
)
def test_another_way_of_writing_the_same_is_a_replay(engine: Engine, change: dict[str, Any]):
    first = submit(engine)
    assert submit(engine, **change)[1] == first[1]


def test_every_door_sees_the_keys_of_the_others(engine: Engine):
    first = submit(engine)[1]
    payload = Jsonb(BODY["payload"])
    row = engine.value("submit_task", task_type="work", payload=payload, idempotency_key="k")
    assert (row[1], row[5]) == (first, True)
    texts = ['{"b": [2],   "a": 1}', "{}"]
    ids = engine.value(
        "submit_batch", task_type="work", payloads=texts, idempotency_keys=["k", None]
    )
    assert ids[0] == first
    assert ids[1] != first


def test_a_delay_is_compared_as_it_was_given(engine: Engine):
    first = submit(engine, delay_seconds=600)
    engine.skip(5)
    assert submit(engine, delay_seconds=600)[1] == first[1]


def test_tenants_have_keys_of_their_own(engine: Engine):
    ids = {
        submit(engine, metadata={"tenant_id": tenant} if tenant else None)[1]
        for tenant in (None, "a", "b")
    }
    assert len(ids) == 3


def test_repeated_key_in_one_list_gives_one_task(engine: Engine):
    tasks = [{**BODY, "idempotency_key": "k"}] * 3
    rows = engine.rows("submit_tasks", tasks=Jsonb(tasks))
    assert len({row[1] for row in rows}) == 1
    assert [row[5] for row in rows] == [False, True, True]
    ids = engine.many(1, idempotency_keys=["b"]) + engine.value(
        "submit_batch", task_type="work", payloads=['{"n": 0}'] * 2, idempotency_keys=["b", "b"]
    )
    assert len(set(ids)) == 1


def test_clash_in_a_list_stores_nothing(engine: Engine):
    with refused(engine.conn, "SK004", "idempotency_key", "k"):
        engine.value(
            "submit_batch",
            task_type="a",
            payloads=["1", "2", "3"],
            idempotency_keys=["x", "k", "k"],
        )
    assert engine.one("select count(*) from skiplane.idempotency") == 0


def test_key_outlives_the_history_of_its_task(engine: Engine):
    task_id = submit(engine)[1]
    engine.finish(engine.claim())
    engine.conn.execute("delete from skiplane.outcome")
    engine.conn.execute("delete from skiplane.task")
    row = submit(engine)
    assert (row[1], row[2], row[5]) == (task_id, "SUCCEEDED", True)


def test_two_tasks_with_a_key_may_retry_at_once(engine: Engine):
    """A key binds the submission only: no later transition can clash with it."""
    first = submit(engine)[1]
    engine.fail(engine.claim())
    engine.conn.execute("delete from skiplane.idempotency")
    second = submit(engine)[1]
    engine.fail(engine.claim())
    engine.skip(3600)
    assert engine.value("promote_tasks")[0] == 2
    assert set(engine.claim(5).ids) == {first, second}

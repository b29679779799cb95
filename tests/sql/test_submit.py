"""Submitting one task: what is accepted, and what is refused in which words."""

import datetime
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from skiplane.tests.support import set_clock
from skiplane.tests.support.engine import Engine, refused


def later(engine: Engine, **delta: float) -> datetime.datetime:
    """Give a whole second from now on: partitions are made for the days around the present."""
    now = engine.one("select date_trunc('second', skiplane.clock())")
    assert isinstance(now, datetime.datetime)
    return now + datetime.timedelta(**delta)


def test_task_without_options_gets_the_defaults(engine: Engine):
    task = engine.get(engine.submit())
    shown = {name: task[name] for name in ("queue", "priority", "status", "attempt", "version")}
    assert shown == {
        "queue": "default",
        "priority": "medium",
        "status": "PENDING",
        "attempt": 0,
        "version": 1,
    }
    assert (task["max_retries"], task["retry_backoff"], task["retry_jitter"]) == (
        3,
        "exponential",
        "equal",
    )
    assert (task["retry_delay_seconds"], task["retry_max_delay_seconds"]) == (5, 3600)
    assert (task["tenant_id"], task["payload"], task["attempts"]) == ("default", {}, [])


def test_every_option_is_kept(engine: Engine):
    options: dict[str, Any] = {
        "queue": "email",
        "priority": "high",
        "max_retries": 7,
        "retry_backoff": "linear",
        "retry_delay_seconds": 1.5,
        "retry_max_delay_seconds": 60,
        "retry_jitter": "decorrelated",
        "timeout_seconds": 0.25,
        "idempotency_key": "order-1",
        "estimated_duration_seconds": 1.25,
        "concurrency_key": "account-9",
        "callback_url": "https://example.com/done?a=1",
    }
    metadata = {"tenant_id": "acme", "correlation_id": "c-1", "tags": ["a"]}
    expires = later(engine, days=1)
    task = engine.get(
        engine.submit(payload=[1, None], metadata=metadata, expires_at=expires, **options)
    )
    assert {name: task[name] for name in options} == options
    assert (task["metadata"], task["tenant_id"], task["payload"]) == (metadata, "acme", [1, None])
    assert task["expires_at"] == expires.astimezone(datetime.UTC).strftime(
        "%Y-%m-%dT%H:%M:%S.000000Z"
    )


def test_answer_has_one_row_of_what_was_submitted(engine: Engine):
    now = later(engine)
    set_clock(engine.conn, now)
    [row] = engine.rows("submit_task", task_type="work", delay_seconds=90)
    ordinal, task_id, status, scheduled_at, created_at, duplicate = row
    assert (ordinal, status, duplicate) == (1, "SCHEDULED", False)
    assert created_at == now
    assert scheduled_at == created_at + datetime.timedelta(seconds=90)
    assert engine.places(task_id) == ["timer"]


@pytest.mark.parametrize(
    "payload",
    ["{}", "[]", "null", "0", '"text"', "true", "[[]]", '{"a": {"b": null}}', '"\U0001f600"'],
)
def test_payload_may_be_any_json_value(engine: Engine, payload: str):
    row = engine.value("submit_task", task_type="work", payload=payload)
    [task] = engine.claim().tasks
    assert engine.one("select %s::jsonb = %s::jsonb", [payload, Jsonb(task["payload"])])
    assert engine.get(row[1])["payload"] == task["payload"]


@pytest.mark.parametrize(
    "name", ["a", "é" * 100, "x" * 200, 'it\'s "quoted"', "emoji 🚀", "a.b-c:d/e", "‮"]
)
def test_names_of_up_to_200_bytes_are_taken(engine: Engine, name: str):
    task_id = engine.submit(name, queue=name, concurrency_key=name, metadata={"tenant_id": name})
    [task] = engine.claim(queues=[name], task_types=[name]).tasks
    assert (task["task_type"], task["queue"], task["tenant_id"]) == (name, name, name)
    assert engine.get(task_id)["concurrency_key"] == name


@pytest.mark.parametrize("name", ["", " ", "\t", "a\nb", "x" * 201, "é" * 101, "x" * 8000, "a\x7f"])
@pytest.mark.parametrize("field", ["task_type", "queue", "concurrency_key", "idempotency_key"])
def test_unusable_names_are_refused(engine: Engine, field: str, name: str):
    options = {"task_type": "work", field: name}
    with refused(engine.conn, "SK001", field, name[:200]):
        engine.rows("submit_task", **options)


def test_unusable_tenant_is_refused(engine: Engine):
    for tenant in ("", "x" * 201, 5, None):
        with refused(engine.conn, "SK001", "metadata.tenant_id"):
            engine.submit(metadata={"tenant_id": tenant})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("task_type", None),
        ("queue", None),
        ("priority", None),
        ("priority", "urgent"),
        ("priority", "HIGH"),
        ("priority", "5"),
        ("max_retries", -1),
        ("max_retries", 10001),
        ("max_retries", None),
        ("retry_backoff", "random"),
        ("retry_backoff", None),
        ("retry_jitter", "some"),
        ("retry_delay_seconds", -0.001),
        ("retry_delay_seconds", float("nan")),
        ("retry_delay_seconds", 31536001),
        ("retry_max_delay_seconds", float("inf")),
        ("timeout_seconds", 0),
        ("timeout_seconds", -1),
        ("timeout_seconds", float("nan")),
        ("timeout_seconds", 1e300),
        ("estimated_duration_seconds", -1),
        ("estimated_duration_seconds", float("inf")),
        ("delay_seconds", -1),
        ("delay_seconds", float("nan")),
        ("delay_seconds", 1e9),
        ("delay_seconds", 1e15),
        ("callback_url", "ftp://example.com"),
        ("callback_url", "https://a b"),
        ("callback_url", "https://" + "x" * 2000),
        ("scheduled_at", "infinity"),
        ("scheduled_at", "-infinity"),
        ("scheduled_at", "10000-01-01 00:00:00+00"),
        ("scheduled_at", "294276-12-31 00:00:00+00"),
        ("scheduled_at", "0001-01-01 00:00:00+00"),
        ("expires_at", "infinity"),
        ("expires_at", "2000-01-01 00:00:00+00"),
    ],
)
def test_values_out_of_range_are_refused(engine: Engine, field: str, value: Any):
    options = {"task_type": "work", field: value}
    with refused(engine.conn, "SK001", field):
        engine.rows("submit_task", **options)
    assert engine.one("select count(*) from skiplane.ready") == 0


def test_both_times_given_are_refused(engine: Engine):
    with refused(engine.conn, "SK001", "delay_seconds", "5"):
        engine.submit(scheduled_at=later(engine, days=1), delay_seconds=5)


def test_expiry_before_the_start_is_refused(engine: Engine):
    soon = later(engine, seconds=60)
    with refused(engine.conn, "SK001", "expires_at"):
        engine.submit(delay_seconds=60.5, expires_at=soon)


@pytest.mark.parametrize("seconds", [0, -1, -86400 * 40])
def test_task_due_in_the_past_is_pending_at_once(engine: Engine, seconds: int):
    task_id = engine.submit(scheduled_at=later(engine, seconds=seconds))
    assert engine.places(task_id) == ["ready"]
    # Its place in the lane is the present: an older one could lie below the mark.
    assert engine.one(
        "select due_at >= created_at from skiplane.ready join skiplane.task using (id)"
    )


def test_task_beyond_the_prepared_partitions_is_kept(engine: Engine):
    task_id = engine.submit(delay_seconds=86400 * 3650)
    assert engine.places(task_id) == ["timer_far"]
    assert engine.status(task_id) == "SCHEDULED"


@pytest.mark.parametrize(
    ("payload", "what"),
    [
        ("1e400", "number"),
        ("-1e400", "number"),
        ("1" * 400, "number"),
        ('{"a": [1e305]}', "number"),
        ("[" * 102 + "]" * 102, "levels"),
    ],
)
def test_payload_that_no_machine_can_read_is_refused(engine: Engine, payload: str, what: str):
    with refused(engine.conn, "SK001", "payload") as caught:
        engine.rows("submit_task", task_type="work", payload=payload)
    assert what in str(caught.value)


@pytest.mark.parametrize(
    "payload", ["1e299", "1" * 300, "[" * 100 + "1" + "]" * 100, '"1e400"', f'"{"1" * 400}"']
)
def test_payload_at_the_limits_is_taken(engine: Engine, payload: str):
    assert engine.value("submit_task", task_type="work", payload=payload)[2] == "PENDING"
    assert engine.claim().tasks


def test_payload_over_one_mebibyte_is_refused(engine: Engine):
    with refused(engine.conn, "SK007", "payload", "1048577 bytes"):
        engine.rows("submit_task", task_type="work", payload=Jsonb("x" * 1048575))
    assert engine.submit(payload="x" * 1048574)


def test_metadata_that_is_no_object_or_too_large_is_refused(engine: Engine):
    with refused(engine.conn, "SK001", "metadata"):
        engine.rows("submit_task", task_type="work", metadata=Jsonb([1]))
    with refused(engine.conn, "SK007", "metadata"):
        engine.submit(metadata={"a": "x" * 16384})


def test_session_settings_do_not_change_what_is_read(engine: Engine):
    written = later(engine, days=1).astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    shown = written.replace("Z", ".000000Z")
    for setting in (
        "TimeZone = 'Asia/Tokyo'",
        "DateStyle = 'SQL, DMY'",
        "IntervalStyle = iso_8601",
        "standard_conforming_strings = off",
    ):
        engine.conn.execute(f"set local {setting}".encode())
    for query, argument in (
        ("select task_id from skiplane.submit_task('work', p_scheduled_at => %s)", written),
        (
            "select task_id from skiplane.submit_tasks(%s)",
            Jsonb([{"task_type": "work", "scheduled_at": written}]),
        ),
    ):
        task_id = engine.one(query, [argument])
        assert engine.get(task_id)["scheduled_at"] == shown
        assert engine.places(task_id) == ["timer"]

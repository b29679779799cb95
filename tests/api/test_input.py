"""Bad input has a defined answer that names field, value and remedy, and never is a 500."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from skiplane.tests.api.conftest import Api, problem
from skiplane.tests.support.engine import Engine

TASKS = "/api/v1/tasks"
JSON = {"content-type": "application/json"}


def post(client: httpx.Client, body: Any, **headers: str) -> httpx.Response:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return client.post(TASKS, content=content, headers={**JSON, **headers})


VALUES = [
    ({}, "task_type"),
    ({"task_type": ""}, "task_type"),
    ({"task_type": " "}, "task_type"),
    ({"task_type": 5}, "task_type"),
    ({"task_type": None}, "task_type"),
    ({"task_type": "x" * 201}, "task_type"),
    ({"task_type": "é" * 150}, "task_type"),
    ({"task_type": "a\0b"}, "task_type"),
    ({"task_type": "a\nb"}, "task_type"),
    ({"task_type": "t", "queue": "a\0b"}, "queue"),
    ({"task_type": "t", "queue": ""}, "queue"),
    ({"task_type": "t", "priority": "urgent"}, "priority"),
    ({"task_type": "t", "priority": 10}, "priority"),
    ({"task_type": "t", "max_retries": -1}, "max_retries"),
    ({"task_type": "t", "max_retries": 1.5}, "max_retries"),
    ({"task_type": "t", "max_retries": True}, "max_retries"),
    ({"task_type": "t", "max_retries": "3"}, "max_retries"),
    ({"task_type": "t", "max_retries": 10**30}, "max_retries"),
    ({"task_type": "t", "delay_seconds": -1}, "delay_seconds"),
    ({"task_type": "t", "delay_seconds": 1e15}, "delay_seconds"),
    ({"task_type": "t", "delay_seconds": "1"}, "delay_seconds"),
    ({"task_type": "t", "timeout_seconds": 0}, "timeout_seconds"),
    ({"task_type": "t", "retry_backoff": "cubic"}, "retry_backoff"),
    ({"task_type": "t", "retry_jitter": 1}, "retry_jitter"),
    ({"task_type": "t", "callback_url": "javascript:alert(1)"}, "callback_url"),
    ({"task_type": "t", "idempotency_key": "a\0b"}, "idempotency_key"),
    ({"task_type": "t", "metadata": []}, "metadata"),
    ({"task_type": "t", "metadata": "x"}, "metadata"),
    ({"task_type": "t", "metadata": {"tenant_id": 5}}, "metadata.tenant_id"),
    ({"task_type": "t", "metadata": {"tenant_id": ""}}, "metadata.tenant_id"),
    ({"task_type": "t", "metadata": {"tenant_id": "a\0"}}, "metadata.tenant_id"),
    ({"task_type": "t", "payload": {"a": {"b": ["x\0y"]}}}, "payload.a.b[0]"),
    ({"task_type": "t", "payload": {"a\0": 1}}, "payload (a key)"),
    ({"task_type": "t", "payload": 10**400}, "payload"),
    ({"task_type": "t", "run_at": "now"}, "run_at"),
    ({"task_type": "t", "metdata": {}}, "metdata"),
    ({"task_type": "t", "scheduled_at": "2026-12-04T09:00:00"}, "scheduled_at"),
    ({"task_type": "t", "scheduled_at": "2026-02-30T00:00:00Z"}, "scheduled_at"),
    ({"task_type": "t", "scheduled_at": "2026-06-30T23:59:60Z"}, "scheduled_at"),
    ({"task_type": "t", "scheduled_at": "infinity"}, "scheduled_at"),
    ({"task_type": "t", "scheduled_at": "-infinity"}, "scheduled_at"),
    ({"task_type": "t", "scheduled_at": "10000-01-01T00:00:00Z"}, "scheduled_at"),
    ({"task_type": "t", "scheduled_at": "9999-12-31T23:59:59.999999Z"}, "scheduled_at"),
    ({"task_type": "t", "scheduled_at": "0001-01-01T00:00:00Z"}, "scheduled_at"),
    ({"task_type": "t", "scheduled_at": 1700000000}, "scheduled_at"),
    ({"task_type": "t", "expires_at": "2020-01-01T00:00:00Z"}, "expires_at"),
    (
        {"task_type": "t", "scheduled_at": "2027-01-01T00:00:00Z", "delay_seconds": 1},
        "delay_seconds",
    ),
]


def test_each_bad_value_is_refused_with_its_field(client: httpx.Client, engine: Engine):
    for body, field in VALUES:
        told = problem(post(client, body), 422, "invalid_input", field)
        assert told["remedy"], body
    assert engine.one("select count(*) from skiplane.task") == 0
    assert engine.one("select count(*) from skiplane.timer") == 0


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "malformed_json"),
        (b"{", "malformed_json"),
        (b'{"task_type": "t"}}', "malformed_json"),
        (b'{"task_type": "t", "payload": NaN}', "malformed_json"),
        (b'{"task_type": "t", "payload": {"a": Infinity}}', "malformed_json"),
        (b'{"task_type": "t", "payload": {"a": -Infinity}}', "malformed_json"),
        (b'{"task_type": "t", "priority": NaN}', "malformed_json"),
        (b'{"task_type": "t", "payload": "\xff"}', "malformed_json"),
        ('{"task_type": "t"}'.encode("utf-16"), "malformed_json"),
        (b'\xef\xbb\xbf{"task_type": "t"}', "malformed_json"),
        (b'{"task_type": "t", "payload": "\\ud800"}', "malformed_json"),
    ],
)
def test_what_is_no_json_is_400(client: httpx.Client, body: bytes, code: str):
    problem(post(client, body), 400, code)


@pytest.mark.parametrize("number", ["1e400", "-1e400", "1e140000", "1" * 5000])
def test_numbers_that_nobody_can_read_back_are_refused(client: httpx.Client, number: str):
    body = f'{{"task_type": "t", "payload": {{"a": {number}}}}}'.encode()
    answer = post(client, body)
    told = problem(answer, 422, "invalid_input")
    assert told["field"].startswith("payload")


@pytest.mark.parametrize("levels", [101, 900, 1000, 5000, 20_000, 100_000])
@pytest.mark.parametrize(("left", "right"), [("[", "]"), ('{"a":', "}")])
def test_nesting_has_a_limit(client: httpx.Client, levels: int, left: str, right: str):
    inner = left * levels + "1" + right * levels
    problem(
        post(client, f'{{"task_type": "t", "payload": {inner}}}'.encode()), 422, "invalid_input"
    )
    problem(post(client, inner.encode()), 422, "invalid_input")


@pytest.mark.parametrize("root", ["text", 5, True, None, [], [1], {}, {"__proto__": 1}, ""])
def test_payload_may_be_any_json(client: httpx.Client, root: Any):
    made = post(client, {"task_type": "t", "payload": root})
    assert made.status_code == 202
    assert client.get(f"{TASKS}/{made.json()['task_id']}").json()["payload"] == root


@pytest.mark.parametrize("root", [b'"text"', b"5", b"true", b"null", b"[]", b"[1]"])
def test_body_must_be_an_object(client: httpx.Client, root: bytes):
    problem(post(client, root), 422, "invalid_input", "body")


def test_escaped_backslash_is_no_nul(client: httpx.Client):
    made = post(client, b'{"task_type": "t", "payload": {"a": "\\\\u0000"}}')
    assert made.status_code == 202
    assert client.get(f"{TASKS}/{made.json()['task_id']}").json()["payload"] == {"a": "\\u0000"}


def test_markup_and_odd_names_come_back_as_they_are(client: httpx.Client):
    for text in (
        "<img src=x onerror=alert(1)>",
        '"><svg onload=alert(1)>',
        "{{7*7}}",
        "\u202eabc",
        "=cmd()",
        "Queue With Spaces",
        "quote'\"",
    ):
        body = {"task_type": text, "queue": text, "metadata": {"tags": [text]}}
        made = post(client, body)
        assert made.status_code == 202, made.text
        found = client.get(f"{TASKS}/{made.json()['task_id']}")
        assert found.headers["content-type"] == "application/json"
        assert found.json()["task_type"] == text
        assert len(client.get(TASKS, params={"queue": text, "tag": text}).json()["tasks"]) == 1


def test_bodies_have_a_limit(api: Api, client: httpx.Client):
    large = {"task_type": "t", "payload": "x" * 1_048_577}
    problem(post(client, large), 413, "too_large", "payload")
    assert post(client, {**large, "payload": "x" * 1_000_000}).status_code == 202
    larger = b'{"task_type": "t", "payload": "' + b"x" * 3_000_000 + b'"}'
    problem(post(client, larger), 413, "too_large", "body")
    metadata = {"task_type": "t", "metadata": {"a": "x" * 16_384}}
    problem(post(client, metadata), 413, "too_large", "metadata")


def test_body_that_does_not_tell_its_length_has_the_same_limit(client: httpx.Client):
    def parts() -> Any:
        for _ in range(100):
            yield b" " * 65_536

    try:
        answer = client.post(TASKS, content=parts(), headers=JSON)
    except httpx.HTTPError:
        return  # the server closed while we were sending
    problem(answer, 413, "too_large", "body")


def test_batches_have_a_limit(client: httpx.Client):
    for tasks in ([], [{"task_type": "t"}] * 10_001):
        answer = client.post(f"{TASKS}/batch", json={"tasks": tasks})
        problem(answer, 422, "invalid_input", "tasks")


def test_other_media_types_are_415(client: httpx.Client):
    body = b'{"task_type": "t"}'
    for kind in (
        "text/plain",
        "application/x-www-form-urlencoded",
        "",
        "application/json; charset=utf-16",
    ):
        answer = client.post(TASKS, content=body, headers={"content-type": kind})
        problem(answer, 415, "unsupported_media_type", "content-type")
    packed = client.post(TASKS, content=body, headers={**JSON, "content-encoding": "gzip"})
    problem(packed, 415, "unsupported_media_type", "content-encoding")
    good = client.post(
        TASKS, content=body, headers={"content-type": "application/json; charset=UTF-8"}
    )
    assert good.status_code == 202


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("limit=0", "limit"),
        ("limit=-1", "limit"),
        ("limit=1000000000", "limit"),
        ("limit=abc", "limit"),
        ("limit=1.5", "limit"),
        ("limit=", "limit"),
        ("limit=1&limit=2", "limit"),
        ("status=DONE", "status"),
        ("workflow_id=x", "workflow_id"),
        ("created_after=yesterday", "created_after"),
        ("created_after=2026-01-01T00:00:00", "created_after"),
        ("created_before=10000-01-01T00:00:00Z", "created_before"),
        ("queue=", "queue"),
        ("queue=%00", "queue"),
        ("order=asc", "order"),
    ],
)
def test_each_bad_parameter_is_refused_with_its_name(client: httpx.Client, query: str, field: str):
    problem(client.get(f"{TASKS}?{query}"), 422, "invalid_input", field)


def test_query_that_is_no_text_is_refused(client: httpx.Client):
    problem(client.get(f"{TASKS}?queue=%ff"), 400, "bad_request")


@pytest.mark.parametrize("name", ["x", "%00", "1", "é", "a" * 3000, "%2e%2e", "null"])
def test_what_is_no_id_is_not_found(client: httpx.Client, name: str):
    problem(client.get(f"{TASKS}/{name}"), 404, "not_found")


def test_unknown_path_and_method_have_their_problems(client: httpx.Client):
    problem(client.get("/api/v1/nothing"), 404, "not_found")
    answer = client.patch(TASKS)
    problem(answer, 405, "method_not_allowed")
    assert "GET" in answer.headers["allow"]


def test_row_that_sql_poisoned_breaks_no_list(client: httpx.Client, engine: Engine):
    task_id = engine.submit(delay_seconds=600)
    engine.submit()
    engine.conn.execute(
        "update skiplane.timer set scheduled_at = 'infinity', payload = '{\"a\": 1e400}'"
    )
    assert len(client.get(TASKS).json()["tasks"]) == 2
    assert client.get(f"{TASKS}/{task_id}").status_code == 200
    assert client.get("/metrics").status_code == 200


def test_far_but_allowed_time_is_taken(client: httpx.Client):
    at = datetime.now(UTC) + timedelta(days=3000)
    made = post(client, {"task_type": "t", "scheduled_at": at.isoformat()})
    assert made.status_code == 202
    assert client.get(f"{TASKS}/{made.json()['task_id']}").json()["status"] == "SCHEDULED"

"""The calls on tasks, in the shapes that were agreed."""

import re
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from skiplane.tests.api.conftest import Api, problem
from skiplane.tests.support.engine import Engine

TASKS = "/api/v1/tasks"
EXAMPLE: dict[str, Any] = {
    "task_type": "send_email",
    "payload": {"to": "user@example.com", "subject": "Welcome!", "template_id": "onboarding-v2"},
    "priority": "high",
    "max_retries": 3,
    "retry_backoff": "exponential",
    "retry_delay_seconds": 60,
    "timeout_seconds": 300,
    "idempotency_key": "welcome-user-123",
    "queue": "email-queue",
    "metadata": {"tenant_id": "acme-corp", "correlation_id": "req-abc"},
}


def later(**span: float) -> str:
    return (datetime.now(UTC) + timedelta(**span)).strftime("%Y-%m-%dT%H:%M:%SZ")


def test_submission_answers_with_these_four_fields(client: httpx.Client):
    at = later(days=30)
    answer = client.post(TASKS, json={**EXAMPLE, "scheduled_at": at})
    assert answer.status_code == 202
    assert list(answer.json()) == ["task_id", "status", "scheduled_at", "created_at"]
    assert answer.json()["status"] == "SCHEDULED"
    assert answer.json()["scheduled_at"] == at
    assert answer.headers["location"] == f"{TASKS}/{answer.json()['task_id']}"


def test_task_reads_as_it_was_submitted(client: httpx.Client):
    task_id = client.post(TASKS, json=EXAMPLE).json()["task_id"]
    answer = client.get(f"{TASKS}/{task_id}")
    assert answer.status_code == 200
    found = answer.json()
    for name in (*EXAMPLE, "created_at", "scheduled_at", "started_at", "completed_at"):
        assert name in found
        if name in EXAMPLE:
            assert found[name] == EXAMPLE[name]
    assert found["status"] == "PENDING"
    assert {"duration_ms", "attempts", "worker_id", "result"} <= set(found)
    assert answer.headers["etag"] == '"v1"'


def test_finished_task_shows_attempts_and_result(client: httpx.Client, engine: Engine):
    task_id = client.post(TASKS, json={"task_type": "work"}).json()["task_id"]
    claim = engine.claim()
    engine.finish(claim, {claim.ids[0]: {"sum": 3}})
    found = client.get(f"{TASKS}/{task_id}").json()
    assert (found["status"], found["result"]) == ("SUCCEEDED", {"sum": 3})
    assert found["attempts"][0]["outcome"] == "succeeded"
    assert found["worker_id"] == str(claim.worker)
    assert found["duration_ms"] >= 0


def test_running_and_retrying_tasks_are_read_as_such(client: httpx.Client, engine: Engine):
    task_id = client.post(TASKS, json={"task_type": "work"}).json()["task_id"]
    claim = engine.claim()
    assert client.get(f"{TASKS}/{task_id}").json()["status"] == "RUNNING"
    engine.fail(claim, error_type="Oops", error_message="no")
    found = client.get(f"{TASKS}/{task_id}").json()
    assert found["status"] == "RETRYING"
    assert found["attempts"][0]["error_message"] == "no"


def test_same_key_and_body_gives_the_first_task(client: httpx.Client):
    first = client.post(TASKS, json=EXAMPLE)
    spaced = '{"metadata":{"tenant_id":"acme-corp"},' + httpx.Request(
        "POST", "http://x", json={k: v for k, v in EXAMPLE.items() if k != "metadata"}
    ).content.decode().removeprefix("{")
    again = client.post(TASKS, content=spaced, headers={"content-type": "application/json"})
    assert again.status_code == 200
    assert again.json()["task_id"] == first.json()["task_id"]
    assert again.json()["duplicate"] is True
    assert again.headers["idempotency-replayed"] == "true"


def test_same_key_and_another_body_is_a_conflict(client: httpx.Client):
    client.post(TASKS, json=EXAMPLE)
    answer = client.post(TASKS, json={**EXAMPLE, "priority": "low"})
    problem(answer, 409, "idempotency_conflict", "idempotency_key")


def test_key_may_come_in_the_header(client: httpx.Client):
    body = {"task_type": "work"}
    first = client.post(TASKS, json=body, headers={"Idempotency-Key": '"k-1"'})
    again = client.post(TASKS, json={**body, "idempotency_key": "k-1"})
    assert (first.status_code, again.status_code) == (202, 200)
    differ = client.post(
        TASKS, json={**body, "idempotency_key": "k-2"}, headers={"Idempotency-Key": "k-1"}
    )
    problem(differ, 422, "invalid_input", "Idempotency-Key")


def test_one_key_at_one_instant_is_one_task(api: Api):
    key = api.make_key("producer")
    clients = [api.client(key=key) for _ in range(8)]
    for round_ in range(10):
        body = {"task_type": "work", "idempotency_key": f"k-{round_}"}
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda c, body=body: c.post(TASKS, json=body), clients))
        assert sorted(a.status_code for a in answers) == [200] * 7 + [202]
        assert len({a.json()["task_id"] for a in answers}) == 1


def test_gathered_submissions_do_not_suffer_for_each_other(api: Api):
    key = api.make_key("producer")
    clients = [api.client(key=key) for _ in range(8)]
    clients[0].post(TASKS, json={"task_type": "work", "idempotency_key": "used"})
    bodies = [
        {"task_type": "work", "idempotency_key": "used" if n % 4 == 0 else f"k-{n}", "payload": n}
        for n in range(40)
    ]
    with ThreadPoolExecutor(8) as pool:
        codes = list(
            pool.map(lambda n: clients[n % 8].post(TASKS, json=bodies[n]).status_code, range(40))
        )
    assert codes == [409 if n % 4 == 0 else 202 for n in range(40)]


def test_batch_is_all_or_none(client: httpx.Client, engine: Engine):
    tasks = [{"task_type": f"t{n % 3}", "payload": n} for n in range(100)]
    answer = client.post(f"{TASKS}/batch", json={"tasks": tasks})
    assert answer.status_code == 202
    ids = [task["task_id"] for task in answer.json()["tasks"]]
    assert [client.get(f"{TASKS}/{i}").json()["payload"] for i in ids[:5]] == [0, 1, 2, 3, 4]
    bad = [*tasks, {"task_type": "t", "max_retries": -1}]
    refused = client.post(f"{TASKS}/batch", json={"tasks": bad})
    problem(refused, 422, "invalid_input")
    assert engine.one("select count(*) from skiplane.ready") == 100


def test_batch_names_the_task_at_fault(client: httpx.Client):
    tasks = [{"task_type": "t"}, {"task_type": "t", "payload": {"a": "x\0y"}}]
    answer = client.post(f"{TASKS}/batch", json={"tasks": tasks})
    problem(answer, 422, "invalid_input", "tasks[1].payload.a")


LONG = "é" * 150  # the door counts letters, the engine bytes


@pytest.mark.parametrize(
    ("bad", "code", "field"),
    [
        ({"queue": LONG}, (422, "invalid_input"), "queue"),
        ({"metadata": {"tenant_id": LONG}}, (422, "invalid_input"), "metadata.tenant_id"),
        ({"idempotency_key": LONG}, (422, "invalid_input"), "idempotency_key"),
        ({"idempotency_key": "used"}, (409, "idempotency_conflict"), "idempotency_key"),
        ({"expires_at": "2020-01-01T00:00:00Z"}, (422, "invalid_input"), "expires_at"),
        ({"max_retries": -1}, (422, "invalid_input"), "max_retries"),
        ({"payload": {"a": 1}, "unknown": 1}, (422, "invalid_input"), "unknown"),
    ],
)
def test_batch_names_the_task_that_is_refused(
    client: httpx.Client, engine: Engine, bad: dict[str, Any], code: tuple[int, str], field: str
):
    assert client.post(TASKS, json={"task_type": "t", "idempotency_key": "used"}).is_success
    # Among others of its own group, and of others.
    tasks: list[dict[str, Any]] = [
        {"task_type": "t", "payload": n, "idempotency_key": f"k{n}"} for n in range(5)
    ]
    tasks += [{"task_type": f"u{n}"} for n in range(5)]
    at = 7
    tasks.insert(at, {"task_type": "t", "payload": 1, **bad})
    tasks.append(dict(tasks[at]))
    told = client.post(f"{TASKS}/batch", json={"tasks": tasks})
    problem(told, *code, f"tasks[{at}].{field}")
    assert engine.one("select count(*) from skiplane.ready") == 1


def test_duration_has_two_names(client: httpx.Client):
    task = client.post(TASKS, json={"task_type": "t", "task_duration": 30}).json()
    found = client.get(f"{TASKS}/{task['task_id']}").json()
    assert found["estimated_duration_seconds"] == 30
    both = {"task_type": "t", "task_duration": 30, "estimated_duration_seconds": 30}
    problem(client.post(TASKS, json=both), 422, "invalid_input", "task_duration")


def test_trace_of_the_caller_goes_into_the_task(client: httpx.Client):
    trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    made = client.post(
        TASKS, json={"task_type": "t"}, headers={"traceparent": trace, "tracestate": "a=1"}
    ).json()
    found = client.get(f"{TASKS}/{made['task_id']}").json()
    assert found["metadata"] == {"traceparent": trace, "tracestate": "a=1"}
    bad = client.post(TASKS, json={"task_type": "t"}, headers={"traceparent": "00-zz"}).json()
    assert client.get(f"{TASKS}/{bad['task_id']}").json()["metadata"] is None


def test_request_id_of_the_caller_is_kept(client: httpx.Client):
    answer = client.get("/healthz", headers={"X-Request-ID": "abc-1"})
    assert answer.headers["x-request-id"] == "abc-1"
    other = client.get("/healthz", headers={"X-Request-ID": "two words"})
    assert re.fullmatch(r"[0-9a-f-]+", other.headers["x-request-id"])


def test_edit_needs_the_version_that_was_seen(client: httpx.Client):
    task_id = client.post(TASKS, json={"task_type": "t", "delay_seconds": 60}).json()["task_id"]
    where = f"{TASKS}/{task_id}"
    tag = client.get(where).headers["etag"]
    problem(client.put(where, json={"priority": "low"}), 428, "precondition_required", "If-Match")
    edited = client.put(where, json={"priority": "low"}, headers={"If-Match": tag})
    assert edited.status_code == 200
    assert edited.json()["priority"] == "low"
    assert edited.headers["etag"] == client.get(where).headers["etag"] != tag
    stale = client.put(where, json={"priority": "high"}, headers={"If-Match": tag})
    problem(stale, 412, "stale_version")
    problem(
        client.put(where, json={"priority": "high"}, headers={"If-Match": "W/whatever"}),
        412,
        "stale_version",
    )


def test_started_task_cannot_be_edited(client: httpx.Client, engine: Engine):
    task_id = client.post(TASKS, json={"task_type": "t"}).json()["task_id"]
    engine.claim()
    answer = client.put(
        f"{TASKS}/{task_id}", json={"priority": "low"}, headers={"If-Match": '"v1"'}
    )
    problem(answer, 409, "conflict")


@pytest.mark.parametrize("way", ["post", "delete"])
def test_cancel_answers_with_these_three_fields(client: httpx.Client, way: str):
    task_id = client.post(TASKS, json={"task_type": "t"}).json()["task_id"]

    def cancel() -> httpx.Response:
        if way == "delete":
            return client.delete(f"{TASKS}/{task_id}")
        return client.post(f"{TASKS}/{task_id}/cancel", json={"reason": "a mistake"})

    answer = cancel()
    assert answer.status_code == 200
    assert list(answer.json()) == ["task_id", "status", "cancelled_at"]
    assert answer.json()["status"] == "CANCELLED"
    problem(cancel(), 409, "conflict")
    found = client.get(f"{TASKS}/{task_id}").json()
    assert found["actions"][0]["actor"].startswith("api:sk_")


def test_cancelled_task_can_be_retried(client: httpx.Client):
    task_id = client.post(TASKS, json={"task_type": "t"}).json()["task_id"]
    problem(client.post(f"{TASKS}/{task_id}/retry"), 409, "conflict")
    client.post(f"{TASKS}/{task_id}/cancel")
    assert client.post(f"{TASKS}/{task_id}/retry").json() == {
        "task_id": task_id,
        "status": "PENDING",
    }


def test_result_is_waited_for(api: Api, engine: Engine):
    client = api.client("producer")
    task_id = client.post(TASKS, json={"task_type": "t"}).json()["task_id"]
    early = client.get(f"{TASKS}/{task_id}/result")
    assert (early.status_code, early.json()["done"]) == (202, False)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.get, f"{TASKS}/{task_id}/result", params={"wait": 30})
        claim = engine.claim()
        engine.finish(claim, {claim.ids[0]: [1, 2]})
        answer = waiting.result(20)
    assert answer.status_code == 200
    assert answer.json() == {
        "task_id": task_id,
        "status": "SUCCEEDED",
        "done": True,
        "result": [1, 2],
        "error_type": None,
        "error_message": None,
    }
    problem(client.get(f"{TASKS}/{task_id}/result?wait=61"), 422, "invalid_input", "wait")


def test_dead_letters_are_listed_retried_and_discarded(client: httpx.Client, engine: Engine):
    for _ in range(3):
        body = {"task_type": "t", "queue": "email-queue", "max_retries": 0}
        client.post(TASKS, json=body)
    engine.fail(engine.claim(3, queues=["email-queue"]), error_type="Oops")
    page = client.get("/api/v1/dlq", params={"queue": "email-queue", "limit": 2}).json()
    assert [letter["error_type"] for letter in page["dead_letters"]] == ["Oops", "Oops"]
    rest = client.get(
        "/api/v1/dlq",
        params={"queue": "email-queue", "limit": 2, "cursor": page["next_cursor"]},
    ).json()
    assert len(rest["dead_letters"]) == 1
    assert rest["next_cursor"] is None
    one, two = (letter["task_id"] for letter in page["dead_letters"])
    assert client.post(f"/api/v1/dlq/{one}/retry").json()["status"] == "PENDING"
    problem(client.post(f"/api/v1/dlq/{one}/retry"), 409, "conflict")
    assert client.delete(f"/api/v1/dlq/{two}").json()["discarded"] is True
    done = client.post("/api/v1/dlq/retry-all", params={"queue": "email-queue"}).json()
    assert done == {"retried": 1, "more": False}

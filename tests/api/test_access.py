"""Who may do what: the route table is walked, so that no route can be forgotten."""

import re
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import psycopg
import pytest
from litestar import Litestar

from skiplane.schema import key_calls
from skiplane.tests.api.conftest import Api, problem
from skiplane.tests.support import wait_until
from skiplane.tests.support.engine import Engine
from skiplane.web.access import OPEN, RANKS
from skiplane.web.app import HANDLERS
from skiplane.web.contract import OPERATIONS
from skiplane.web.dashboard.door import owns

ROLES = list(RANKS)
ROUTES = sorted(OPERATIONS)
CLOSED = [route for route in ROUTES if OPERATIONS[route].role != "open"]
WITH_ID = [route for route in CLOSED if "{task_id}" in route[1]]
BODIES: dict[str, Any] = {
    "edit_task": {"priority": "low"},
    "submit_task": {"task_type": "t"},
    "submit_batch": {"tasks": [{"task_type": "t"}]},
    "create_key": {"name": "k", "role": "reader"},
    "edit_cron_task": {"max_retries": 1},
    "create_cron_task": {"name": "n", "cron_expression": "0 3 * * *", "task_type": "t"},
    "create_webhook": {"name": "n", "url": "https://example.com/hooks"},
    "set_queue": {"paused": False},
    "set_task_type": {"paused": False},
    "set_tenant": {"weight": 2},
    "submit_workflow": {"workflow_name": "w", "tasks": [{"task_id": "a", "task_type": "t"}]},
}


def call(
    client: httpx.Client, route: tuple[str, str], task_id: str | None = None
) -> httpx.Response:
    method, path = route
    name = OPERATIONS[route].name
    headers = {"If-Match": '"v1"'} if name in ("edit_task", "edit_cron_task") else {}
    return client.request(
        method,
        re.sub(r"{\w+}", task_id or str(uuid.uuid4()), path),
        json=BODIES.get(name),
        headers=headers,
    )


def test_contract_names_exactly_the_routes_of_the_application():
    app = Litestar(route_handlers=list(HANDLERS), openapi_config=None, logging_config=None)
    found = set()
    for route in app.routes:
        for handler in route.route_handlers:  # type: ignore[union-attr]
            for method in getattr(handler, "http_methods", ()):
                path = re.sub(r"{(\w+):str}", r"{\1}", route.path)
                # The framework answers OPTIONS by itself: behind the gate, and closed by the guard.
                # The dashboard's pages have a door of their own, and tests of it.
                if method != "OPTIONS" and not owns(path):
                    found.add((method, path))
    assert found == set(OPERATIONS)


def test_open_routes_are_those_of_the_list():
    open_ = {route for route in ROUTES if OPERATIONS[route].role == "open"}
    assert open_ <= OPEN
    assert not [path for _, path in OPEN if path.startswith(("/api", "/metrics"))]


def test_every_closed_route_refuses_without_a_valid_key(api: Api, conn: psycopg.Connection[Any]):
    expiring = api.make_key("admin", expires_at=datetime.now(UTC) + timedelta(hours=1))
    conn.execute("update skiplane.api_key set expires_at = now() - interval '1 second'")
    revoked = api.make_key("admin")
    conn.execute("select skiplane.revoke_api_key(%s)", [revoked[:11]])
    keys: dict[str, dict[str, str]] = {
        "none": {},
        "empty": {"Authorization": "Bearer"},
        "another scheme": {"Authorization": "Basic c2s6eA=="},
        "unknown": {"Authorization": "Bearer sk_00000000_nobody"},
        "expired": {"Authorization": f"Bearer {expiring}"},
        "revoked": {"Authorization": f"Bearer {revoked}"},
        "by id": {"Authorization": f"Bearer {revoked[:11]}"},
        "two": {"Authorization": f"Bearer {revoked}", "X-API-Key": revoked},
    }
    for name, headers in keys.items():
        with httpx.Client(base_url=api.url, headers=headers) as client:
            for route in CLOSED:
                answer = call(client, route)
                assert answer.status_code == 401, (name, route)
                problem(answer, 401, "unauthenticated")
                assert answer.headers["www-authenticate"].startswith("Bearer")


def test_every_route_refuses_a_lower_role(api: Api, engine: Engine):
    before = engine.one("select count(*) from skiplane.task")
    for role in ROLES[:-1]:
        client = api.client(role)
        for route in CLOSED:
            if RANKS[OPERATIONS[route].role] > RANKS[role]:
                problem(call(client, route), 403, "not_allowed", "role")
    assert engine.one("select count(*) from skiplane.task") == before


def test_every_route_lets_its_role_in(api: Api):
    for role in ROLES:
        client = api.client(role)
        for route in CLOSED:
            if OPERATIONS[route].role == role and OPERATIONS[route].name != "stream_events":
                assert call(client, route).status_code not in (401, 403), route


def test_another_tenants_task_answers_like_an_unknown_one(api: Api, engine: Engine):
    theirs = [str(engine.submit(metadata={"tenant_id": "b"})) for _ in range(2)]
    theirs.append(str(engine.submit(metadata={"tenant_id": "b"}, delay_seconds=600)))
    theirs.append(str(engine.submit(metadata={"tenant_id": "b"}, max_retries=0, queue="dead")))
    engine.fail(engine.claim(queues=["dead"]))
    engine.claim()
    before = [engine.get(uuid.UUID(task_id)) for task_id in theirs]
    client = api.client("admin", "a")
    assert WITH_ID
    for route in WITH_ID:
        unknown = call(client, route, str(uuid.uuid4())).json()
        for task_id in theirs:
            answer = call(client, route, task_id)
            told = problem(answer, 404, "not_found", "task_id")
            assert told["value"] == task_id
            assert {**told, "value": 0, "request_id": 0} == {**unknown, "value": 0, "request_id": 0}
    # And nothing was done to them.
    assert [engine.get(uuid.UUID(task_id)) for task_id in theirs] == before


def test_another_tenants_schedule_and_workflow_answer_like_unknown_ones(api: Api):
    other = api.client("admin", "b")
    theirs = {
        "cron_id": call(other, ("POST", "/api/v1/cron-tasks")).json()["cron_id"],
        "workflow_id": call(other, ("POST", "/api/v1/workflows")).json()["workflow_id"],
    }
    client = api.client("admin", "a")
    for route in CLOSED:
        for field, found in theirs.items():
            if f"{{{field}}}" in route[1]:
                unknown = call(client, route, str(uuid.uuid4())).json()
                told = problem(call(client, route, found), 404, "not_found", field)
                assert told["value"] == found
                assert {**told, "value": 0, "request_id": 0} == {
                    **unknown, "value": 0, "request_id": 0,
                }  # fmt: skip
    assert other.get(f"/api/v1/cron-tasks/{theirs['cron_id']}").json()["version"] == 1
    found = other.get(f"/api/v1/workflows/{theirs['workflow_id']}").json()
    assert found["status"] == "RUNNING"


def test_bound_key_is_refused_what_concerns_all_tenants(api: Api):
    client = api.client("admin", "a")
    for route in ROUTES:
        if OPERATIONS[route].fleet:
            problem(call(client, route), 403, "not_allowed", "tenant_id")


def test_bound_key_sees_its_tenant_only(api: Api, engine: Engine):
    for tenant in ("a", "b"):
        engine.submit(metadata={"tenant_id": tenant})
        engine.submit(metadata={"tenant_id": tenant}, max_retries=0, queue="dead")
    engine.fail(engine.claim(2, queues=["dead"]))
    client = api.client("operator", "a")
    queries: list[dict[str, str]] = [{}, {"tenant_id": "a"}, {"status": "PENDING,DEAD"}]
    for query in queries:
        tasks = client.get("/api/v1/tasks", params=query).json()["tasks"]
        assert [task["tenant_id"] for task in tasks] == ["a", "a"]
    assert client.get("/api/v1/tasks", params={"tenant_id": "b"}).json()["tasks"] == []
    dead = client.get("/api/v1/dlq").json()["dead_letters"]
    assert [letter["tenant_id"] for letter in dead] == ["a"]
    assert client.get("/api/v1/dlq", params={"tenant_id": "b"}).json()["dead_letters"] == []
    retried = client.post("/api/v1/dlq/retry-all", params={"tenant_id": "b"}).json()
    assert retried == {"retried": 0, "more": False}
    assert client.post("/api/v1/dlq/retry-all").json()["retried"] == 1
    assert engine.one("select tenant_id from skiplane.dead") == "b"


def test_bound_key_submits_for_its_tenant_only(api: Api, engine: Engine):
    client = api.client("producer", "a")
    bodies: list[dict[str, Any]] = [
        {},
        {"metadata": {"x": 1}},
        {"metadata": {"tenant_id": "a"}},
    ]
    for body in bodies:
        made = client.post("/api/v1/tasks", json={"task_type": "t", **body})
        assert made.status_code == 202
        assert engine.get(uuid.UUID(made.json()["task_id"]))["tenant_id"] == "a"
    other = {"task_type": "t", "metadata": {"tenant_id": "b"}}
    problem(client.post("/api/v1/tasks", json=other), 403, "not_allowed", "metadata.tenant_id")
    batch = {"tasks": [{"task_type": "t"}, other]}
    problem(client.post("/api/v1/tasks/batch", json=batch), 403, "not_allowed")
    assert engine.one("select count(*) from skiplane.task") == 3


def test_idempotency_keys_of_tenants_never_meet(api: Api):
    body = {"task_type": "t", "idempotency_key": "order-1"}
    made = [api.client("producer", tenant).post("/api/v1/tasks", json=body) for tenant in "ab"]
    assert [answer.status_code for answer in made] == [202, 202]
    assert made[0].json()["task_id"] != made[1].json()["task_id"]


def test_cursor_is_good_for_its_list_only(api: Api, engine: Engine):
    for tenant in "ab":
        engine.many(5, metadata={"tenant_id": tenant})
    a, b, all_ = api.client("reader", "a"), api.client("reader", "b"), api.client("reader")
    cursor = a.get("/api/v1/tasks", params={"limit": 2}).json()["next_cursor"]
    for client, query in (
        (b, {}),
        (all_, {}),
        (a, {"queue": "default"}),
        (a, {"status": "PENDING"}),
    ):
        answer = client.get("/api/v1/tasks", params={**query, "limit": 2, "cursor": cursor})
        problem(answer, 422, "invalid_input", "cursor")
    for garbage in ("x", "AAAA", "é", "-", "A" * 999):
        problem(a.get("/api/v1/tasks", params={"cursor": garbage}), 422, "invalid_input", "cursor")


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/tasks/health",
        "/api/v1/tasks/healthz",
        "/api/v1/tasks/metrics",
        "/api/v1/queues/schema",
        "/api/v1/tasks/openapi.json",
        "//api/v1/tasks",
        "/api/v1/tasks/",
        "/API/V1/TASKS",
        "/api/v1/tasks%2fhealthz",
        "/api/v1/x/../tasks",
        "/healthz/../api/v1/tasks",
        "/healthz/x",
        "/healthz/",
        "/x/healthz",
        "/HEALTHZ",
        "/api/v1/tasks?x=/healthz",
        "/metrics",
        "/docs/../metrics",
        "/docs/x",
        "/schema",
        "/static/x",
        "/login",
    ],
)
def test_nothing_in_a_path_opens_it(api: Api, path: str):
    with httpx.Client() as client:
        for method in ("GET", "POST", "OPTIONS", "HEAD", "TRACE", "DELETE"):
            # As it is: a client would tidy dots and slashes up.
            url = httpx.URL(api.url).copy_with(raw_path=path.encode())
            answer = client.send(httpx.Request(method, url))
            assert answer.status_code == 401, (method, answer.text)


def test_open_routes_take_get_only(api: Api):
    with httpx.Client(base_url=api.url) as client:
        for method, path in OPEN:
            assert client.request(method, path).status_code in (200, 404)
            assert client.post(path).status_code == 401


def test_revoked_key_stops_opening_within_two_seconds(api: Api):
    admin = api.client()
    made = admin.post("/api/v1/keys", json={"name": "k", "role": "reader"}).json()
    client = api.client(key=made["key"])
    assert client.get("/api/v1/tasks").status_code == 200
    assert admin.delete(f"/api/v1/keys/{made['key_id']}").status_code == 200
    wait_until(lambda: client.get("/api/v1/tasks").status_code == 401, 2.5, "the key to close")


def test_keys_are_stored_as_hashes_and_shown_once(api: Api, engine: Engine):
    admin = api.client()
    made = admin.post("/api/v1/keys", json={"name": "k", "role": "reader"}).json()
    stored = engine.one("select row_to_json(k)::text from skiplane.api_key k where name = 'k'")
    secret = made["key"].removeprefix(made["key_id"])
    assert secret not in stored
    assert key_calls.hash_key(made["key"]).hex() in stored
    listed = admin.get("/api/v1/keys").text
    assert made["key_id"] in listed
    assert secret not in listed
    assert "hash" not in listed


def test_last_use_is_written_rarely(api: Api, conn: psycopg.Connection[Any]):
    client = api.client("reader")
    client.get("/api/v1/tasks")
    conn.execute("update skiplane.api_key set last_used_at = now() - interval '4 minutes'")
    api.server.services.keys._known.clear()
    client.get("/api/v1/tasks")
    aged = "select bool_and(last_used_at < now() - interval '3 minutes') from skiplane.api_key"
    row = conn.execute(aged).fetchone()
    assert row == (True,)
    conn.execute("update skiplane.api_key set last_used_at = now() - interval '6 minutes'")
    api.server.services.keys._known.clear()
    client.get("/api/v1/tasks")
    assert conn.execute(aged).fetchone() == (False,)


def test_bound_admin_keeps_keys_of_its_tenant_only(api: Api):
    other = api.client().post(
        "/api/v1/keys", json={"name": "b", "role": "reader", "tenant_id": "b"}
    )
    admin = api.client("admin", "a")
    made = admin.post("/api/v1/keys", json={"name": "mine", "role": "admin"})
    assert made.json()["tenant_id"] == "a"
    for tenant in ("b",):
        body = {"name": "x", "role": "reader", "tenant_id": tenant}
        problem(admin.post("/api/v1/keys", json=body), 403, "not_allowed", "tenant_id")
    assert {key["tenant_id"] for key in admin.get("/api/v1/keys").json()["keys"]} == {"a"}
    theirs = admin.delete(f"/api/v1/keys/{other.json()['key_id']}")
    unknown = admin.delete("/api/v1/keys/sk_00000000")
    assert (
        problem(theirs, 404, "not_found")["detail"] == problem(unknown, 404, "not_found")["detail"]
    )


def test_answers_carry_headers_that_keep_browsers_safe(api: Api):
    answer = httpx.get(f"{api.url}/healthz")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert answer.headers["cache-control"] == "no-store"
    assert "server" not in answer.headers

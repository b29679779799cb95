"""Workflows over REST."""

from typing import Any

import httpx
import pytest

from skiplane.tests.api.conftest import Api, problem
from skiplane.tests.support.engine import Engine

FLOWS = "/api/v1/workflows"
EXAMPLE: dict[str, Any] = {
    "workflow_name": "user-onboarding",
    "tasks": [
        {
            "task_id": "create-account",
            "task_type": "create_account",
            "payload": {"email": "user@example.com"},
            "dependencies": [],
        },
        {
            "task_id": "send-welcome-email",
            "task_type": "send_email",
            "payload": {},
            "dependencies": ["create-account"],
        },
    ],
}


def test_workflow_answers_with_the_state_of_each_task(client: httpx.Client):
    answer = client.post(FLOWS, json=EXAMPLE)
    assert answer.status_code == 202, answer.text
    made = answer.json()
    assert list(made) == ["workflow_id", "status", "tasks"]
    assert made["status"] == "RUNNING"
    assert made["tasks"] == {"create-account": "PENDING", "send-welcome-email": "BLOCKED"}
    found = client.get(f"{FLOWS}/{made['workflow_id']}").json()
    assert found["tasks"] == {"PENDING": 1, "BLOCKED": 1}
    picture = client.get(f"{FLOWS}/{made['workflow_id']}/graph").json()
    assert [node["name"] for node in picture["nodes"]] == ["create-account", "send-welcome-email"]
    assert picture["edges"] == [{"source": "create-account", "target": "send-welcome-email"}]
    listed = client.get("/api/v1/tasks", params={"workflow_id": made["workflow_id"]}).json()
    assert {task["status"] for task in listed["tasks"]} == {"PENDING", "BLOCKED"}


def test_workflow_is_cancelled_and_retried(client: httpx.Client, engine: Engine):
    where = f"{FLOWS}/{client.post(FLOWS, json=EXAMPLE).json()['workflow_id']}"
    problem(client.post(f"{where}/retry"), 409, "conflict")
    assert client.post(f"{where}/cancel", json={"reason": "x"}).json()["status"] == "CANCELLED"
    problem(client.post(f"{where}/cancel"), 409, "conflict")
    assert client.post(f"{where}/retry").json()["status"] == "RUNNING"
    engine.finish(engine.claim())
    engine.finish(engine.claim())
    assert client.get(where).json()["status"] == "SUCCEEDED"


def test_same_key_gives_the_first_workflow(client: httpx.Client):
    body = {**EXAMPLE, "idempotency_key": "k"}
    first, again = (client.post(FLOWS, json=body) for _ in range(2))
    assert (first.status_code, again.status_code) == (202, 200)
    assert first.json()["workflow_id"] == again.json()["workflow_id"]
    other = {**body, "workflow_name": "another"}
    problem(client.post(FLOWS, json=other), 409, "idempotency_conflict")


@pytest.mark.parametrize(
    "tasks",
    [
        [],
        [{"task_id": "a", "task_type": "t", "dependencies": ["a"]}],
        [
            {"task_id": "a", "task_type": "t", "dependencies": ["b"]},
            {"task_id": "b", "task_type": "t", "dependencies": ["a"]},
        ],
        [{"task_id": "a", "task_type": "t"}, {"task_id": "a", "task_type": "t"}],
        [{"task_id": "a", "task_type": "t", "dependencies": ["nobody"]}],
        [{"task_id": "a", "task_type": "t", "payload": {"x": "\0"}}],
        [{"task_id": "a"}],
        [{"task_id": "a", "task_type": "t", "trigger": "never"}],
    ],
)
def test_bad_graph_is_refused(client: httpx.Client, engine: Engine, tasks: list[dict[str, Any]]):
    answer = client.post(FLOWS, json={"workflow_name": "w", "tasks": tasks})
    problem(answer, 422, "invalid_input")
    assert engine.one("select count(*) from skiplane.task") == 0


def test_lists_and_tenants(api: Api):
    a, b = api.client("operator", "a"), api.client("operator", "b")
    mine = a.post(FLOWS, json=EXAMPLE).json()["workflow_id"]
    b.post(FLOWS, json=EXAMPLE)
    shown = a.get(FLOWS).json()["workflows"]
    assert [w["workflow_id"] for w in shown] == [mine]
    assert a.get(FLOWS, params={"tenant_id": "b"}).json()["workflows"] == []
    everyone = api.client()
    first = everyone.get(FLOWS, params={"limit": 1, "status": "RUNNING"}).json()
    query = {"limit": 1, "status": "RUNNING", "cursor": first["next_cursor"]}
    assert len(everyone.get(FLOWS, params=query).json()["workflows"]) == 1
    problem(everyone.get(FLOWS, params={**query, "status": "FAILED"}), 422, "invalid_input")
    body = {**EXAMPLE, "metadata": {"tenant_id": "b"}}
    problem(a.post(FLOWS, json=body), 403, "not_allowed", "metadata.tenant_id")

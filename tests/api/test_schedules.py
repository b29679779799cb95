"""Schedules over REST."""

import re
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from skiplane.tests.api.conftest import Api, problem
from skiplane.tests.support.engine import Engine

CRON = "/api/v1/cron-tasks"
EXAMPLE: dict[str, Any] = {
    "name": "daily-report-generation",
    "cron_expression": "0 9 * * 1-5",
    "timezone": "America/New_York",
    "task_type": "generate_report",
    "payload": {"report": "sales"},
    "max_retries": 2,
    "timeout_seconds": 600,
    "overlap_policy": "skip",
    "enabled": True,
}


def make(client: httpx.Client, **more: Any) -> dict[str, Any]:
    answer = client.post(CRON, json={**EXAMPLE, **more})
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


def test_schedule_answers_with_these_four_fields(client: httpx.Client):
    made = make(client)
    assert list(made) == ["cron_id", "name", "next_fire_time", "status"]
    assert made["status"] == "ACTIVE"
    assert datetime.fromisoformat(made["next_fire_time"]) > datetime.now(UTC)
    found = client.get(f"{CRON}/{made['cron_id']}").json()
    for name, value in EXAMPLE.items():
        assert found[name] == value
    problem(client.post(CRON, json=EXAMPLE), 409, "conflict", "name")


def test_preview_begins_with_the_next_fire(client: httpx.Client):
    made = make(client)
    shown = client.get(f"{CRON}/{made['cron_id']}/preview", params={"count": 3}).json()
    assert len(shown["fire_times"]) == 3
    first = datetime.fromisoformat(made["next_fire_time"])
    assert datetime.fromisoformat(shown["fire_times"][0]) == first


def test_schedule_is_edited_paused_resumed_run_and_deleted(client: httpx.Client, engine: Engine):
    where = f"{CRON}/{make(client)['cron_id']}"
    tag = client.get(where).headers["etag"]
    change = {"cron_expression": "*/5 * * * *", "max_retries": 4}
    problem(client.put(where, json=change), 428, "precondition_required")
    edited = client.put(where, json=change, headers={"If-Match": tag})
    assert edited.status_code == 200, edited.text
    assert edited.json()["cron_expression"] == "*/5 * * * *"
    soon = datetime.fromisoformat(edited.json()["next_fire_time"])
    assert soon < datetime.now(UTC) + timedelta(minutes=6)
    problem(client.put(where, json=change, headers={"If-Match": tag}), 412, "stale_version")
    assert client.post(f"{where}/pause").json()["status"] == "PAUSED"
    assert client.post(f"{where}/resume").json()["status"] == "ACTIVE"
    run = client.post(f"{where}/run")
    assert run.status_code == 202
    task = engine.get(uuid.UUID(run.json()["task_id"]))
    assert task["task_type"] == "generate_report"
    assert client.delete(where).status_code == 200
    problem(client.get(where), 404, "not_found", "cron_id")


def test_recurring_task_is_another_way_to_make_one(client: httpx.Client):
    body = {"schedule": "0 9 * * 1-5", "task_duration": 30, "task_type": "generate_report"}
    answer = client.post("/api/v1/tasks?schedule_recurring=true", json=body)
    assert answer.status_code == 201, answer.text
    found = client.get(f"{CRON}/{answer.json()['cron_id']}").json()
    assert found["estimated_duration_seconds"] == 30
    assert found["cron_expression"] == "0 9 * * 1-5"
    plain = {"schedule": "0 9 * * 1-5", "task_type": "t"}
    problem(client.post("/api/v1/tasks", json=plain), 422, "invalid_input", "schedule")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"cron_expression": "0 0 30 2 *"}, "cron_expression"),
        ({"cron_expression": "nonsense"}, "cron_expression"),
        ({"cron_expression": "61 * * * *"}, "cron_expression"),
        ({"cron_expression": ""}, "cron_expression"),
        ({"timezone": "FOO+3"}, "timezone"),
        ({"timezone": "Mars/Base"}, "timezone"),
        ({"overlap_policy": "maybe"}, "overlap_policy"),
        ({"name": ""}, "name"),
        ({"name": "a\0"}, "name"),
        ({"payload": {"a": "\0"}}, "payload.a"),
        ({"enabled": "yes"}, "enabled"),
        ({"end_at": "2020-01-01T00:00:00Z"}, "end_at"),
        ({"start_at": "2020-01-01T00:00:00"}, "start_at"),
        ({"scheduled_at": "2030-01-01T00:00:00Z"}, "scheduled_at"),
    ],
)
def test_bad_schedule_is_refused_with_its_field(
    client: httpx.Client, change: dict[str, Any], field: str
):
    told = problem(client.post(CRON, json={**EXAMPLE, **change}), 422, "invalid_input")
    assert re.fullmatch(rf"{re.escape(field)}|end_at|cron_expression", told["field"]), told
    if field not in ("end_at",):
        assert told["field"] == field


def test_lists_and_tenants(api: Api):
    everyone, a, b = api.client(), api.client("producer", "a"), api.client("producer", "b")
    for number in range(3):
        make(a, name=f"n{number}")
    theirs = make(b)["cron_id"]
    assert {s["tenant_id"] for s in a.get(CRON).json()["cron_tasks"]} == {"a"}
    assert a.get(CRON, params={"tenant_id": "b"}).json()["cron_tasks"] == []
    first = everyone.get(CRON, params={"limit": 3}).json()
    rest = everyone.get(CRON, params={"limit": 3, "cursor": first["next_cursor"]}).json()
    assert len(first["cron_tasks"]) + len(rest["cron_tasks"]) == 4
    body = {**EXAMPLE, "metadata": {"tenant_id": "b"}}
    problem(a.post(CRON, json=body), 403, "not_allowed", "metadata.tenant_id")
    mine = a.get(CRON).json()["cron_tasks"][0]["cron_id"]
    moved = a.put(
        f"{CRON}/{mine}", json={"metadata": {"tenant_id": "b"}}, headers={"If-Match": '"v1"'}
    )
    problem(moved, 403, "not_allowed")
    assert b.get(f"{CRON}/{theirs}").status_code == 200

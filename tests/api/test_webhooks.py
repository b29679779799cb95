"""Webhooks over REST: made, shown without their keys, switched, tried and ended."""

import uuid
from typing import Any

import httpx
import pytest

from skiplane.tests.api.conftest import Api, problem
from skiplane.tests.support.engine import Engine

WEBHOOKS = "/api/v1/webhooks"
WISH: dict[str, Any] = {"name": "billing", "url": "https://billing.example.com/hooks"}


def make(client: httpx.Client, **wish: Any) -> dict[str, Any]:
    answer = client.post(WEBHOOKS, json={**WISH, **wish})
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


def test_key_is_shown_once(client: httpx.Client):
    made = make(client, events=["task.failed", "alert"], task_type="charge")
    assert made["secret"].startswith("whsec_")
    listed = client.get(WEBHOOKS).json()["webhooks"]
    assert listed == [{name: value for name, value in made.items() if name != "secret"}]
    assert (made["events"], made["task_type"]) == (["task.failed", "alert"], "charge")
    assert made["created_by"].startswith("api:sk_")


def test_switched_off_it_hears_nothing(client: httpx.Client, engine: Engine):
    made = make(client)
    one = f"{WEBHOOKS}/{made['webhook_id']}"

    def deliveries() -> int:
        engine.submit()
        engine.finish(engine.claim())
        return int(engine.one("select count(*) from skiplane.tasks where queue = 'out'"))

    client.delete(one)
    one = f"{WEBHOOKS}/{make(client, delivery_queue='out')['webhook_id']}"
    assert client.post(f"{one}/disable").json()["enabled"] is False
    assert deliveries() == 0
    assert client.post(f"{one}/enable").json()["enabled"] is True
    assert deliveries() == 1


def test_test_event_is_a_task(client: httpx.Client):
    made = make(client, delivery_queue="out")
    sent = client.post(f"{WEBHOOKS}/{made['webhook_id']}/test")
    assert sent.status_code == 202
    task = client.get(f"/api/v1/tasks/{sent.json()['task_id']}").json()
    assert (task["task_type"], task["queue"]) == ("skiplane.webhook", "out")


def test_ended_one_is_gone(client: httpx.Client):
    made = make(client)
    one = f"{WEBHOOKS}/{made['webhook_id']}"
    assert client.delete(one).json()["webhook_id"] == made["webhook_id"]
    for answer in (client.delete(one), client.post(f"{one}/enable"), client.post(f"{one}/test")):
        problem(answer, 404, "not_found", "webhook_id")
    assert client.get(WEBHOOKS).json() == {"webhooks": [], "next_cursor": None}


def test_pages_hold_all_of_them_once(client: httpx.Client):
    made = [make(client, name=f"n{n}")["webhook_id"] for n in range(5)]
    seen: list[str] = []
    cursor = None
    while True:
        page = client.get(WEBHOOKS, params={"limit": 2, **({"cursor": cursor} if cursor else {})})
        seen += [one["webhook_id"] for one in page.json()["webhooks"]]
        cursor = page.json()["next_cursor"]
        if cursor is None:
            break
    assert seen == made[::-1]


def test_another_tenants_webhooks_are_not_there(api: Api):
    theirs = make(api.client("admin", "b"))
    client = api.client("admin", "a")
    mine = make(client)
    assert (mine["tenant_id"], theirs["tenant_id"]) == ("a", "b")
    assert [one["webhook_id"] for one in client.get(WEBHOOKS).json()["webhooks"]] == [
        mine["webhook_id"]
    ]
    for webhook_id in (theirs["webhook_id"], str(uuid.uuid4())):
        problem(client.delete(f"{WEBHOOKS}/{webhook_id}"), 404, "not_found", "webhook_id")
        problem(client.post(f"{WEBHOOKS}/{webhook_id}/test"), 404, "not_found", "webhook_id")
    answer = client.post(WEBHOOKS, json={**WISH, "tenant_id": "b"})
    problem(answer, 403, "not_allowed", "tenant_id")


@pytest.mark.parametrize(
    ("wish", "field"),
    [
        ({"url": "ftp://example.com"}, "url"),
        ({"url": "https://user:pass@example.com"}, "url"),
        ({"events": []}, "events"),
        ({"events": ["task.started"]}, "events"),
        ({"secret": "short"}, "secret"),
        ({"name": ""}, "name"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_bad_wish_is_refused_by_its_field(client: httpx.Client, wish: dict[str, Any], field: str):
    told = problem(client.post(WEBHOOKS, json={**WISH, **wish}), 422, "invalid_input")
    assert field in told["field"]
    assert "short" not in str(told.get("value"))
    assert client.get(WEBHOOKS).json()["webhooks"] == []

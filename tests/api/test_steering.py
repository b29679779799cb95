"""Queues, task types and tenants are limited, weighted, paused and explained over HTTP."""

from typing import Any
from urllib.parse import quote

import httpx
import pytest

from skiplane.tests.api.conftest import Api, problem
from skiplane.tests.support import wait_until
from skiplane.tests.support.engine import Engine

TASKS = "/api/v1/tasks"
KINDS = {"queues": "queue", "task-types": "task_type", "tenants": "tenant_id"}
SETTINGS: dict[str, dict[str, Any]] = {
    "queues": {"priority_order": "strict", "concurrency": 5},
    "task-types": {
        "rate_limit": "10/min",
        "burst": 3,
        "tenant_rate_limit": "1/s",
        "concurrency": 7,
        "key_concurrency": 2,
    },
    "tenants": {"weight": 10, "concurrency": 3},
}


def submit(client: httpx.Client, **more: Any) -> str:
    answer = client.post(TASKS, json={"task_type": "t", "queue": "q", **more})
    assert answer.status_code == 202, answer.text
    return str(answer.json()["task_id"])


def done(answer: httpx.Response) -> Any:
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize("kind", KINDS)
def test_settings_are_kept_and_what_is_left_out_stays(client: httpx.Client, kind: str):
    where = f"/api/v1/{kind}/x"
    wanted = SETTINGS[kind]
    assert wanted.items() <= done(client.put(where, json=wanted)).items()
    # A change of one thing leaves the others; null takes a limit away.
    changed = done(client.put(where, json={"concurrency": None}))
    assert {**wanted, "concurrency": None}.items() <= changed.items()
    assert done(client.get(where)) == changed
    assert changed["changed_by"].startswith("api:sk_")
    [listed] = done(client.get(f"/api/v1/{kind}"))[kind.replace("-", "_")]
    assert listed == changed


def test_null_takes_each_limit_of_a_type_away(client: httpx.Client):
    where = "/api/v1/task-types/x"
    limits = {**SETTINGS["task-types"], "breaker_threshold": 0.5, "breaker_window_seconds": 10}
    assert done(client.put(where, json=limits))["breaker"]["window_seconds"] == 10
    none = dict.fromkeys(
        ("rate_limit", "burst", "tenant_rate_limit", "concurrency", "breaker_threshold")
    )
    free = done(client.put(where, json=none))
    assert none.items() <= {**free, "breaker_threshold": free["breaker"]["threshold"]}.items()


def test_rates_of_a_tenant_are_set_and_taken_away(client: httpx.Client):
    where = "/api/v1/tenants/acme"
    both = done(client.put(where, json={"rates": {"a": "10/s", "b": "1/min"}}))
    assert both["rates"]["b"]["rate_limit"] == "1/min"
    assert list(done(client.put(where, json={"rates": {"b": None}}))["rates"]) == ["a"]


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_paused_starts_nothing_until_it_is_resumed(
    client: httpx.Client, engine: Engine, kind: str
):
    task = submit(client, metadata={"tenant_id": "a"})
    name = {"queues": "q", "task-types": "t", "tenants": "a"}[kind]
    assert done(client.post(f"/api/v1/{kind}/{name}/pause"))["paused"] is True
    assert engine.claim(queues=["q"]).tasks == []
    why = done(client.get(f"{TASKS}/{task}/waiting"))
    assert [one["code"] for one in why["reasons"]] == [
        f"{KINDS[kind].removesuffix('_id')}_paused",
        "no_worker",
    ]
    assert done(client.post(f"/api/v1/{kind}/{name}/resume"))["paused"] is False
    assert [str(one) for one in engine.claim(queues=["q"]).ids] == [task]


def test_breaker_is_opened_and_closed_by_hand(client: httpx.Client, engine: Engine):
    submit(client)
    where = "/api/v1/task-types/t/breaker"
    opened = done(client.post(f"{where}/open", json={"reason": "the bank is down"}))
    assert opened["breaker"]["state"] == "open"
    assert opened["breaker"]["reason"] == "the bank is down"
    assert engine.claim(queues=["q"]).tasks == []
    assert done(client.post(f"{where}/close"))["breaker"]["state"] == "closed"
    assert len(engine.claim(queues=["q"]).tasks) == 1
    problem(client.post(f"{where}/close"), 409, "conflict", "task_type")


@pytest.mark.parametrize(
    ("kind", "body", "field"),
    [
        ("queues", {"priority_order": "loose"}, "priority_order"),
        ("queues", {"concurrency": -2}, "concurrency"),
        ("queues", {"paused": None}, "paused"),
        ("queues", {"weight": 1}, "weight"),
        ("task-types", {"rate_limit": "fast"}, "rate_limit"),
        ("task-types", {"burst": 5}, "burst"),
        ("task-types", {"breaker_threshold": 0.0}, "breaker_threshold"),
        ("task-types", {"breaker_window_seconds": 0}, "breaker_window_seconds"),
        ("tenants", {"weight": 0}, "weight"),
        ("tenants", {"rates": {"t": "1 per blue moon"}}, "rates"),
    ],
)
def test_bad_setting_is_refused_with_its_field(
    client: httpx.Client, kind: str, body: dict[str, Any], field: str
):
    told = problem(client.put(f"/api/v1/{kind}/x", json=body), 422, "invalid_input", field)
    assert told["remedy"]
    assert client.get(f"/api/v1/{kind}").json()[kind.replace("-", "_")] == []


@pytest.mark.parametrize("name", ["a/b", "ä ö", "%2F", "a%b?c#d", "x/pause", "..x", "q~overflow"])
def test_names_may_hold_any_letter(client: httpx.Client, name: str):
    where = f"/api/v1/queues/{quote(name, safe='')}"
    assert done(client.put(where, json={"concurrency": 1}))["queue"] == name
    assert done(client.post(f"{where}/pause"))["queue"] == name
    assert [one["queue"] for one in done(client.get("/api/v1/queues"))["queues"]] == [name]


@pytest.mark.parametrize("name", ["%00", "%0A", "x" * 201])
def test_what_is_no_name_is_refused(client: httpx.Client, name: str):
    problem(client.get(f"/api/v1/queues/{name}"), 422, "invalid_input")


def test_path_that_is_no_utf8_is_refused(client: httpx.Client):
    problem(client.get("/api/v1/queues/%ff"), 400, "bad_request", "path")


@pytest.mark.parametrize("kind", KINDS)
def test_pages_go_on_by_name(client: httpx.Client, kind: str):
    names = ["a", "b/c", "ß", "ü", "漢"]
    for name in names:
        done(client.put(f"/api/v1/{kind}/{quote(name, safe='')}", json={"paused": False}))
    found, cursor = [], None
    while True:
        query = {"limit": 2, **({"cursor": cursor} if cursor else {})}
        told = done(client.get(f"/api/v1/{kind}", params=query))
        found += [one[KINDS[kind]] for one in told[kind.replace("-", "_")]]
        cursor = told["next_cursor"]
        if cursor is None:
            break
    assert sorted(found) == sorted(names)
    assert len(found) == len(names)


def test_depth_and_pressure_of_a_queue_are_told(client: httpx.Client, api: Api, engine: Engine):
    engine.conn.execute("insert into skiplane.setting values ('queue_soft_cap', '3')")
    for priority in ("high", "low", "low"):
        engine.submit(queue="q", priority=priority)
    engine.conn.execute("select skiplane.refresh_depth()")
    seen = api.server.services.pressure
    wait_until(lambda: "q" in seen.queues, what="the cap to be seen")
    told = done(client.get("/api/v1/queues/q"))
    assert told["depth_by_priority"] == {"high": 1, "medium": 0, "low": 2}
    assert told["depth"] == 3
    assert told["pressure"] == "high"
    assert told["oldest_waiting"]


def test_queue_is_told_when_nothing_waits_anywhere(client: httpx.Client, engine: Engine):
    engine.conn.execute("select skiplane.refresh_depth()")
    assert done(client.get("/api/v1/queues/q"))["depth"] == 0
    assert done(client.put("/api/v1/queues/q", json={"paused": True}))["paused"] is True


def test_key_of_a_tenant_sees_its_own_settings_only(api: Api, client: httpx.Client):
    for name in ("a", "b"):
        done(client.put(f"/api/v1/tenants/{name}", json={"weight": 5}))
    bound = api.client("admin", "a")
    assert [one["tenant_id"] for one in done(bound.get("/api/v1/tenants"))["tenants"]] == ["a"]
    assert done(bound.get("/api/v1/tenants/a"))["weight"] == 5
    # One that is there, and one that is not.
    there, unknown = (
        problem(bound.get(f"/api/v1/tenants/{name}"), 404, "not_found", "tenant_id")
        for name in "bc"
    )
    assert {**there, "value": 0, "request_id": 0} == {**unknown, "value": 0, "request_id": 0}
    # What it is worth against others is not its own to say.
    for kind, name in (("tenants", "a"), ("queues", "q"), ("task-types", "t")):
        body = {"paused": False}
        problem(bound.put(f"/api/v1/{kind}/{name}", json=body), 403, "not_allowed", "tenant_id")
        problem(bound.post(f"/api/v1/{kind}/{name}/pause"), 403, "not_allowed", "tenant_id")
    problem(bound.get("/api/v1/queues/q"), 403, "not_allowed", "tenant_id")


def test_key_of_a_tenant_is_not_told_of_others_in_the_queue(
    api: Api, client: httpx.Client, engine: Engine
):
    mine = submit(client, metadata={"tenant_id": "a"})
    for other in ("b", "c"):
        submit(client, metadata={"tenant_id": other})
    engine.rows("register_worker", worker_id=engine.worker, name="w", queues=["q"])
    where = f"{TASKS}/{mine}/waiting"
    [all_] = done(client.get(where))["reasons"]
    assert all_["code"] == "waiting_for_turn"
    assert all_["tenants"] == 3
    told = done(api.client("reader", "a").get(where))
    [bound] = told["reasons"]
    assert bound["code"] == "waiting_for_turn"
    assert "tenants" not in bound
    assert "tenants" not in told["summary"]

"""Webhooks and callbacks: who is told of what, in the transaction of the event."""

import uuid
from typing import Any

import pytest

from skiplane.tests.support.engine import Engine, refused
from skiplane.tests.workflow.flows import Flow


def hook(engine: Engine, *events: str, **options: Any) -> dict[str, Any]:
    made = engine.value(
        "create_webhook",
        name="n",
        url="https://example.com/in",
        events=list(events or ("task",)),
        **options,
    )
    assert isinstance(made, dict)
    return made


def deliveries(engine: Engine) -> list[dict[str, Any]]:
    found = engine.conn.execute(
        "select payload, tenant_id, queue from skiplane.task"
        " where task_type = 'skiplane.webhook' order by id"
    ).fetchall()
    return [{**row[0], "tenant": row[1], "queue": row[2]} for row in found]


def told(engine: Engine) -> list[str]:
    return [delivery["event"]["type"] for delivery in deliveries(engine)]


def test_an_end_without_listeners_makes_no_delivery(engine: Engine):
    engine.submit()
    engine.finish(engine.claim())
    assert deliveries(engine) == []


def test_a_callback_is_told_of_success_with_the_result(engine: Engine):
    task_id = engine.submit(callback_url="https://example.com/done", queue="q")
    engine.finish(engine.claim(queues=["q"]), {task_id: {"x": 1}})
    [delivery] = deliveries(engine)
    assert delivery["url"] == "https://example.com/done"
    assert delivery["queue"] == "q"
    assert delivery["event"]["type"] == "task.succeeded"
    assert delivery["event"]["data"]["task_id"] == str(task_id)
    assert delivery["event"]["data"]["result"] == {"x": 1}


def test_only_ends_are_told_not_every_attempt(engine: Engine):
    engine.submit(callback_url="https://example.com/", max_retries=1, retry_delay_seconds=0)
    engine.fail(engine.claim())
    assert told(engine) == []
    engine.fail(engine.claim())
    assert told(engine) == ["task.dead"]


def test_permanent_failure_cancel_and_expiry_are_told(engine: Engine):
    hook(engine)
    engine.submit()
    engine.fail(engine.claim(), "permanent")
    engine.value("cancel_task", task_id=engine.submit())
    engine.submit(expires_at=engine.one("select skiplane.clock() + interval '5 s'"))
    engine.skip(10)
    engine.value("expire_tasks")
    assert told(engine) == ["task.failed", "task.cancelled", "task.failed"]


def test_a_mixed_batch_tells_each_end_once(engine: Engine):
    hook(engine)
    ids = [engine.submit(callback_url="https://example.com/") for _ in range(3)]
    claim = engine.claim(3)
    engine.value(
        "finish_tasks",
        worker_id=claim.worker,
        lease_id=claim.lease_id,
        task_ids=ids[:2],
        results=["1", '"\\u0000"'],  # the second cannot be stored: it fails
        failures=f'[{{"task_id": "{ids[2]}", "kind": "permanent"}}]',
    )
    assert sorted(told(engine)) == ["task.failed"] * 4 + ["task.succeeded"] * 2


def test_who_lost_the_lease_tells_nothing(engine: Engine):
    hook(engine)
    task_id = engine.submit()
    first = engine.claim(lease_seconds=1)
    engine.skip(5)
    engine.rows("sweep_leases", limit=10)
    second = engine.claim()
    engine.finish(second)
    assert engine.finish(first) == [task_id]
    assert told(engine) == ["task.succeeded"]


def test_the_end_of_a_delivery_makes_no_delivery(engine: Engine):
    hook(engine)
    engine.submit()
    engine.finish(engine.claim())
    claim = engine.claim()
    assert claim.tasks[0]["task_type"] == "skiplane.webhook"
    engine.fail(claim, "permanent")
    assert len(deliveries(engine)) == 1


@pytest.mark.parametrize(
    ("options", "heard"),
    [
        ({}, True),
        ({"task_type": "work"}, True),
        ({"task_type": "other"}, False),
        ({"queue": "default"}, True),
        ({"queue": "other"}, False),
        ({"tenant_id": "a"}, True),
        ({"tenant_id": "b"}, False),
        ({"enabled": False}, False),
        ({"events": ["task.failed"]}, False),
        ({"events": ["task.succeeded"]}, True),
        ({"events": ["workflow", "alert"]}, False),
    ],
)
def test_filters_decide_who_is_told(engine: Engine, options: dict[str, Any], heard: bool):
    hook(engine, *options.pop("events", ()), **options)
    engine.submit(metadata={"tenant_id": "a"})
    engine.finish(engine.claim())
    assert bool(deliveries(engine)) is heard
    assert all(delivery["tenant"] == "a" for delivery in deliveries(engine))


def test_a_delivery_is_rolled_back_with_its_event(engine: Engine):
    hook(engine)
    engine.submit()
    claim = engine.claim()
    with engine.conn.transaction(force_rollback=True):
        engine.finish(claim)
        assert len(deliveries(engine)) == 1
    assert deliveries(engine) == []


def test_nobody_else_makes_deliveries(engine: Engine):
    with refused(engine.conn, "SK001", "task_type"):
        engine.submit("skiplane.webhook")
    hook(engine)
    engine.finish(engine.claim()) if engine.submit() else None
    [delivery] = engine.rows("list_tasks", task_type="skiplane.webhook")
    with refused(engine.conn, "SK001", "task_type"):
        engine.value(
            "edit_task",
            task_id=delivery[0]["task_id"],
            version=1,
            changes={"payload": {"event": "forged"}},
        )


def test_alerts_are_told_to_who_listens_to_them(engine: Engine):
    hook(engine, "alert")
    hook(engine, "task")
    assert engine.value("announce_alert", name="DeadLetters", summary="3 dead") == 1
    [delivery] = deliveries(engine)
    assert delivery["event"]["data"]["summary"] == "3 dead"


def test_the_target_is_given_for_deliveries_only(engine: Engine):
    made = hook(engine)
    task_id = engine.submit(callback_url="https://example.com/done")
    engine.finish(engine.claim())
    rows = engine.conn.execute(
        "select id from skiplane.task where task_type = 'skiplane.webhook'"
        " order by payload ->> 'url'"
    )
    ids = [row[0] for row in rows]
    callback, subscribed = (engine.value("webhook_target", task_id=i) for i in ids)
    assert callback == ("https://example.com/done", engine.value("callback_secret"))
    assert subscribed == (made["url"], made["secret"])
    with refused(engine.conn, "SK002", "task_id"):
        engine.value("webhook_target", task_id=task_id)
    engine.value("delete_webhook", webhook_id=made["webhook_id"])
    assert engine.value("webhook_target", task_id=ids[1]) == (None, None)


def test_callback_secrets_stay_and_differ_by_tenant(engine: Engine):
    assert engine.value("callback_secret") == engine.value("callback_secret")
    assert engine.value("callback_secret", tenant_id="b") != engine.value("callback_secret")


def test_secrets_are_shown_once(engine: Engine):
    made = hook(engine)
    assert made["secret"].startswith("whsec_")
    [(listed,)] = engine.rows("list_webhooks")
    assert listed == {key: value for key, value in made.items() if key != "secret"}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", " "),
        ("url", "ftp://example.com"),
        ("url", "https://user:word@example.com/"),
        ("events", ["task.started"]),
        ("events", []),
        ("secret", "short"),
        ("secret", "whsec_a"),
        ("secret", "whsec_YWJj"),
        ("queue", ""),
    ],
)
def test_bad_webhooks_are_refused(engine: Engine, field: str, value: Any):
    given = {"name": "n", "url": "https://example.com", field: value}
    with refused(engine.conn, "SK001", field) as caught:
        engine.value("create_webhook", **given)
    assert field != "secret" or value not in str(caught.value)


def test_a_tenant_sees_and_touches_only_its_own(engine: Engine):
    mine = hook(engine, tenant_id="a", within="a")
    for other in (hook(engine, tenant_id="b"), hook(engine)):
        for verb, more in (
            ("delete_webhook", {}),
            ("enable_webhook", {"enabled": False}),
            ("test_webhook", {}),
        ):
            with refused(engine.conn, "SK002", "webhook_id"):
                engine.value(verb, webhook_id=other["webhook_id"], within="a", **more)
        with refused(engine.conn, "SK001", "cursor"):
            engine.rows("list_webhooks", within="a", cursor=other["webhook_id"])
    for tenant in (None, "b"):
        with refused(engine.conn, "SK010", "tenant_id"):
            hook(engine, tenant_id=tenant, within="a")
    assert [row[0]["webhook_id"] for row in engine.rows("list_webhooks", within="a")] == [
        mine["webhook_id"]
    ]
    engine.value("delete_webhook", webhook_id=mine["webhook_id"], within="a")
    with refused(engine.conn, "SK002", "webhook_id"):
        engine.value("delete_webhook", webhook_id=uuid.uuid4())


def test_pages_of_webhooks_lose_none(engine: Engine):
    made = {hook(engine)["webhook_id"] for _ in range(5)}
    seen: list[str] = []
    while page := engine.rows("list_webhooks", limit=2, cursor=seen[-1] if seen else None):
        seen += [row[0]["webhook_id"] for row in page]
    assert sorted(seen) == sorted(made)


def test_the_end_of_a_workflow_is_told_once(engine: Engine):
    hook(engine, "workflow")
    flow = Flow(engine, "a b<a c<a")
    flow.run("a")
    assert told(engine) == []
    flow.run("b", "c")
    assert told(engine) == ["workflow.succeeded"]
    [delivery] = deliveries(engine)
    assert delivery["event"]["data"]["workflow_id"] == str(flow.id)
    assert delivery["event"]["data"]["tasks"] == 3


def test_what_a_failure_takes_along_is_told_too(engine: Engine):
    hook(engine, "task.failed", "workflow.failed")
    flow = Flow(engine, "a b<a c<b")
    engine.fail(flow.claim("a"), "permanent")
    assert sorted(told(engine)) == ["task.failed"] * 3 + ["workflow.failed"]


def test_a_cancelled_workflow_is_told_once(engine: Engine):
    hook(engine, "workflow", "task.cancelled")
    flow = Flow(engine, "a b<a")
    engine.value("cancel_workflow", workflow_id=flow.id)
    assert sorted(told(engine)) == ["task.cancelled"] * 2 + ["workflow.cancelled"]

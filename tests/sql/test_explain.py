"""Why a task waits: each reason, in words and as data."""

import uuid
from typing import Any

import pytest

from skiplane.tests.support.engine import Engine, refused


def codes(engine: Engine, task_id: uuid.UUID) -> list[str]:
    """Give the codes of the reasons; each comes with words."""
    told = engine.value("explain_waiting", task_id=task_id)
    for reason in told["reasons"]:
        assert reason["message"]
        assert reason["starts_when"]
        message = reason["message"]
        assert message[1:] in told["summary"]
    return [reason["code"] for reason in told["reasons"]]


def reason(engine: Engine, task_id: uuid.UUID) -> dict[str, Any]:
    [only] = engine.value("explain_waiting", task_id=task_id)["reasons"]
    assert isinstance(only, dict)
    return only


@pytest.fixture
def served(engine: Engine) -> Engine:
    """An engine with a live worker of the queue."""
    engine.rows("register_worker", worker_id=engine.worker, name="w", queues=["default"])
    return engine


ACME: dict[str, Any] = {"metadata": {"tenant_id": "acme"}}
CLOSED: list[tuple[str, str, dict[str, Any]]] = [
    ("queue_paused", "pause_queue", {"queue": "default"}),
    ("task_type_paused", "pause_task_type", {"task_type": "work"}),
    ("tenant_paused", "pause_tenant", {"tenant_id": "acme"}),
    ("breaker_open", "open_breaker", {"task_type": "work", "reason": "the mail server is down"}),
    ("breaker_open", "open_breaker", {"task_type": "work", "seconds": 60}),
    ("queue_concurrency", "set_queue", {"queue": "default", "concurrency": 0}),
    ("task_type_concurrency", "set_task_type", {"task_type": "work", "concurrency": 0}),
    ("tenant_concurrency", "set_tenant", {"tenant_id": "acme", "concurrency": 0}),
    ("key_concurrency", "set_task_type", {"task_type": "work", "key_concurrency": 0}),
]


@pytest.mark.parametrize(("code", "function", "options"), CLOSED)
def test_what_holds_a_task_back_is_named(
    served: Engine, code: str, function: str, options: dict[str, Any]
):
    task = served.submit(concurrency_key="k", **ACME)
    assert codes(served, task) == ["waiting_for_turn"]
    served.rows(function, **options)
    assert codes(served, task) == [code]


def test_all_reasons_are_told(served: Engine):
    task = served.submit(**ACME)
    served.rows("pause_queue", queue="default", actor="ada")
    served.rows("set_tenant", tenant_id="acme", concurrency=0)
    assert codes(served, task) == ["queue_paused", "tenant_concurrency"]
    assert served.value("explain_waiting", task_id=task)["reasons"][0]["by"] == "ada"


def test_limit_in_use_is_told_with_its_numbers(served: Engine):
    served.rows("set_task_type", task_type="work", concurrency=2)
    *_, last = served.many(3)
    served.claim(2)
    told = reason(served, last)
    assert (told["code"], told["running"], told["limit"]) == ("task_type_concurrency", 2, 2)
    assert "one of them ends" in told["starts_when"]


@pytest.mark.parametrize("options", [{"rate_limit": "1/min"}, {"tenant_rate_limit": "1/min"}])
def test_spent_rate_tells_when_the_next_may_start(served: Engine, options: dict[str, str]):
    served.rows("set_task_type", task_type="work", **options)
    _, second = served.many(2)
    served.skip(0)
    served.claim(1)
    served.skip(15)
    told = reason(served, second)
    assert told["code"] == "rate_limit"
    assert "45.000 s" in told["starts_when"]
    assert ("tenant_id" in told) == ("tenant_rate_limit" in options)


def test_half_open_breaker_is_told(served: Engine):
    served.rows("open_breaker", task_type="work", seconds=1)
    _, second = served.many(2)
    served.skip(2)
    served.rows("refresh_flow")
    assert len(served.claim(2).ids) == 1
    assert codes(served, second) == ["breaker_half_open"]


def test_missing_workers_are_told(engine: Engine):
    task = engine.submit()
    assert codes(engine, task) == ["no_worker"]
    engine.rows(
        "register_worker", worker_id=engine.worker, name="w", queues=["default"], task_types=["x"]
    )
    assert codes(engine, task) == ["task_type_unknown"]
    other = uuid.uuid4()
    engine.rows("register_worker", worker_id=other, name="w", queues=["default"])
    assert codes(engine, task) == ["waiting_for_turn"]
    engine.rows("drain_worker", worker_id=other)
    assert codes(engine, task) == ["workers_draining"]
    engine.skip(60)
    assert codes(engine, task) == ["no_worker"]


def test_place_in_the_line_is_told(served: Engine):
    *_, last = served.many(5)
    told = reason(served, last)
    assert (told["code"], told["ahead"]) == ("waiting_for_turn", 4)


def test_times_are_told(engine: Engine):
    later = engine.submit(delay_seconds=60)
    assert codes(engine, later) == ["not_due"]
    failed = engine.submit(retry_delay_seconds=60)
    engine.fail(engine.claim())
    assert codes(engine, failed) == ["retry_delay"]
    engine.skip(120)
    assert codes(engine, later) == codes(engine, failed) == ["scheduler_late"]


def test_what_waits_no_more_is_told(engine: Engine):
    task = engine.submit()
    claim = engine.claim()
    assert codes(engine, task) == ["running"]
    engine.finish(claim)
    told = engine.value("explain_waiting", task_id=task)
    assert (told["waiting"], told["reasons"][0]["code"]) == (False, "ended")


def test_unknown_task_is_refused(engine: Engine):
    with refused(engine.conn, "SK002", "task_id"):
        engine.rows("explain_waiting", task_id=uuid.uuid4())

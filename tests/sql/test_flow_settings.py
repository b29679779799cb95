"""Settings of queues, task types and tenants: what is kept, refused and remembered."""

from typing import Any

import pytest
from psycopg.types.json import Jsonb

from skiplane.tests.support.engine import Engine, refused

REFUSED: list[tuple[str, str, dict[str, Any]]] = [
    ("set_queue", "concurrency", {"queue": "q", "concurrency": -2}),
    ("set_queue", "priority_order", {"queue": "q", "priority_order": "random"}),
    ("set_queue", "queue", {"queue": " "}),
    ("set_task_type", "rate_limit", {"task_type": "t", "rate_limit": "fast"}),
    ("set_task_type", "rate_limit", {"task_type": "t", "rate_limit": "0/s"}),
    ("set_task_type", "rate_limit", {"task_type": "t", "rate_limit": "-1/s"}),
    ("set_task_type", "rate_limit", {"task_type": "t", "rate_limit": "1/week"}),
    ("set_task_type", "burst", {"task_type": "t", "burst": 5}),
    ("set_task_type", "burst", {"task_type": "t", "rate_limit": "1/s", "burst": 0}),
    ("set_task_type", "tenant_burst", {"task_type": "t", "tenant_burst": 5}),
    ("set_task_type", "concurrency", {"task_type": "t", "concurrency": -2}),
    ("set_task_type", "key_concurrency", {"task_type": "t", "key_concurrency": -1}),
    ("set_task_type", "breaker_threshold", {"task_type": "t", "breaker_threshold": 0}),
    ("set_task_type", "breaker_threshold", {"task_type": "t", "breaker_threshold": 1.1}),
    ("set_task_type", "breaker_window_seconds", {"task_type": "t", "breaker_window_seconds": 0}),
    ("set_task_type", "breaker_minimum", {"task_type": "t", "breaker_minimum": 0}),
    ("set_task_type", "breaker_probes", {"task_type": "t", "breaker_probes": 0}),
    ("set_tenant", "weight", {"tenant_id": "n", "weight": 0}),
    ("set_tenant", "weight", {"tenant_id": "n", "weight": 1001}),
    ("set_tenant", "rates", {"tenant_id": "n", "rates": Jsonb([])}),
    ("set_tenant", "rates", {"tenant_id": "n", "rates": Jsonb({"t": None})}),
    ("set_tenant", "rate_limit", {"tenant_id": "n", "rates": Jsonb({"t": "x"})}),
    ("open_breaker", "seconds", {"task_type": "t", "seconds": -1}),
]


@pytest.mark.parametrize(("function", "field", "options"), REFUSED)
def test_what_makes_no_sense_is_refused(
    engine: Engine, function: str, field: str, options: dict[str, Any]
):
    with refused(engine.conn, "SK001", field):
        engine.rows(function, **options)


@pytest.mark.parametrize(
    ("given", "shown", "burst"),
    [
        ("100/s", "100/s", 100),
        ("7", "7/s", 7),
        ("10/min", "10/min", 1),
        ("90/MINUTE", "1.5/s", 2),
        ("1 per hour", "1/hour", 1),
        ("3/day", "3/day", 1),
        ("10000/s", "10000/s", 10000),
    ],
)
def test_rates_are_read_and_shown(engine: Engine, given: str, shown: str, burst: float):
    told = engine.value("set_task_type", task_type="t", rate_limit=given)
    assert (told["rate_limit"], told["burst"]) == (shown, burst)


def test_what_is_not_given_is_kept(engine: Engine):
    engine.rows("set_task_type", task_type="t", rate_limit="5/s", burst=9, concurrency=3)
    told = engine.value("set_task_type", task_type="t", key_concurrency=2)
    assert (told["rate_limit"], told["burst"], told["concurrency"]) == ("5/s", 9, 3)
    told = engine.value("set_task_type", task_type="t", rate_limit="none", concurrency=-1)
    assert (told["rate_limit"], told["burst"], told["concurrency"]) == (None, None, None)
    assert told["key_concurrency"] == 2


def test_operator_stands_above_the_application(engine: Engine):
    declare: dict[str, Any] = {"task_type": "t", "settings": {"rate_limit": "5/s"}}
    assert engine.value("declare_task_type", **declare) is True
    assert engine.value("declare_task_type", **declare) is False
    told = engine.value("get_task_type", task_type="t")
    assert (told["rate_limit"], told["set_by_application"]) == ("5/s", True)
    declare["settings"] = {"rate_limit": "6/s"}
    assert engine.value("declare_task_type", **declare) is True
    engine.rows("set_task_type", task_type="t", rate_limit="7/s")
    assert engine.value("declare_task_type", **declare) is False
    told = engine.value("get_task_type", task_type="t")
    assert (told["rate_limit"], told["set_by_application"]) == ("7/s", False)


def test_unknown_setting_of_an_application_is_refused(engine: Engine):
    with refused(engine.conn, "SK001", "speed"):
        engine.rows("declare_task_type", task_type="t", settings={"speed": 1})


def test_settings_are_told_when_nothing_waits(engine: Engine):
    engine.rows("set_queue", queue="q", concurrency=9)
    engine.value("refresh_depth")
    told = engine.value("get_queue", queue="q")
    assert (told["depth"], told["oldest_waiting"], told["running"]) == (0, None, 0)
    assert [row[0]["queue"] for row in engine.rows("list_queues")] == ["q"]


def test_depth_and_running_are_told(engine: Engine):
    engine.many(5, "t", queue="q", priority="high", metadata={"tenant_id": "n"})
    engine.rows("set_queue", queue="q", concurrency=9)
    engine.rows("set_task_type", task_type="t", concurrency=9)
    engine.rows("set_tenant", tenant_id="n", concurrency=9)
    engine.claim(2, queues=["q"])
    engine.value("refresh_depth")
    told = [
        engine.value("get_queue", queue="q"),
        engine.value("get_task_type", task_type="t"),
        engine.value("get_tenant", tenant_id="n"),
    ]
    assert [(one["depth"], one["running"]) for one in told] == [(3, 2)] * 3
    assert told[0]["depth_by_priority"] == {"high": 3, "medium": 0, "low": 0}
    for kind in ("queues", "task_types", "tenants"):
        [(listed,)] = engine.rows(f"list_{kind}")
        assert listed in told


def test_who_changed_what_is_remembered(engine: Engine):
    engine.rows("pause_queue", queue="q", actor="ann")
    engine.rows("resume_queue", queue="q", actor="bob")
    actions = engine.conn.execute(
        "select actor, verb, kind, name from skiplane.flow_action order by n"
    ).fetchall()
    assert actions == [("ann", "pause", "queue", "q"), ("bob", "resume", "queue", "q")]

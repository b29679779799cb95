"""How many workers a queue needs: the documented formula, its bounds, and who reads it."""

import math
import uuid
from typing import Any

import httpx
import pytest

from skiplane.tests.api.conftest import Api, problem
from skiplane.tests.support.engine import Engine

WHERE = "/api/v1/autoscale"


def need(client: httpx.Client, **query: Any) -> dict[str, Any]:
    answer = client.get(WHERE, params={"queue": "q", **query})
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    return told


def count(engine: Engine) -> None:
    engine.conn.execute("select skiplane.refresh_depth()")


def by_formula(one: dict[str, Any], target: float) -> float:
    """Give the slots that the numbers of an answer mean, where nothing has ended."""
    left = max(target - one["oldest_seconds"], target / 10)
    return float(one["running"] + (one["depth"] - one["held"]) * one["seconds_per_task"] / left)


def test_nothing_to_do_needs_nobody(client: httpx.Client):
    told = need(client)
    assert told["desired_workers"] == 0
    assert told["queues"][0]["slots"] == 0


def test_answer_is_what_the_formula_says(client: httpx.Client, engine: Engine):
    engine.many(120, queue="q", estimated_duration_seconds=10)
    count(engine)
    told = need(client, target_seconds=60, slots_per_worker=4)
    [one] = told["queues"]
    assert (one["depth"], one["running"], one["seconds_per_task"]) == (120, 0, 10)
    assert one["slots"] == pytest.approx(by_formula(one, 60), rel=0.01)
    assert one["desired_workers"] == math.ceil(one["slots"] / 4) == told["desired_workers"]


def test_a_shorter_target_and_an_older_task_need_more(client: httpx.Client, engine: Engine):
    engine.many(100, queue="q", estimated_duration_seconds=1)
    count(engine)
    assert need(client, target_seconds=10)["slots"] > 5 * need(client, target_seconds=100)["slots"]
    young = need(client, target_seconds=1000)["slots"]
    engine.conn.execute("update skiplane.ready set due_at = due_at - interval '500 seconds'")
    count(engine)
    aged = need(client, target_seconds=1000)["slots"]
    assert aged == pytest.approx(2 * young, rel=0.1)
    # However late it is, no more than ten times the room of a fresh start.
    engine.conn.execute("update skiplane.ready set due_at = due_at - interval '1 day'")
    count(engine)
    assert need(client, target_seconds=1000)["slots"] == pytest.approx(10 * young, rel=0.1)


def test_what_runs_keeps_its_slots(client: httpx.Client, engine: Engine):
    engine.many(7, queue="q")
    engine.claim(queues=["q"], limit=7)
    count(engine)
    told = need(client, slots_per_worker=2)
    assert told["queues"][0]["running"] == 7
    assert told["desired_workers"] == 4


def test_rate_of_ends_keeps_its_slots(client: httpx.Client, engine: Engine):
    # 600 ends in five minutes that took 10 s each: 2/s x 10 s.
    engine.conn.execute(
        "insert into skiplane.rollup (shard, span, at, task_type, queue, tenant_id, succeeded,"
        " failed, cancelled, dead, retried, started, wait_ms, run_ms)"
        " values (0, 60, skiplane.clock() - interval '2 minutes', 't', 'q', 'default', 600,"
        " 0, 0, 0, 0, 600, 0, 6000000)"
    )
    [one] = need(client)["queues"]
    assert one["ends_per_second"] == 2
    assert one["slots"] == 20
    # And tells how long the waiting ones will take that have no estimate.
    engine.many(10, queue="q")
    assert need(client)["queues"][0]["seconds_per_task"] == 10


@pytest.mark.parametrize("what", ["queue", "task_type", "tenant", "breaker"])
def test_what_is_held_back_needs_nobody(client: httpx.Client, engine: Engine, what: str):
    engine.many(50, task_type="t", queue="q")
    if what == "breaker":
        engine.rows("open_breaker", task_type="t")
    else:
        engine.rows(
            f"pause_{what}",
            **{
                "queue": {"queue": "q"},
                "task_type": {"task_type": "t"},
                "tenant": {"tenant_id": "default"},
            }[what],
        )
    count(engine)
    told = need(client)
    assert (told["queues"][0]["depth"], told["queues"][0]["held"]) == (50, 50)
    assert told["desired_workers"] == 0


def test_lanes_that_claims_leave_out_need_nobody(client: httpx.Client, engine: Engine):
    engine.rows("set_tenant", tenant_id="full", concurrency=1)
    for _ in range(20):
        engine.submit(queue="q", metadata={"tenant_id": "full"})
    assert len(engine.claim(queues=["q"], limit=10).tasks) == 1
    engine.many(5, queue="q", estimated_duration_seconds=6)
    # As claims do when they have met many lanes that have no room.
    engine.conn.execute(
        "select skiplane._hold_lanes(array(select l.lane from skiplane.lane l),"
        " skiplane.clock(), 0::smallint)"
    )
    count(engine)
    [one] = need(client)["queues"]
    assert (one["depth"], one["held"], one["running"]) == (24, 19, 1)
    assert one["seconds_per_task"] == 6
    assert one["slots"] == pytest.approx(by_formula(one, 60), rel=0.01)


def test_limits_bound_it(client: httpx.Client, engine: Engine):
    engine.many(1000, queue="q", estimated_duration_seconds=100)
    count(engine)
    assert need(client, slots_per_worker=1)["desired_workers"] == 100
    assert need(client, slots_per_worker=1, max_workers=3)["desired_workers"] == 3
    engine.rows("set_queue", queue="q", concurrency=8)
    assert need(client, slots_per_worker=4)["desired_workers"] == 2
    assert need(client, queue="idle", min_workers=2)["desired_workers"] == 2
    assert need(client, queue="idle", min_workers=200)["desired_workers"] == 200


def test_several_queues_are_reckoned_together(client: httpx.Client, engine: Engine):
    for queue in ("q", "r"):
        engine.many(2, queue=queue, estimated_duration_seconds=1)
    engine.rows("register_worker", worker_id=uuid.uuid4(), name="w", queues=["s"], concurrency=3)
    count(engine)
    both = need(client, queue=["q", "r"])
    # Each rounded up alone they would be two.
    assert both["desired_workers"] == 1
    assert [one["desired_workers"] for one in both["queues"]] == [1, 1]
    every = client.get(WHERE).json()["queues"]
    assert [one["queue"] for one in every] == ["q", "r", "s"]
    assert (every[2]["workers"], every[2]["slots_per_worker"]) == (1, 3)


def test_autoscaler_of_prometheus_reads_slots(client: httpx.Client, engine: Engine):
    engine.many(60, queue="q", estimated_duration_seconds=10)
    count(engine)
    text = client.get("/metrics").text
    [line] = [one for one in text.splitlines() if one.startswith("skiplane_queue_slots_needed{")]
    name, value = line.split()
    assert name == 'skiplane_queue_slots_needed{queue="q"}'
    assert float(value) >= 10


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"target_seconds": "0"}, "target_seconds"),
        ({"slots_per_worker": "0"}, "slots_per_worker"),
        ({"min_workers": "5", "max_workers": "4"}, "max_workers"),
        ({"max_workers": "10001"}, "max_workers"),
        ({"queue": ["q", ""]}, "queue"),
        ({"queue": [f"q{n}" for n in range(101)]}, "queue"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_bad_question_is_refused(client: httpx.Client, query: dict[str, Any], field: str):
    problem(client.get(WHERE, params=query), 422, "invalid_input", field)


def test_key_of_a_tenant_may_not_ask(api: Api):
    problem(api.client("admin", "a").get(WHERE), 403, "not_allowed", "tenant_id")

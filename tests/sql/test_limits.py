"""Limits in the claim: pauses, places of concurrency, tokens of rates."""

import json
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from skiplane.tests.support import Databases
from skiplane.tests.support.engine import Claim, Engine

TENANT: dict[str, Any] = {"metadata": {"tenant_id": "acme"}}


def settle(engine: Engine) -> None:
    """Let lanes and running tasks follow what was set."""
    engine.value("refresh_flow")
    engine.value("refresh_flow")
    assert engine.one("select count(*) from skiplane.flow_change") == 0


def many_lanes(engine: Engine, count: int = 100) -> None:
    """Make the queue one of many lanes, all of them empty."""
    tasks = [{"task_type": "other", "metadata": {"tenant_id": f"t{n:04}"}} for n in range(count)]
    engine.rows("submit_tasks", tasks=json.dumps(tasks))
    engine.conn.execute("delete from skiplane.ready")


PAUSES = [
    ("queue", "default"),
    ("task_type", "work"),
    ("tenant", "acme"),
]


@pytest.mark.parametrize("lanes", [0, 100])
@pytest.mark.parametrize(("kind", "name"), PAUSES)
@pytest.mark.parametrize("settled", [False, True])
def test_what_is_paused_does_not_start(
    live: Engine, kind: str, name: str, settled: bool, lanes: int
):
    engine = live
    many_lanes(engine, lanes)
    paused = engine.submit(**TENANT)
    other = engine.submit("other", queue="q")
    engine.rows(f"pause_{kind}", **{"tenant_id" if kind == "tenant" else kind: name})
    if settled:
        settle(engine)
    assert engine.claim(9, queues=["default", "q"]).ids == [other]
    assert engine.status(paused) == "PENDING"
    engine.rows(f"resume_{kind}", **{"tenant_id" if kind == "tenant" else kind: name})
    if settled or lanes:
        # Where there are many lanes, what was found closed is left out until then.
        settle(engine)
    assert engine.claim(9, queues=["default", "q"]).ids == [paused]


SCOPES: list[tuple[str, dict[str, Any]]] = [
    ("set_queue", {"queue": "default", "concurrency": 3}),
    ("set_task_type", {"task_type": "work", "concurrency": 3}),
    ("set_tenant", {"tenant_id": "acme", "concurrency": 3}),
    ("set_task_type", {"task_type": "work", "key_concurrency": 3}),
]


@pytest.fixture(params=[*SCOPES, ("many", {})], ids=["queue", "type", "tenant", "key", "many"])
def limited(request: pytest.FixtureRequest, engine: Engine) -> Engine:
    """An engine with twenty tasks of which three may run at once."""
    function, options = request.param
    if function == "many":
        many_lanes(engine)
        function, options = SCOPES[1]
    engine.rows(function, **options)
    for _ in range(20):
        engine.submit(concurrency_key="k" if "key_concurrency" in options else None, **TENANT)
    return engine


def test_no_more_run_than_there_are_places(limited: Engine):
    first = limited.claim(2)
    second = limited.claim(9)
    assert (len(first.ids), len(second.ids)) == (2, 1)
    assert limited.claim(9).lease_id is None
    limited.finish(first)
    assert len(limited.claim(9).ids) == 2
    assert limited.running() == 3


def leave_by_failure(engine: Engine, claim: Claim) -> None:
    engine.fail(claim)


def leave_by_release(engine: Engine, claim: Claim) -> None:
    engine.fail(claim, "release")


def leave_one_by_one(engine: Engine, claim: Claim) -> None:
    for task_id in claim.ids:
        engine.finish(claim, {task_id: 1})


def leave_by_cancel(engine: Engine, claim: Claim) -> None:
    for task_id in claim.ids:
        engine.rows("cancel_task", task_id=task_id)


def leave_by_dead_worker(engine: Engine, claim: Claim) -> None:
    engine.rows("release_worker", worker_id=claim.worker)


def leave_by_lost_lease(engine: Engine, claim: Claim) -> None:
    engine.conn.execute("update skiplane.lease set until = clock_timestamp() - interval '1 s'")
    engine.rows("sweep_leases")


def leave_by_lost_answer(engine: Engine, claim: Claim) -> None:
    engine.conn.execute("update skiplane.lease set claimed_at = claimed_at - interval '9 s'")
    engine.rows("heartbeat", worker_id=claim.worker, lease_ids=[], held=[])


def leave_by_watchdog(engine: Engine, claim: Claim) -> None:
    engine.conn.execute("update skiplane.task set timeout_s = 0.1")
    engine.conn.execute(
        "update skiplane.lease set kill_at = clock_timestamp() - interval '1 s',"
        " claimed_at = claimed_at - interval '1 hour'"
    )
    engine.rows("sweep_leases")


@pytest.mark.parametrize(
    "leave",
    [
        leave_by_failure,
        leave_by_release,
        leave_one_by_one,
        leave_by_cancel,
        leave_by_dead_worker,
        leave_by_lost_lease,
        leave_by_lost_answer,
        leave_by_watchdog,
    ],
)
def test_places_come_back_whichever_way_a_task_leaves(limited: Engine, leave: Any):
    for _ in range(4):
        claim = limited.claim(9)
        assert len(claim.ids) == 3
        leave(limited, claim)
        # What it reports later gives nothing back a second time.
        limited.finish(claim)
    limited.claim(9)
    assert limited.running() == 3


def test_places_come_back_inside_one_transaction_while_others_commit(
    live: Engine, databases: Databases
):
    live.rows("set_task_type", task_type="work", concurrency=3)
    live.many(20)
    with databases.admin() as other, live.conn.transaction():
        for _ in range(4):
            claim = live.claim(9)
            assert len(claim.ids) == 3
            other.execute("select pg_current_xact_id()")
            live.finish(claim)


def test_lowered_limit_lets_nothing_start_until_enough_have_ended(engine: Engine):
    engine.rows("set_task_type", task_type="work", concurrency=5)
    engine.many(20)
    claim = engine.claim(9)
    assert len(claim.ids) == 5
    engine.rows("set_task_type", task_type="work", concurrency=2)
    engine.finish(claim, dict.fromkeys(claim.ids[:3]))
    assert engine.claim(9).lease_id is None
    engine.finish(claim, dict.fromkeys(claim.ids[3:4]))
    assert len(engine.claim(9).ids) == 1


@pytest.mark.parametrize(("function", "options"), SCOPES[:3])
def test_new_limit_counts_what_runs_already(live: Engine, function: str, options: dict[str, Any]):
    engine = live
    engine.many(20, **TENANT)
    claim = engine.claim(8)
    engine.rows(function, **options)
    settle(engine)
    assert engine.claim(9).lease_id is None
    engine.finish(claim, dict.fromkeys(claim.ids[:5]))
    assert engine.claim(9).lease_id is None
    engine.finish(claim, dict.fromkeys(claim.ids[5:]))
    assert len(engine.claim(9).ids) == 3


def test_key_lets_one_task_run_at_a_time_unless_told_otherwise(engine: Engine):
    ids = [engine.submit(concurrency_key="k") for _ in range(3)]
    free = engine.submit(concurrency_key="other")
    foreign = engine.submit(concurrency_key="k", **TENANT)
    first = engine.claim(9)
    assert set(first.ids) == {ids[0], free, foreign}
    engine.finish(first)
    assert engine.claim(9).ids == [ids[1]]


def test_limit_of_zero_lets_nothing_start(engine: Engine):
    engine.submit()
    engine.rows("set_queue", queue="default", concurrency=0)
    assert engine.claim(9).lease_id is None


def test_limit_taken_away_is_gone(engine: Engine):
    engine.many(9)
    engine.rows("set_task_type", task_type="work", concurrency=1, rate_limit="1/hour")
    assert len(engine.claim(9).ids) == 1
    engine.rows("set_task_type", task_type="work", concurrency=-1, rate_limit="none")
    assert len(engine.claim(9).ids) == 8


def test_two_limits_are_both_kept(engine: Engine):
    engine.rows("set_task_type", task_type="work", concurrency=4)
    engine.rows("set_tenant", tenant_id="acme", concurrency=2)
    engine.many(9, **TENANT)
    engine.many(9)
    claim = engine.claim(9)
    tenants = [task.get("tenant_id") for task in claim.tasks]
    assert (len(tenants), tenants.count("acme")) == (4, 2)


def test_what_is_held_back_hides_nothing(engine: Engine):
    engine.rows("set_task_type", task_type="work", concurrency=0)
    for priority in ("high", "medium", "low"):
        engine.many(50, priority=priority)
    low = engine.many(5, "free", priority="low")
    assert engine.claim(5).ids == low


def test_rate_grants_its_burst_and_then_its_rate(engine: Engine):
    engine.rows("set_task_type", task_type="work", rate_limit="10/s", burst=5)
    engine.many(200)
    engine.skip(0)
    taken = len(engine.claim(100).ids)
    for _ in range(40):
        engine.skip(0.05)
        taken += len(engine.claim(100).ids)
    assert taken == 5 + 20


def test_bucket_never_holds_more_than_the_burst(engine: Engine):
    engine.rows("set_task_type", task_type="work", rate_limit="10/s", burst=5)
    engine.many(200)
    engine.skip(0)
    assert len(engine.claim(100).ids) == 5
    engine.skip(3600)
    assert len(engine.claim(100).ids) == 5


def test_slow_rate_loses_nothing(engine: Engine):
    engine.rows("set_task_type", task_type="work", rate_limit="1/hour")
    engine.many(9)
    engine.skip(0)
    starts = 0
    for _ in range(3 * 60):
        starts += len(engine.claim(9).ids)
        engine.skip(60.001)
    assert starts == 3


def test_rate_of_each_tenant_is_its_own(engine: Engine):
    engine.rows("set_task_type", task_type="work", tenant_rate_limit="1/min", tenant_burst=2)
    engine.rows("set_tenant", tenant_id="acme", rates=Jsonb({"work": "4/s"}))
    engine.many(9)
    engine.many(9, metadata={"tenant_id": "b"})
    engine.many(9, **TENANT)
    tenants = [task.get("tenant_id") for task in engine.claim(99).tasks]
    assert [tenants.count(name) for name in (None, "b", "acme")] == [2, 2, 4]


def test_claim_that_found_only_spent_rates_says_when_to_come_again(engine: Engine):
    engine.rows("set_task_type", task_type="work", rate_limit="4/s", burst=1)
    engine.many(3)
    engine.skip(0)
    claim = engine.claim(9)
    assert claim.cursor is not None
    assert "again" not in claim.cursor
    cursor = engine.claim(9, cursor=Jsonb(claim.cursor)).cursor
    assert cursor is not None
    assert cursor["again"] == pytest.approx(0.25, abs=0.001)
    engine.skip(0.25)
    claim = engine.claim(9, cursor=Jsonb(cursor))
    assert len(claim.ids) == 1
    assert "again" not in (claim.cursor or {})


def test_held_back_task_uses_no_attempt(engine: Engine):
    task = engine.submit()
    engine.rows("open_breaker", task_type="work")
    assert engine.claim().lease_id is None
    assert engine.get(task)["attempt"] == 0
    engine.rows("close_breaker", task_type="work")
    assert engine.claim().ids == [task]

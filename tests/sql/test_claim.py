"""Claiming: what is handed out, in which order, to whom."""

import json
import uuid
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from skiplane.tests.support.engine import Claim, Engine, refused


def drain(engine: Engine, limit: int, rounds: int = 1000, **options: Any) -> list[Claim]:
    """Claim with one cursor until nothing is left."""
    claims: list[Claim] = []
    cursor: Any = None
    for _ in range(rounds):
        claim = engine.claim(limit, cursor=cursor and Jsonb(cursor), **options)
        cursor = claim.cursor
        if claim.lease_id is None:
            return claims
        claims.append(claim)
    raise AssertionError("the queue never ran empty")


def test_empty_claim_is_one_row_without_a_lease(engine: Engine):
    claim = engine.claim(10)
    assert (claim.lease_id, claim.tasks) == (None, [])


def test_claimed_task_is_described_to_its_worker(engine: Engine):
    plain = engine.submit(payload={"a": 1})
    rich = engine.submit(
        "rich", timeout_seconds=2.5, max_retries=0, metadata={"tenant_id": "t", "trace": "x"}
    )
    tasks = {task["task_id"]: task for task in engine.claim(2).tasks}
    assert tasks[str(plain)] == {
        "task_id": str(plain),
        "task_type": "work",
        "attempt": 1,
        "fence": 1,
        "queue": "default",
        "payload": {"a": 1},
    }
    extra = set(tasks[str(rich)]) - set(tasks[str(plain)])
    assert extra >= {"timeout_seconds", "tenant_id", "metadata", "max_retries"}
    assert tasks[str(rich)]["tenant_id"] == "t"


@pytest.mark.parametrize("limit", [1, 2, 7, 100])
def test_claim_takes_no_more_than_its_limit(engine: Engine, limit: int):
    engine.many(50)
    claim = engine.claim(limit)
    assert len(claim.tasks) == min(limit, 50)
    assert engine.one("select count(*) from skiplane.ready") == 50 - len(claim.tasks)
    assert engine.one("select sum(cardinality(ids)) from skiplane.lease") == len(claim.tasks)


def test_nothing_is_handed_out_twice(engine: Engine):
    ids = engine.many(30) + engine.many(30, "other") + engine.many(30, priority="low")
    claimed = [task_id for claim in drain(engine, 7) for task_id in claim.ids]
    assert sorted(claimed) == sorted(ids)


@pytest.mark.parametrize(
    "options",
    [{"limit": 0}, {"limit": -1}, {"limit": 10001}, {"lease_seconds": 0}, {"lease_seconds": 86401}],
)
def test_claim_out_of_range_is_refused(engine: Engine, options: dict[str, Any]):
    with refused(engine.conn, "SK001", next(iter(options))):
        engine.rows("claim_tasks", worker_id=uuid.uuid4(), queues=["default"], **options)


def test_only_named_queues_and_types_are_served(engine: Engine):
    engine.submit("a", queue="p")
    wanted = engine.submit("b", queue="q")
    engine.submit("a", queue="q")
    assert engine.claim(9, queues=["r"]).lease_id is None
    assert engine.claim(9, queues=["q"], task_types=["b", "x"]).ids == [wanted]
    assert engine.claim(9, queues=["q", "p"], task_types=["x"]).lease_id is None
    assert len(engine.claim(9, queues=["q", "p"]).ids) == 2
    assert engine.claim(9, queues=[]).lease_id is None


def test_due_time_then_estimate_then_submission_decide(engine: Engine):
    late = []
    late.append(engine.submit("a"))
    late.append(engine.submit("b", estimated_duration_seconds=9))
    late.append(engine.submit("c", estimated_duration_seconds=0.5))
    late.append(engine.submit("a"))
    # All four at one instant, which submissions of different transactions never share.
    engine.conn.execute("update skiplane.ready set due_at = now() - interval '1 minute'")
    early = engine.submit("b")
    engine.conn.execute(
        "update skiplane.ready set due_at = now() - interval '2 minutes' where id = %s", [early]
    )
    expected = [early, late[2], late[1], late[0], late[3]]
    assert engine.claim(5).ids == expected


def test_order_holds_over_the_types_of_one_tenant(engine: Engine):
    ids = [engine.submit(f"type{n % 3}") for n in range(12)]
    claimed = [task_id for claim in drain(engine, 4) for task_id in claim.ids]
    assert claimed == ids


def test_order_holds_when_claims_take_one(engine: Engine):
    ids = [engine.submit(f"type{n % 3}") for n in range(9)]
    assert [claim.ids[0] for claim in drain(engine, 1)] == ids


@pytest.mark.parametrize("limit", [1, 4, 50])
def test_busy_priorities_share_by_weight(engine: Engine, limit: int):
    for priority in ("high", "medium", "low"):
        engine.many(200, priority=priority)
    counts = {"high": 0, "medium": 0, "low": 0}
    cursor: Any = None
    taken = 0
    names = {10: "high", 5: "medium", 0: "low"}
    while taken < 200:
        claim = engine.claim(limit, cursor=cursor and Jsonb(cursor))
        cursor = claim.cursor
        for number, count in engine.conn.execute(
            "select priority, count(*)::int from skiplane.task where id = any (%s) group by 1",
            [claim.ids],
        ):
            counts[names[number]] += count
        taken += len(claim.ids)
    assert abs(counts["high"] - 140) <= 4
    assert abs(counts["medium"] - 50) <= 4
    assert abs(counts["low"] - 10) <= 4


def test_priority_takes_what_the_others_leave(engine: Engine):
    low = engine.many(10, priority="low")
    assert engine.claim(10).ids == low
    engine.many(2, priority="high")
    engine.many(20, priority="low")
    assert len(engine.claim(20).ids) == 20


@pytest.mark.parametrize("limit", [3, 5, 9])
def test_claim_is_full_while_any_priority_has_work(engine: Engine, limit: int):
    counts = {"high": 1, "medium": 1, "low": limit - 2}
    for priority, count in counts.items():
        engine.many(count, priority=priority)
    assert len(engine.claim(limit).ids) == limit


def test_batch_starts_with_the_highest_priority(engine: Engine):
    engine.many(2, priority="low")
    high = engine.many(2, priority="high")
    assert engine.claim(4).ids[:2] == high


def test_one_tenant_never_holds_up_another(engine: Engine):
    engine.many(500, metadata={"tenant_id": "big"})
    small = engine.many(3, metadata={"tenant_id": "small"})
    first, second, third = (claim.ids for claim in drain_some(engine, 10, 3))
    assert len(set(first) & set(small)) == 3
    assert len(second) == len(third) == 10


def drain_some(engine: Engine, limit: int, rounds: int) -> list[Claim]:
    claims = []
    cursor: Any = None
    for _ in range(rounds):
        claim = engine.claim(limit, cursor=cursor and Jsonb(cursor))
        cursor = claim.cursor
        claims.append(claim)
    return claims


def test_tenants_take_turns_when_claims_take_one(engine: Engine):
    for tenant in "abcd":
        engine.many(10, metadata={"tenant_id": tenant})
    tenants = [claim.tasks[0]["tenant_id"] for claim in drain_some(engine, 1, 12)]
    assert all(sorted(tenants[n : n + 4]) == list("abcd") for n in (0, 4, 8))


def test_many_tenants_are_all_served_beside_a_backlog(engine: Engine):
    engine.many(1000, metadata={"tenant_id": "t000"})
    tasks = [{"task_type": "work", "metadata": {"tenant_id": f"t{n:03}"}} for n in range(1, 201)]
    engine.rows("submit_tasks", tasks=json.dumps(tasks))
    served = {task.get("tenant_id") for claim in drain_some(engine, 20, 20) for task in claim.tasks}
    assert len(served) == 201


def test_full_lane_of_another_type_never_hides_work(engine: Engine):
    engine.many(2000, "unknown")
    engine.many(200, "unknown", priority="high")
    known = engine.submit("known", priority="low")
    assert engine.claim(5, task_types=["known"]).ids == [known]


@pytest.mark.parametrize("lanes", [10, 63, 64, 200])
def test_empty_lanes_never_hide_work(engine: Engine, lanes: int):
    """Lanes stay a minute when they are idle; however many there are, work behind them is found."""
    tasks = [{"task_type": "work", "metadata": {"tenant_id": f"t{n:03}"}} for n in range(lanes)]
    engine.rows("submit_tasks", tasks=json.dumps(tasks))
    for claim in drain(engine, 50):
        engine.finish(claim)
    last = engine.submit(metadata={"tenant_id": "z"})
    assert [claim.ids for claim in drain_some(engine, 5, 1)] == [[last]]


def test_work_behind_thousands_of_empty_lanes_is_found_in_a_few_claims(engine: Engine):
    tasks = [{"task_type": "work", "metadata": {"tenant_id": f"t{n:04}"}} for n in range(2500)]
    engine.rows("submit_tasks", tasks=json.dumps(tasks))
    engine.conn.execute("delete from skiplane.ready")
    last = engine.submit(metadata={"tenant_id": "z"})
    found = [task_id for claim in drain_some(engine, 5, 4) for task_id in claim.ids]
    assert found == [last]


@pytest.mark.parametrize("missing", ["worker_id", "queues", "limit", "lease_seconds"])
def test_claim_without_what_it_needs_is_refused(engine: Engine, missing: str):
    engine.submit()
    arguments: dict[str, Any] = {
        "worker_id": uuid.uuid4(),
        "queues": ["default"],
        "limit": 1,
        "lease_seconds": 10,
        missing: None,
    }
    with refused(engine.conn, "SK001", missing):
        engine.rows("claim_tasks", **arguments)


def test_expired_task_is_never_handed_out(engine: Engine):
    soon = engine.one("select skiplane.clock() + interval '5 seconds'")
    engine.many(3, expires_at=soon)
    good = engine.many(2)
    engine.skip(5)
    assert engine.claim(10).ids == good
    assert engine.claim(10).lease_id is None


def test_lease_ends_after_the_seconds_asked_for(engine: Engine):
    engine.submit()
    now = engine.one("select set_config('skiplane.now', skiplane.clock()::text, true)")
    engine.claim(lease_seconds=2.5)
    assert engine.one("select (until - %s::timestamptz)::text from skiplane.lease", [now]) == (
        "00:00:02.5"
    )


def test_kill_time_comes_from_the_shortest_time_out(engine: Engine):
    engine.submit(timeout_seconds=30)
    engine.submit("other", timeout_seconds=5)
    engine.submit("third")
    engine.claim(3)
    assert engine.one("select (kill_at - claimed_at)::text from skiplane.lease") == "00:00:15"


def test_attempt_and_fence_are_counted_by_the_claim(engine: Engine):
    task_id = engine.submit(max_retries=5)
    for number in (1, 2, 3):
        [task] = engine.claim().tasks
        assert (task["attempt"], task["fence"]) == (number, number)
        engine.value("release_worker", worker_id=engine.worker)
    engine.claim()
    engine.value("release_worker", worker_id=engine.worker, charge=False)
    [task] = engine.claim().tasks
    assert (task["attempt"], task["fence"]) == (4, 5)
    assert engine.get(task_id)["attempt"] == 4


def test_odd_payload_reaches_its_worker_unharmed(engine: Engine):
    payload = {"text": 'quote " back \\ slash / new \n line é 🚀 ‮', "n": [1e10, -0.5, None, True]}
    engine.submit('type "x"', payload=payload, queue="a,b")
    [task] = engine.claim(queues=["a,b"]).tasks
    assert (task["payload"], task["task_type"]) == (payload, 'type "x"')

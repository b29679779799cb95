"""Who runs next: weights of tenants and priorities, and what a claim costs."""

import json
from collections import Counter
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from skiplane.tests.support.engine import Engine
from skiplane.tests.support.plans import explained


def submit_for(engine: Engine, counts: dict[str, int], **options: Any) -> None:
    for tenant, count in counts.items():
        engine.many(count, metadata={"tenant_id": tenant}, **options)


def served(engine: Engine, limit: int, total: int) -> Counter[str]:
    """Claim with one cursor, as one worker does, and count the starts of each tenant."""
    counts: Counter[str] = Counter()
    cursor: Any = None
    while counts.total() < total:
        claim = engine.claim(limit, cursor=cursor and Jsonb(cursor))
        cursor = claim.cursor
        assert claim.ids, "there was work, and none was given"
        counts.update(task["tenant_id"] for task in claim.tasks)
    return counts


def jain(shares: list[int]) -> float:
    """Jain's fairness index: 1 when all are equal, 1/n when one has all."""
    return sum(shares) ** 2 / (len(shares) * sum(share**2 for share in shares))


@pytest.mark.parametrize("limit", [1, 7, 64, 200])
def test_equal_tenants_have_equal_shares(engine: Engine, limit: int):
    """However much each has waiting."""
    submit_for(engine, {f"t{n:02}": 30 + 10 * (n % 5) for n in range(100)})
    counts = served(engine, limit, 1200)
    assert len(counts) == 100
    assert jain(list(counts.values())) >= 0.99


@pytest.mark.parametrize("limit", [1, 3, 16, 100])
@pytest.mark.parametrize("types", [1, 3])
def test_weights_are_kept(engine: Engine, limit: int, types: int):
    weights = {"large": 10, "middle": 5, "small": 1}
    for tenant, weight in weights.items():
        engine.rows("set_tenant", tenant_id=tenant, weight=weight)
    for number in range(types):
        submit_for(engine, dict.fromkeys(weights, 1600), task_type=f"type{number}")
    counts = served(engine, limit, 800)
    for tenant, weight in weights.items():
        assert counts[tenant] / counts.total() == pytest.approx(weight / 16, rel=0.05)


def test_weights_are_kept_among_many_tenants(engine: Engine):
    engine.rows("set_tenant", tenant_id="t000", weight=20)
    submit_for(engine, {f"t{n:03}": 200 if n == 0 else 12 for n in range(100)})
    counts = served(engine, 50, 714)
    assert counts["t000"] / (counts.total() / 119) == pytest.approx(20, rel=0.15)


def test_share_that_is_not_used_goes_to_the_others(engine: Engine):
    engine.rows("set_tenant", tenant_id="large", weight=100)
    submit_for(engine, {"large": 3, "small": 50})
    assert served(engine, 10, 50)["small"] >= 47


def test_heavy_backlog_never_holds_up_one_task(engine: Engine):
    submit_for(engine, {"heavy": 20_000})
    cursor = engine.claim(8).cursor
    submit_for(engine, {"light": 1})
    claim = engine.claim(8, cursor=Jsonb(cursor))
    assert "light" in {task["tenant_id"] for task in claim.tasks}


def test_strict_queue_serves_the_highest_first(engine: Engine):
    engine.rows("set_queue", queue="strict", priority_order="strict")
    low = engine.many(4, queue="strict", priority="low")
    high = engine.many(4, queue="strict", priority="high")
    medium = engine.many(4, queue="strict", priority="medium")
    claimed = [task for _ in range(4) for task in engine.claim(3, queues=["strict"]).ids]
    assert claimed == high + medium + low


def test_strict_queue_is_strict_beside_another(engine: Engine):
    engine.rows("set_queue", queue="strict", priority_order="strict")
    low = engine.many(50, queue="strict", priority="low")
    engine.many(50, queue="strict", priority="high")
    engine.many(50, queue="other", priority="low")
    claim = engine.claim(40, queues=["strict", "other"])
    assert len(claim.ids) == 40
    assert not set(low) & set(claim.ids)


def many_tenants(engine: Engine, count: int, task_type: str) -> None:
    for start in range(0, count, 1000):
        tasks = [
            {"task_type": task_type, "metadata": {"tenant_id": f"t{n:05}"}}
            for n in range(start, min(count, start + 1000))
        ]
        engine.rows("submit_tasks", tasks=json.dumps(tasks))


def pages_of_a_claim(engine: Engine, limit: int, queue: str = "default") -> int:
    cursor: Any = None
    for _ in range(6):  # plans are made, marks are learnt
        cursor = engine.claim(limit, queues=[queue], cursor=cursor and Jsonb(cursor)).cursor
    with explained(engine.conn) as plans:
        assert len(engine.claim(limit, queues=[queue], cursor=Jsonb(cursor)).ids) == limit
    return plans.buffers()


@pytest.mark.parametrize("limit", [1, 20])
def test_claim_costs_no_more_with_ten_thousand_tenants(admin_live: Engine, limit: int):
    many_tenants(admin_live, 200, "work")
    few = pages_of_a_claim(admin_live, limit)
    many_tenants(admin_live, 10_000, "work")
    assert pages_of_a_claim(admin_live, limit) <= 2 * few


def test_queue_of_few_lanes_pays_nothing_for_another_of_many(admin_live: Engine):
    """Statistics say that most lanes are of any queue that is asked for."""
    engine = admin_live
    submit_for(engine, {f"t{n}": 20 for n in range(10)}, queue="small")
    before = pages_of_a_claim(engine, 1, "small")
    many_tenants(engine, 10_000, "work")
    engine.conn.execute("vacuum analyze skiplane.lane")
    engine.conn.execute("discard plans")
    assert pages_of_a_claim(engine, 1, "small") <= before + 60


def test_tenant_with_two_lanes_of_one_key_has_one_share(engine: Engine):
    """As two producers make them that come first at the same instant."""
    submit_for(engine, {f"t{n:02}": 20 for n in range(80)})
    engine.conn.execute(
        "insert into skiplane.lane (shard, queue, priority, tenant_id, task_type, created_at)"
        " select shard, queue, priority, tenant_id, task_type, created_at from skiplane.lane"
        " where tenant_id in ('t07', 't40', 't79')"
    )
    engine.conn.execute(
        "update skiplane.ready r set lane = n.lane from skiplane.lane o"
        " join (select tenant_id, max(lane) as lane from skiplane.lane group by 1"
        " having count(*) > 1) n on n.tenant_id = o.tenant_id and n.lane <> o.lane"
        " where r.lane = o.lane and r.attempt = 0 and get_byte(uuid_send(r.id), 15) % 2 = 0"
    )
    counts = served(engine, 30, 800)
    assert len(counts) == 80
    assert jain(list(counts.values())) >= 0.99


HOLDS: list[tuple[str, dict[str, Any]]] = [
    ("pause_task_type", {"task_type": "held"}),
    ("set_task_type", {"task_type": "held", "concurrency": 0}),
    ("set_task_type", {"task_type": "held", "key_concurrency": 1, "concurrency": 0}),
]


@pytest.mark.parametrize(("function", "options"), HOLDS)
def test_held_back_tenants_cost_a_claim_nothing(
    admin_live: Engine, function: str, options: dict[str, Any]
):
    engine = admin_live
    many_tenants(engine, 100, "free")
    engine.many(200, "free")
    before = pages_of_a_claim(engine, 5)
    many_tenants(engine, 5000, "held")
    engine.rows(function, **options)
    for _ in range(8):
        engine.value("refresh_flow")
    assert engine.one("select count(*) from skiplane.flow_change") == 0
    assert pages_of_a_claim(engine, 5) <= 2 * before + 100


def test_tenants_that_are_full_are_left_out_until_they_have_room(admin_live: Engine):
    engine = admin_live
    many_tenants(engine, 100, "free")
    for number in range(150):
        engine.rows("set_tenant", tenant_id=f"x{number:03}", concurrency=1)
    submit_for(engine, {f"x{n:03}": 3 for n in range(150)})
    first = [engine.claim(50, cursor=None) for _ in range(10)]
    taken = Counter(task["tenant_id"] for claim in first for task in claim.tasks)
    assert all(taken[f"x{n:03}"] <= 1 for n in range(150))
    cursor: Any = None
    for _ in range(20):
        claim = engine.claim(50, cursor=cursor and Jsonb(cursor))
        cursor = claim.cursor
        taken.update(task["tenant_id"] for task in claim.tasks)
    assert all(taken[f"x{n:03}"] == 1 for n in range(150))
    assert engine.one("select count(*) from skiplane.lane where held_by is not null") > 0
    for claim in first:
        if claim.lease_id:
            engine.finish(claim)
    for _ in range(5):
        engine.value("refresh_flow")
    again: Counter[str] = Counter()
    for _ in range(30):
        claim = engine.claim(50, cursor=cursor and Jsonb(cursor))
        cursor = claim.cursor
        again.update(task["tenant_id"] for task in claim.tasks)
    freed = {task["tenant_id"] for claim in first for task in claim.tasks} - {None}
    assert {name for name in again if name.startswith("x")} == {
        name for name in freed if name.startswith("x")
    }

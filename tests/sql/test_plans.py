"""Plans of the hot functions: bounded by the batch, whatever the statistics say."""

import json
import re
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import psycopg
import pytest

from skiplane.tests.support import Databases
from skiplane.tests.support.engine import Engine
from skiplane.tests.support.plans import explained, rows_read, told

MANY = 50_000
HOT = re.compile(
    r"^(ready|lease|lane|lane_mark|timer|task|outcome|attempt|watermark)(_p\d+|_far)?$"
)
MODES = ("auto", "force_generic_plan", "force_custom_plan")
STATES = ("never analysed", "analysed empty", "analysed full", "held snapshot")


def fill(engine: Engine) -> None:
    """Put many tasks into every hot place."""
    for _ in range(MANY // 10_000):
        engine.many(10_000, queue="big")
    engine.many(200, queue="rare")
    engine.submit(queue="big", delay_seconds=3600)
    # A row like this one for each second and a half of the coming day.
    engine.conn.execute(
        "insert into skiplane.timer select t.* from skiplane.timer w, generate_series(1, %s) n"
        " cross join lateral jsonb_populate_record(w, jsonb_build_object("
        "'id', gen_random_uuid(), 'due_at', w.due_at + n * interval '1.5 s')) t",
        [MANY],
    )
    engine.rows(
        "submit_tasks",
        tasks=json.dumps(
            [
                {"task_type": "t", "queue": "lanes", "metadata": {"tenant_id": str(n)}}
                for n in range(50)
            ]
        ),
    )
    engine.conn.execute(
        "insert into skiplane.lease (lease_id, shard, worker_id, until, claimed_at, kill_at, ids,"
        " days, attempts, fences, started) select nextval('skiplane.lease_number'), 0,"
        " gen_random_uuid(), clock_timestamp() + interval '1 hour', clock_timestamp(),"
        " clock_timestamp() + interval '2 hours', array[gen_random_uuid()], array[current_date],"
        " '{1}', '{1}', '{null}' from generate_series(1, 20000)"
    )


def empty(engine: Engine) -> None:
    """Take everything out again, as workers and schedulers do; the dead rows stay."""
    for table in ("ready", "lease", "timer"):
        engine.conn.execute(f"delete from skiplane.{table}".encode())


def settle(engine: Engine) -> None:
    """Let the marks follow."""
    state = engine.one("select skiplane.refresh_lanes(null)::text")
    for _ in range(2):
        state = engine.one("select skiplane.refresh_lanes(%s::jsonb)::text", [state])


# One process per state: each is costly to make.
@pytest.fixture(
    scope="module",
    params=[
        pytest.param(state, marks=pytest.mark.xdist_group(f"plans {state}")) for state in STATES
    ],
)
def loaded(request: pytest.FixtureRequest, databases: Databases) -> Iterator[Engine]:
    """A superuser's engine on a database whose statistics mislead the planner."""
    with ExitStack() as clean:
        name = clean.enter_context(databases.fresh(template=databases.migrated_template()))
        conn = clean.enter_context(databases.admin(name))
        engine = Engine(conn)
        for (table,) in conn.execute(
            "select oid::regclass::text from pg_class where relkind = 'r'"
            " and relnamespace = 'skiplane'::regnamespace"
        ).fetchall():
            conn.execute(f"alter table {table} set (autovacuum_enabled = off)".encode())
        if request.param == "analysed empty":
            conn.execute("vacuum analyze")
        if request.param == "held snapshot":
            holder = clean.enter_context(psycopg.connect(databases.admin_dsn(name)))
            holder.execute("set transaction isolation level repeatable read")
            holder.execute("select 1")
        fill(engine)
        if request.param in ("analysed full", "held snapshot"):
            conn.execute("analyze")
            empty(engine)
        settle(engine)
        yield engine


def use_hot_functions(engine: Engine) -> None:
    """Call each hot function a few times, so that cached plans may turn generic."""
    cursor: Any = None
    for number in range(7):
        engine.many(2, queue="rare", timeout_seconds=60)
        engine.many(8, queue="big")
        hour = engine.one("select clock_timestamp() + interval '1 hour'")
        expired = engine.submit(queue="gone", expires_at=hour)
        engine.conn.execute(
            "update skiplane.ready set expires_at = clock_timestamp() where id = %s", [expired]
        )
        late = engine.submit(queue="rare", delay_seconds=0.001)
        claim = engine.claim(1, queues=["rare"])
        assert len(claim.ids) == 1
        engine.fail(claim, "error" if number % 2 else "permanent")
        claim = engine.claim(
            8, queues=["big", "rare", "lanes"], cursor=cursor and json.dumps(cursor)
        )
        cursor = claim.cursor
        assert len(claim.ids) == 8
        engine.value(
            "heartbeat",
            worker_id=claim.worker,
            lease_ids=[claim.lease_id],
            held=claim.ids,
            lease_seconds=0.1,
            running_us=json.dumps({str(claim.ids[0]): 5}),
        )
        engine.rows("extend_leases", worker_ids=[claim.worker], lease_seconds=60)
        engine.finish(claim, dict.fromkeys(claim.ids[:3], 1))
        engine.value("release_worker", worker_id=claim.worker)
        engine.claim(3, queues=["big"], task_types=["work", "nothing"])
        engine.value("cancel_task", task_id=engine.submit(queue="big"))
        engine.value("get_task", task_id=engine.submit(queue="big"))
        promoted, _, _ = engine.value("promote_tasks", limit=20)
        assert promoted >= 1
        assert engine.places(late) == ["ready"]
        engine.value("sweep_leases", limit=20)
        assert engine.value("expire_tasks", limit=20) == 1
        engine.one("select skiplane.refresh_lanes('{}')")
        engine.value("wake_workers")


@pytest.mark.parametrize("mode", MODES)
def test_hot_functions_read_only_what_they_need(loaded: Engine, mode: str):
    loaded.conn.execute(f"set plan_cache_mode = {mode}".encode())
    loaded.conn.execute("discard plans")
    with explained(loaded.conn) as plans:
        use_hot_functions(loaded)
    assert len(plans.found) > 100
    seen = set()
    for node, query in plans.scans():
        if not HOT.match(node["Relation Name"]) or "union all select" in query:
            continue
        seen.add(node["Relation Name"].split("_p")[0])
        assert rows_read(node) <= 300, told(node, query)
        if node["Node Type"] == "Seq Scan":
            # An empty table or partition of today may be read whole, for want of anything to read.
            assert rows_read(node) == 0, told(node, query)
    assert seen >= {"ready", "lease", "lane", "lane_mark", "timer", "task"}


def test_dead_rows_cost_a_claim_nothing(loaded: Engine):
    """Pages touched, since dead rows are not counted as rows."""
    settle(loaded)
    loaded.many(50, queue="big")
    loaded.claim(1, queues=["big"])
    with explained(loaded.conn) as plans:
        for _ in range(10):
            assert len(loaded.claim(1, queues=["big"], worker=uuid.uuid4()).ids) == 1
    assert plans.buffers() < 1000


@pytest.mark.parametrize("grown", [20, 5000])
@pytest.mark.parametrize("joins", [True, False])
def test_claim_of_one_takes_one_with_stale_statistics(live: Engine, grown: int, joins: bool):
    """A subquery with LIMIT inside UPDATE or DELETE may run once per row."""
    live.conn.execute("alter table skiplane.ready set (autovacuum_enabled = off)")
    live.submit()
    live.conn.execute("vacuum analyze skiplane.ready")
    live.many(grown)
    if not joins:
        live.conn.execute("set enable_hashjoin = off")
        live.conn.execute("set enable_mergejoin = off")
    for number in range(1, 8):
        claim = live.claim(1)
        assert len(claim.ids) == 1
        assert live.one("select sum(cardinality(ids)) from skiplane.lease") == number
        assert live.one("select count(*) from skiplane.ready") == grown + 1 - number

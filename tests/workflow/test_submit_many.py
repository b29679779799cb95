"""Submitting many workflows in one call."""

import random
from typing import Any
from uuid import UUID

import pytest
from psycopg.types.json import Jsonb

from skiplane import IdempotencyConflict, InvalidInput, Skiplane
from skiplane.tests.support.engine import Document, Engine, refused
from skiplane.tests.support.races import Racer

from .flows import Flow, Spec, stuck, tasks

CHAIN = tasks("a b<a c<b")
DIAMOND = tasks("a b<a c<a d<b,c:all_done")


def submit(engine: Engine, *flows: Document) -> list[Document]:
    rows = engine.conn.execute("select skiplane.submit_workflows(%s)", [Jsonb(list(flows))])
    return [row[0] for row in rows]


def flow(spec: Spec, **fields: Any) -> Document:
    return {"workflow_name": "flow", "tasks": spec, **fields}


def stored(engine: Engine, answer: Document) -> Document:
    """Give all that can be seen of a workflow, but for ids and times."""
    graph = engine.value("workflow_graph", workflow_id=answer["workflow_id"])
    order = [node["task_id"] for node in graph["nodes"]]
    record = engine.value("get_workflow", workflow_id=answer["workflow_id"])
    fields = ("workflow_name", "status", "tenant_id", "task_count", "pending", "dag_definition")
    seen: Document = {name: record[name] for name in fields}
    members = engine.conn.execute(
        "select task_name, tasks.task_type, tasks.queue, tasks.priority, tasks.payload::text,"
        " tasks.max_retries, tasks.metadata::text,"
        " status, tasks.scheduled_at - tasks.created_at, t.id is not null, b.waiting, b.run_when,"
        " b.lane, b.expires_at is not null, m.delay_s, cardinality(m.parents)"
        " from skiplane.tasks join skiplane.workflow_task m on m.id = task_id"
        " left join skiplane.blocked b on b.id = task_id"
        " left join skiplane.task t on t.id = task_id"
        " where tasks.workflow_id = %s order by task_name",
        [answer["workflow_id"]],
    )
    seen["tasks"] = members.fetchall()
    seen["edges"] = sorted((e["source"], e["target"]) for e in graph["edges"])
    seen["answered"] = [(task["name"], task["status"]) for task in answer["tasks"]]
    assert order == [task["task_id"] for task in answer["tasks"]]
    return seen


def any_spec(chance: random.Random) -> Spec:
    made: Spec = []
    for number in range(chance.randint(1, 7)):
        before = [one["name"] for one in made]
        after = chance.sample(before, min(number, chance.randint(0, 3)))
        one: Document = {"name": f"t{number}", "task_type": chance.choice("xyz")}
        one |= {"dependencies": after, "payload": {"n": chance.randrange(3)}}
        if after and chance.random() < 0.3:
            one["trigger"] = chance.choice(["all_done", "any_failed"])
        one |= chance.choice([{}, {}, {"queue": "q"}, {"priority": "high"}, {"delay_seconds": 60}])
        made.append(one)
    return made


@pytest.mark.parametrize("seed", range(6))
def test_many_in_a_call_are_what_each_would_be_alone(engine: Engine, seed: int):
    chance = random.Random(seed)
    specs = [any_spec(chance) for _ in range(8)]
    metadata = [{}, {}, {"tenant_id": "acme", "x": 1}, {"tenant_id": "beta"}]
    flows = []
    for number in range(30):
        # Mostly the shape of the one before, which is read once, with other payloads.
        spec = [{**one, "payload": {"n": chance.randrange(9)}} for one in specs[number // 4]]
        flows.append(flow(spec, metadata=metadata[number // 8], workflow_name=f"f{number % 3}"))
    many = submit(engine, *flows)
    for given, answer in zip(flows, many, strict=True):
        alone = engine.value(
            "submit_workflow", name=given["workflow_name"], tasks=Jsonb(given["tasks"]),
            metadata=Jsonb(given["metadata"]),
        )  # fmt: skip
        assert stored(engine, answer) == stored(engine, alone)
    assert stuck(engine) == []


def test_they_run_in_the_order_of_the_list(engine: Engine):
    answers = submit(engine, *(flow(CHAIN) for _ in range(200)))
    claimed = [task["task_id"] for task in engine.claim(200, task_types=["a"]).tasks]
    assert claimed == [answer["tasks"][0]["task_id"] for answer in answers]


def test_key_makes_one_workflow_within_a_call_and_over_calls(engine: Engine):
    before = Flow(engine, CHAIN, idempotency_key="old")
    made = submit(
        engine,
        flow(DIAMOND, idempotency_key="new"),
        flow(CHAIN, idempotency_key="old"),
        flow(CHAIN),
        flow(DIAMOND, idempotency_key="new"),
        flow(DIAMOND, idempotency_key="new", metadata={"tenant_id": "other"}),
    )
    assert [one["duplicate"] for one in made] == [False, True, False, True, False]
    assert made[1]["workflow_id"] == str(before.id)
    assert made[0]["workflow_id"] == made[3]["workflow_id"] != made[4]["workflow_id"]
    assert [task["name"] for task in made[3]["tasks"]] == ["a", "b", "c", "d"]
    assert engine.one("select count(*) from skiplane.workflow") == 4
    with refused(engine.conn, "SK004", "workflows[1].idempotency_key", "old"):
        submit(engine, flow(CHAIN), flow(DIAMOND, idempotency_key="old"))


REFUSED = [
    ({"a": 1}, "SK001", "workflows"),
    ([flow(CHAIN), 7], "SK001", "workflows[1].workflow"),
    ([flow(CHAIN), flow(tasks("a<b b<a"))], "SK001", "workflows[1].tasks[1].dependencies"),
    ([flow(CHAIN), flow([])], "SK001", "workflows[1].tasks"),
    ([flow(CHAIN), {"workflow_name": "w"}], "SK001", "workflows[1].tasks"),
    ([flow(CHAIN), flow(CHAIN, workflow_name="")], "SK001", "workflows[1].workflow_name"),
    ([flow(CHAIN), flow(CHAIN, colour="red")], "SK001", "workflows[1].colour"),
    ([flow(CHAIN), flow(CHAIN, metadata=7)], "SK001", "workflows[1].metadata"),
    ([flow(CHAIN), flow(CHAIN, idempotency_key=7)], "SK001", "workflows[1].idempotency_key"),
    (
        [flow(CHAIN), flow([{**CHAIN[0], "payload": {"x": "y" * 1_100_000}}, *CHAIN[1:]])],
        "SK007", "workflows[1].tasks[0].payload",
    ),
    ([flow(CHAIN)] * 10_001, "SK007", "workflows"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "state", "field"), REFUSED)
def test_refusal_names_the_place_and_stores_nothing(
    engine: Engine, given: Any, state: str, field: str
):
    with refused(engine.conn, state, field):
        engine.conn.execute("select skiplane.submit_workflows(%s)", [Jsonb(given)])
    assert engine.one("select count(*) from skiplane.workflow") == 0


def test_no_workflow_is_no_error(engine: Engine):
    assert submit(engine) == []


def test_same_keys_in_opposite_order_do_not_wait_in_a_circle(
    first: Engine, second: Engine, watcher: Engine
):
    for number in range(5):
        there = [flow(CHAIN, idempotency_key=f"{number}-{n}") for n in range(100)]
        racers = [
            Racer(engine, "submit_workflows", workflows=Jsonb(flows))
            for engine, flows in ((first, there), (second, there[::-1]))
        ]
        made, again = ([row[0] for row in racer.rows()] for racer in racers)
        ids = [one["workflow_id"] for one in made]
        assert ids == [one["workflow_id"] for one in reversed(again)]
    assert watcher.one("select count(*) from skiplane.workflow") == 500


async def test_python_submits_many_and_gives_their_handles(dsn: str):
    async with Skiplane(dsn) as app:

        @app.task("add")
        async def add(number: int) -> int:
            return number

        def build(number: int) -> Any:
            made = app.workflow("sums")
            made.task(add.step(number), name="last", after=made.task(add, {"number": 1}))
            return made

        flows = [build(number) for number in range(5)]
        keys = ["k0", None, "k2", None, None]
        handles = await app.submit_workflows(flows, idempotency_keys=keys, tenant="acme")
        assert [h.duplicate for h in handles] == [False] * 5
        assert (await app.get(handles[3].tasks["last"].id)).payload == {"number": 3}
        assert (await app.get_workflow(handles[4].id)).tenant_id == "acme"
        again = app.submit_workflows_sync(flows[:1], idempotency_keys=["k0"], tenant="acme")
        assert (again[0], again[0].duplicate) == (handles[0], True)
        with pytest.raises(IdempotencyConflict):
            await app.submit_workflows(flows[1:2], idempotency_keys=["k0"], tenant="acme")
        with pytest.raises(InvalidInput, match="keys"):
            await app.submit_workflows(flows, idempotency_keys=["k0"])
        flows[2].task(add.step(1), name="x", after="nope")
        with pytest.raises(InvalidInput) as caught:
            await app.submit_workflows(flows)
        assert caught.value.field == "workflows[2].tasks[2].dependencies"
        assert len(await app.list_workflows(name="sums")) == 5
        assert isinstance(handles[0].id, UUID)
        app.close_sync()

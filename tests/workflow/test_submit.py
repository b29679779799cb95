"""Submitting a workflow: what is refused, and that nothing of it is stored then."""

import itertools
import time
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from skiplane.tests.support.engine import Engine, refused

from .flows import Flow, ready, tasks


def submit(engine: Engine, given: Any, **options: Any) -> Any:
    return engine.value(
        "submit_workflow", name=options.pop("name", "flow"), tasks=Jsonb(given), **options
    )


def task(name: Any = "a", **fields: Any) -> dict[str, Any]:
    return {"name": name, "task_type": "work", **fields}


REFUSED = [
    ([], "tasks", "[]"),
    ({"a": 1}, "tasks", '{"a": 1}'),
    (None, "tasks", "null"),
    ([7], "tasks[0]", "7"),
    ([{"task_type": "work"}], "tasks[0].name", "null"),
    ([task(7)], "tasks[0].name", "7"),
    ([task("")], "tasks[0].name", ""),
    ([task("a"), task("a ")], "tasks[1].name", "a "),
    ([task("x" * 10_000)], "tasks[0].name", "x" * 200),
    ([task("a"), task("b"), task("a")], "tasks[2].name", "a"),
    ([task("caf\u00e9"), task("cafe\u0301")], "tasks[1].name", "caf\u00e9"),
    ([task(dependencies=["a"])], "tasks[0].dependencies", "a"),
    ([task(dependencies=["nope"])], "tasks[0].dependencies", "nope"),
    ([task("a"), task("b", dependencies=["a", "A"])], "tasks[1].dependencies", "A"),
    ([task(dependencies=[None])], "tasks[0].dependencies", "[null]"),
    ([task(dependencies="b"), task("b")], "tasks[0].dependencies", '"b"'),
    ([task(dependencies=[["b"]]), task("b")], "tasks[0].dependencies", '[["b"]]'),
    ([task("a"), task("b", queue=7)], "tasks[1].queue", "7"),
    ([task("a"), task("b", max_retries=-1)], "tasks[1].max_retries", "-1"),
    ([task("a"), {"name": "b"}], "tasks[1].task_type", "null"),
    ([task(colour="red")], "tasks[0].colour", "red"),
    ([task(idempotency_key="k")], "tasks[0].idempotency_key", "k"),
    ([task(trigger="all_done")], "tasks[0].trigger", "all_done"),
    ([task("a"), task("b", dependencies=["a"], trigger="never")], "tasks[1].trigger", "never"),
    ([task("a"), task("b", dependencies=["a"], trigger=7)], "tasks[1].trigger", "7"),
    ([task(metadata={"tenant_id": "x"})], "tasks[0].metadata.tenant_id", "x"),
    ([task(payload={"x": [1e299, 1]}), task("b", metadata=7)], "tasks[1].metadata", "7"),
]


@pytest.mark.parametrize(("given", "field", "value"), REFUSED)
def test_refusal_names_place_value_and_remedy(engine: Engine, given: Any, field: str, value: str):
    with refused(engine.conn, "SK001", field, value):
        submit(engine, given)


def test_refusal_stores_nothing(engine: Engine):
    with refused(engine.conn, "SK001"):
        submit(engine, [*tasks("a b<a c<b"), task("d", dependencies=["nope"])])
    for table in ("task", "ready", "workflow", "workflow_state", "workflow_task", "blocked"):
        assert engine.one(f"select count(*) from skiplane.{table}") == 0


@pytest.mark.parametrize("name", ["", " ", "x" * 201, "a\tb"])
def test_workflow_needs_a_usable_name(engine: Engine, name: str):
    with refused(engine.conn, "SK001", "workflow_name"):
        submit(engine, [task()], name=name)


def test_too_many_tasks_are_refused_with_their_number(engine: Engine):
    with refused(engine.conn, "SK007", "tasks", "10001 tasks"):
        submit(engine, [task(str(n)) for n in range(10_001)])


def test_too_large_payload_names_its_task(engine: Engine):
    with refused(engine.conn, "SK007", "tasks[1].payload"):
        submit(engine, [task(), task("b", payload="x" * 1_100_000)])


@pytest.mark.parametrize(
    ("line", "circle"),
    [
        ("a<b b<a", '"a" -> "b" -> "a"'),
        ("d a<c b<a c<b e<d", '"a" -> "b" -> "c" -> "a"'),
        ("z<c a<c b<a c<b y<z", '"a" -> "b" -> "c" -> "a"'),
    ],
)
def test_circle_is_named(engine: Engine, line: str, circle: str):
    with refused(engine.conn, "SK001") as caught:
        submit(engine, tasks(line))
    said = str(caught.value.diag.message_detail)
    names = said.split(" -> ")
    assert names[0] == names[-1]
    # The same circle, wherever it was entered.
    turned = names[:-1] * 2
    wanted = circle.split(" -> ")[:-1]
    assert any(turned[n : n + len(wanted)] == wanted for n in range(len(wanted)))
    assert len(names) == len(wanted) + 1


def test_long_circle_is_found_at_once_and_named_in_part(engine: Engine):
    count = 10_000
    line = [task(f"n{n}", dependencies=[f"n{(n - 1) % count}"]) for n in range(count)]
    begun = time.monotonic()
    with refused(engine.conn, "SK001") as caught:
        submit(engine, line)
    assert time.monotonic() - begun < 10
    assert "(9984 more)" in str(caught.value.diag.message_primary)


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_diamond_is_no_circle_in_any_order(engine: Engine, order: tuple[int, ...]):
    diamond = tasks("a b<a c<a d<b,c")
    flow = Flow(engine, [diamond[n] for n in order])
    for names in (("a",), ("b", "c"), ("d",)):
        assert ready(engine) == list(names)
        flow.run(*names)
    assert flow.status == "SUCCEEDED"


def test_join_that_waits_for_the_first_task_too_runs_last(engine: Engine):
    middle = [f"m{n}" for n in range(10)]
    line = " ".join(["a", *(f"{name}<a" for name in middle), f"d<a,{','.join(middle)}"])
    flow = Flow(engine, line)
    flow.run("a")
    for name in middle:
        assert "d" not in ready(engine)
        flow.run(name)
    flow.run("d")
    assert flow.status == "SUCCEEDED"
    assert ready(engine) == []


def test_dependency_that_is_named_twice_counts_once(engine: Engine):
    flow = Flow(engine, "a b d<b,b,a,b")
    flow.run("a")
    assert ready(engine) == ["b"]
    flow.run("b")
    assert ready(engine) == ["d"]
    assert len(flow.graph["edges"]) == 2


def test_names_that_differ_in_case_are_two_names(engine: Engine):
    flow = Flow(engine, "a A<a")
    assert flow.states == "a=PENDING A=BLOCKED"


def test_decomposed_letters_find_their_composed_name(engine: Engine):
    flow = Flow(engine, [task("caf\u00e9"), task("b", dependencies=["cafe\u0301"])])
    assert flow.graph["edges"] == [{"source": "caf\u00e9", "target": "b"}]


def test_answer_tells_each_tasks_state(engine: Engine):
    flow = Flow(engine, [task("a"), task("b", delay_seconds=60), task("c", dependencies=["a"])])
    assert [(t["name"], t["status"]) for t in flow.answer["tasks"]] == [
        ("a", "PENDING"),
        ("b", "SCHEDULED"),
        ("c", "BLOCKED"),
    ]
    assert (flow.answer["status"], flow.answer["duplicate"]) == ("RUNNING", False)
    for name, task_id in flow.ids.items():
        document = engine.get(task_id)
        assert (document["workflow_id"], document["task_name"]) == (str(flow.id), name)
        assert len(engine.places(task_id)) == 1


def test_tasks_have_the_options_that_any_task_has(engine: Engine):
    given = task(
        payload=[1, {"x": None}], queue="q", priority="high", max_retries=7, timeout_seconds=5,
        retry_jitter="none", concurrency_key="k", metadata={"b": 2, "c": 3},
    )  # fmt: skip
    flow = Flow(engine, [given, task("b")], metadata={"tenant_id": "t", "b": 1, "trace": "x"})
    document = engine.get(flow.ids["a"])
    assert {key: document[key] for key in given if key not in ("name", "metadata")} == {
        key: given[key] for key in given if key not in ("name", "metadata")
    }
    assert document["metadata"] == {"tenant_id": "t", "b": 2, "c": 3, "trace": "x"}
    assert document["tenant_id"] == engine.get(flow.ids["b"])["tenant_id"] == "t"


def test_key_gives_the_first_workflow_again(engine: Engine):
    flow = Flow(engine, "a b<a", idempotency_key="k")
    flow.run("a")
    again = Flow(engine, "a b<a", idempotency_key="k", metadata={"trace": "another"})
    assert again.id == flow.id
    assert again.answer["duplicate"] is True
    assert [t["status"] for t in again.answer["tasks"]] == ["SUCCEEDED", "PENDING"]
    assert engine.one("select count(*) from skiplane.workflow") == 1
    other = Flow(engine, "a b<a", idempotency_key="k", metadata={"tenant_id": "other"})
    assert other.id != flow.id


def test_key_with_another_body_is_refused(engine: Engine):
    Flow(engine, "a b<a", idempotency_key="k")
    with refused(engine.conn, "SK004", "idempotency_key", "k"):
        Flow(engine, "a b", idempotency_key="k")
    with refused(engine.conn, "SK004", "idempotency_key", "k"):
        engine.submit("a", idempotency_key="k")
    engine.submit("a", idempotency_key="task")
    with refused(engine.conn, "SK004", "idempotency_key", "task"):
        Flow(engine, "a", idempotency_key="task")


def test_ten_thousand_tasks_go_in_at_once(engine: Engine):
    wide = [task("first"), *(task(str(n), dependencies=["first"]) for n in range(9_998))]
    flow = Flow(engine, [*wide, task("last", dependencies=[str(n) for n in range(9_998)])])
    assert engine.one("select count(*) from skiplane.blocked") == 9_999
    assert engine.one("select waiting from skiplane.blocked where id = %s", [flow.ids["last"]]) == (
        9_998
    )


def test_dag_definition_is_what_was_submitted_without_payloads(engine: Engine):
    given = tasks("a b<a:all_done")
    flow = Flow(engine, [{**one, "payload": {"secret": 1}} for one in given])
    assert engine.value("get_workflow", workflow_id=flow.id)["dag_definition"] == given
    [row] = engine.conn.execute("select * from skiplane.workflows").fetchall()
    assert row[:4] == (flow.id, "flow", "RUNNING", given)

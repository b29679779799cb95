"""Cancelling and retrying workflows and their tasks; lists."""

import uuid

import pytest

from skiplane.tests.support.engine import Engine, refused

from .flows import Flow, ready, stuck, tasks


def test_cancel_ends_all_that_has_not_ended(engine: Engine):
    spec = tasks("done run wait<done later sleep<run alarm<run,wait:any_failed")
    spec[3]["delay_seconds"] = 60
    flow = Flow(engine, spec)
    flow.run("done")
    claim = flow.claim("run")
    document = engine.value("cancel_workflow", workflow_id=flow.id, reason="enough", actor="ann")
    assert document["status"] == "CANCELLED"
    assert document["tasks"] == {"SUCCEEDED": 1, "CANCELLED": 5}
    assert document["completed_at"] is not None
    assert [(a["verb"], a["actor"]) for a in document["actions"]] == [("cancel", "ann")]
    assert flow.node("run")["error_message"] == "enough"
    assert engine.finish(claim) == claim.ids
    assert stuck(engine) == []
    assert ready(engine) == []
    for task_id in flow.ids.values():
        assert engine.places(task_id) == ["outcome"]
    with refused(engine.conn, "SK003", "workflow_id"):
        engine.value("cancel_workflow", workflow_id=flow.id)


def test_cancel_leaves_other_workflows_and_tasks_alone(engine: Engine):
    flow, other = Flow(engine, "a b<a"), Flow(engine, "a b<a")
    plain = engine.submit("a")
    mixed = engine.claim(3)
    assert len(mixed.ids) == 3
    engine.value("cancel_workflow", workflow_id=flow.id)
    assert engine.finish(mixed) == [flow.ids["a"]]
    assert other.states == "a=SUCCEEDED b=PENDING"
    assert engine.status(plain) == "SUCCEEDED"


def test_workflow_whose_last_open_task_was_cancelled_is_cancelled(engine: Engine):
    flow = Flow(engine, "a b<a")
    flow.run("a")
    engine.value("cancel_task", task_id=flow.ids["b"])
    assert flow.status == "CANCELLED"


@pytest.mark.parametrize(
    "verb", ["get_workflow", "workflow_graph", "workflow_status", "workflow_results",
             "cancel_workflow", "retry_workflow"],
)  # fmt: skip
def test_unknown_workflow_is_told(engine: Engine, verb: str):
    for unknown in (uuid.uuid4(), engine.submit()):
        with refused(engine.conn, "SK002", "workflow_id", str(unknown)):
            engine.rows(verb, workflow_id=unknown)


def test_retry_runs_what_failed_and_what_waited_for_it(engine: Engine):
    flow = Flow(engine, "a b c<a,b d<c e<b:all_done alarm<a:any_failed")
    flow.run("b")
    flow.fail("a")
    flow.run("e", "alarm")
    assert flow.status == "FAILED"
    document = engine.value("retry_workflow", workflow_id=flow.id, reason="fixed")
    assert document["status"] == "RUNNING"
    assert document["completed_at"] is None
    assert flow.states == "a=PENDING b=SUCCEEDED c=BLOCKED d=BLOCKED e=SUCCEEDED alarm=SUCCEEDED"
    assert engine.rows("list_dead_letters") == []
    assert engine.get(flow.ids["a"])["attempt"] == 0
    for name in "acd":
        flow.run(name)
    assert flow.status == "SUCCEEDED"
    assert engine.value("get_workflow", workflow_id=flow.id)["actions"][0]["detail"]["tasks"] == 3
    assert stuck(engine) == []


def test_retry_waits_for_what_still_runs(engine: Engine):
    flow = Flow(engine, "a b c<a,b")
    flow.fail("a")
    engine.value("retry_workflow", workflow_id=flow.id)
    flow.run("a")
    assert flow.states == "a=SUCCEEDED b=PENDING c=BLOCKED"
    flow.run("b")
    flow.run("c")
    assert flow.status == "SUCCEEDED"


def test_retried_task_is_waited_for_anew_by_what_is_blocked_still(engine: Engine):
    flow = Flow(engine, "a b c<a,b:all_done")
    flow.fail("a")
    engine.value("retry_task", task_id=flow.ids["a"])
    flow.run("a")
    assert flow.states == "a=SUCCEEDED b=PENDING c=BLOCKED"
    flow.run("b")
    flow.run("c")
    assert flow.status == "SUCCEEDED"


def test_retry_arms_a_skipped_alarm_again(engine: Engine):
    flow = Flow(engine, "a b<a alarm<a:any_failed")
    flow.run("a")
    assert flow.node("alarm")["error_type"] == "Skipped"
    flow.fail("b")
    engine.value("retry_workflow", workflow_id=flow.id)
    # What it waits for has not been undone: skipped again, at once.
    assert flow.states == "a=SUCCEEDED b=PENDING alarm=CANCELLED"
    flow.run("b")
    assert flow.status == "SUCCEEDED"


def test_retry_of_a_cancelled_workflow_goes_on_where_it_was(engine: Engine):
    flow = Flow(engine, "a b<a c<b")
    flow.run("a")
    claim = flow.claim("b")
    engine.value("cancel_workflow", workflow_id=flow.id)
    engine.value("retry_workflow", workflow_id=flow.id)
    assert flow.states == "a=SUCCEEDED b=PENDING c=BLOCKED"
    assert engine.finish(claim) == claim.ids
    again = flow.claim("b")
    assert again.tasks[0]["fence"] > claim.tasks[0]["fence"]
    engine.finish(again)
    flow.run("c")
    assert flow.status == "SUCCEEDED"


@pytest.mark.parametrize("done", [0, 1, 2])
def test_retry_needs_something_that_failed(engine: Engine, done: int):
    flow = Flow(engine, "a b<a")
    for name in "ab"[:done]:
        flow.run(name)
    with refused(engine.conn, "SK003", "workflow_id"):
        engine.value("retry_workflow", workflow_id=flow.id)


def test_retry_lifts_an_expiry_that_has_passed(engine: Engine):
    spec = tasks("a b<a")
    spec[1]["expires_at"] = engine.one(
        "select skiplane._utc_text(skiplane.clock() + interval '60 s')"
    )
    flow = Flow(engine, spec)
    engine.skip(100)
    flow.run("a")
    assert engine.value("expire_tasks") == 1
    assert flow.states == "a=SUCCEEDED b=FAILED"
    engine.value("retry_workflow", workflow_id=flow.id)
    assert engine.value("expire_tasks") == 0
    flow.run("b")
    assert flow.status == "SUCCEEDED"


@pytest.mark.parametrize("verb", ["retry_task", "retry_dead_letter"])
def test_retry_of_one_task_brings_back_what_failed_because_of_it(engine: Engine, verb: str):
    flow = Flow(engine, "a b c<a d<b e<c,d f<c")
    flow.fail("a", "b")
    assert engine.value(verb, task_id=flow.ids["a"])["status"] == "PENDING"
    assert flow.states == "a=PENDING b=DEAD c=BLOCKED d=FAILED e=FAILED f=BLOCKED"
    assert str(flow.node("e")["error_message"]).startswith('task "b" ended DEAD')
    flow.run("a")
    flow.run("c")
    flow.run("f")
    assert flow.status == "FAILED"
    engine.value(verb, task_id=flow.ids["b"])
    for name in "bde":
        flow.run(name)
    assert flow.status == "SUCCEEDED"
    assert stuck(engine) == []


def test_all_dead_letters_are_retried_those_of_workflows_too(engine: Engine):
    flows = [Flow(engine, "a b<a") for _ in range(3)]
    plain = engine.submit("a", max_retries=0)
    flows[0].fail("a")
    assert engine.value("retry_dead_letters", limit=2) == 2
    assert engine.value("retry_dead_letters") == 2
    assert engine.value("retry_dead_letters") == 0
    flows[0].run("a")
    flows[0].run("b")
    assert {flow.status for flow in flows} == {"SUCCEEDED"}
    assert engine.status(plain) == "SUCCEEDED"


def test_what_did_not_run_because_of_another_is_not_retried_alone(engine: Engine):
    flow = Flow(engine, "a b<a alarm<a:any_failed")
    flow.fail("a")
    with refused(engine.conn, "SK003", "task_id") as caught:
        engine.value("retry_task", task_id=flow.ids["b"])
    assert 'task "a" ended DEAD: boom' in str(caught.value.diag.message_primary)
    other = Flow(engine, "a alarm<a:any_failed b<a")
    other.run("a")
    with refused(engine.conn, "SK003", "task_id"):
        engine.value("retry_task", task_id=other.ids["alarm"])
    with refused(engine.conn, "SK003", "task_id"):
        engine.value("retry_task", task_id=other.ids["b"])


def test_cancelled_blocked_task_waits_again_after_its_retry(engine: Engine):
    flow = Flow(engine, "a b<a")
    engine.value("cancel_task", task_id=flow.ids["b"])
    assert engine.value("retry_task", task_id=flow.ids["b"])["status"] == "BLOCKED"
    flow.run("a")
    flow.run("b")
    assert flow.status == "SUCCEEDED"


def test_results_of_a_workflow_are_read_by_name(engine: Engine):
    flow = Flow(engine, "a b<a")
    flow.run("a")
    rows = engine.rows("workflow_results", workflow_id=flow.id)
    assert [(row[0], row[2], row[3], row[4]) for row in rows] == [
        ("a", "SUCCEEDED", True, "a"),
        ("b", "PENDING", False, None),
    ]


def test_graph_tells_times_and_errors(engine: Engine):
    flow = Flow(engine, "a b<a c<a:any_failed")
    assert flow.graph["edges"] == [
        {"source": "a", "target": "b"},
        {"source": "a", "target": "c"},
    ]
    claim = flow.claim("a")
    running = flow.node("a")
    assert (running["status"], running["attempt"]) == ("RUNNING", 1)
    assert running["started_at"] is not None
    engine.fail(claim, error_type="Boom", error_message="boom")
    node = flow.node("a")
    assert (node["error_type"], node["error_message"]) == ("Boom", "boom")
    assert node["completed_at"] is not None
    assert [n["trigger"] for n in flow.graph["nodes"]] == ["all_success"] * 2 + ["any_failed"]


def test_lists_come_in_pages_and_by_filter(engine: Engine):
    flows = [Flow(engine, "a", metadata={"tenant_id": "tu"[n % 2]}) for n in range(6)]
    for flow in flows[:2]:
        engine.value("cancel_workflow", workflow_id=flow.id)
    newest = [str(flow.id) for flow in reversed(flows)]
    page = [row[0] for row in engine.rows("list_workflows", limit=4)]
    rest = [row[0] for row in engine.rows("list_workflows", cursor=page[-1]["cursor"], limit=4)]
    assert [w["workflow_id"] for w in page + rest] == newest

    def listed(**only: object) -> list[str]:
        return [row[0]["workflow_id"] for row in engine.rows("list_workflows", **only)]

    assert listed(status=["CANCELLED"]) == newest[4:]
    assert listed(status=["CANCELLED", "RUNNING"], limit=5) == newest[:5]
    assert listed(status=["SUCCEEDED"]) == []
    assert listed(status=["RUNNING", "SUCCEEDED"]) == newest[:4]
    assert listed(tenant_id="t") == newest[1::2]
    assert listed(tenant_id="t", status=["RUNNING"]) == newest[1:4:2]
    assert listed(name="another") == []
    assert listed(name="flow", limit=1) == newest[:1]
    with refused(engine.conn, "SK001", "status", "DONE"):
        listed(status=["DONE"])
    with refused(engine.conn, "SK001", "limit", "0"):
        listed(limit=0)
    with refused(engine.conn, "SK001", "cursor", "x"):
        listed(cursor="x")


def test_day_of_a_workflow_is_kept_until_it_has_ended(engine: Engine):
    spec = tasks("a b<a")
    spec[1]["delay_seconds"] = 86400 * 60
    flow = Flow(engine, spec)
    flow.run("a")
    engine.skip(86400 * 45)
    engine.rows("maintain_partitions")
    engine.rows("maintain_partitions")
    assert flow.states == "a=SUCCEEDED b=SCHEDULED"
    engine.skip(86400 * 20)
    engine.rows("promote_tasks")
    flow.run("b")
    assert flow.status == "SUCCEEDED"
    said = [row[0] for row in engine.rows("maintain_partitions")]
    said += [row[0] for row in engine.rows("maintain_partitions")]
    assert [line for line in said if line.startswith("dropped workflow for")]
    with refused(engine.conn, "SK002"):
        engine.value("get_workflow", workflow_id=flow.id)

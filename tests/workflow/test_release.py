"""What the end of a task means for those that wait for it."""

import uuid
from typing import Any

import pytest

from skiplane.tests.support.engine import Engine, refused

from .flows import Flow, ready, stuck, tasks

JOIN = "a b c<a,b d<c e<d"


def end_success(flow: Flow, name: str) -> str:
    flow.run(name)
    return "SUCCEEDED"


def end_dead(flow: Flow, name: str) -> str:
    flow.fail(name)
    return "DEAD"


def end_permanent(flow: Flow, name: str) -> str:
    flow.fail(name, kind="permanent")
    return "FAILED"


def end_timeout(flow: Flow, name: str) -> str:
    flow.fail(name, kind="timeout")
    return "DEAD"


def end_cancel(flow: Flow, name: str) -> str:
    flow.engine.value("cancel_task", task_id=flow.ids[name], reason="enough")
    return "CANCELLED"


def end_cancel_running(flow: Flow, name: str) -> str:
    flow.claim(name)
    return end_cancel(flow, name)


def end_lost_worker(flow: Flow, name: str) -> str:
    flow.claim(name)
    flow.engine.value("release_worker", worker_id=flow.engine.worker, reason="gone")
    return "DEAD"


def end_lost_lease(flow: Flow, name: str) -> str:
    flow.claim(name)
    flow.engine.skip(60)
    flow.engine.rows("sweep_leases")
    return "DEAD"


def end_overdue(flow: Flow, name: str) -> str:
    claim = flow.claim(name)
    flow.engine.value(
        "heartbeat", worker_id=claim.worker, lease_ids=[claim.lease_id], held=claim.ids,
        lease_seconds=1000,
    )  # fmt: skip
    flow.engine.conn.execute("update skiplane.lease set until = until + interval '1 day'")
    flow.engine.skip(60)
    flow.engine.rows("sweep_leases")
    return "DEAD"


def end_expiry(flow: Flow, name: str) -> str:
    flow.engine.skip(400)
    flow.engine.rows("expire_tasks")
    return "FAILED"


def end_bad_result(flow: Flow, name: str) -> str:
    claim = flow.claim(name)
    flow.engine.value(
        "finish_tasks", worker_id=claim.worker, lease_id=claim.lease_id, task_ids=claim.ids,
        results=[r'"\u0000"'],
    )  # fmt: skip
    return "FAILED"


def end_missing_row(flow: Flow, name: str) -> str:
    claim = flow.claim(name)
    flow.engine.conn.execute("delete from skiplane.task where id = %s", claim.ids)
    flow.engine.fail(claim)
    return "FAILED"


BAD_ENDS = [
    end_dead, end_permanent, end_timeout, end_cancel, end_cancel_running, end_lost_worker,
    end_lost_lease, end_overdue, end_expiry, end_bad_result, end_missing_row,
]  # fmt: skip


@pytest.mark.parametrize("other", ["before", "after", "running"])
@pytest.mark.parametrize("end", BAD_ENDS)
def test_any_bad_end_fails_what_depends_on_it_all_the_way_down(
    engine: Engine, end: Any, other: str
):
    spec = tasks(JOIN)
    spec[0]["timeout_seconds"] = 5
    if end is end_expiry:
        expiry = engine.one("select skiplane._utc_text(skiplane.clock() + interval '300 s')")
        spec[0]["expires_at"] = expiry
    flow = Flow(engine, spec)
    if other == "before":
        flow.run("b")
    elif other == "running":
        other_claim = engine.claim(1, task_types=["b"], worker=uuid.uuid4(), lease_seconds=9999)
    status = end(flow, "a")
    rest = {"before": "SUCCEEDED", "after": "PENDING", "running": "RUNNING"}[other]
    assert flow.states == f"a={status} b={rest} c=FAILED d=FAILED e=FAILED"
    assert stuck(engine) == []
    for name in "cde":
        node = flow.node(name)
        assert (node["error_type"], node["attempt"]) == ("UpstreamFailed", 0)
        assert str(node["error_message"]).startswith(f'task "a" ended {status}')
    if other == "after":
        flow.run("b")
    elif other == "running":
        engine.finish(other_claim)
    assert flow.status == "FAILED"
    document = engine.value("get_workflow", workflow_id=flow.id)
    assert document["completed_at"] is not None
    assert document["pending"] == 0
    assert stuck(engine) == []


def test_reason_tells_what_went_wrong_first(engine: Engine):
    flow = Flow(engine, "a b<a c<b")
    flow.fail("a")
    assert flow.node("c")["error_message"] == 'task "a" ended DEAD: boom'


def test_a_retried_attempt_is_no_end(engine: Engine):
    flow = Flow(engine, tasks("a b<a", max_retries=1, retry_delay_seconds=5))
    flow.fail("a")
    assert flow.states == "a=RETRYING b=BLOCKED"
    engine.skip(10)
    engine.rows("promote_tasks")
    flow.run("a")
    assert flow.states == "a=SUCCEEDED b=PENDING"


@pytest.mark.parametrize(
    ("ends", "states", "status"),
    [
        ("sss", "clean=PENDING alarm=CANCELLED next=CANCELLED", "SUCCEEDED"),
        ("sfs", "clean=PENDING alarm=PENDING next=BLOCKED", "FAILED"),
        ("fff", "clean=PENDING alarm=PENDING next=BLOCKED", "FAILED"),
    ],
)
def test_triggers_look_at_how_all_dependencies_ended(
    engine: Engine, ends: str, states: str, status: str
):
    flow = Flow(engine, "a b c clean<a,b,c:all_done alarm<a,b,c:any_failed next<alarm")
    for name, end in zip("abc", ends, strict=True):
        flow.run(name) if end == "s" else flow.fail(name)
    assert flow.states.partition(" clean")[2] == states.removeprefix("clean")
    while waiting := ready(engine):
        flow.run(*waiting)
    assert flow.status == status
    assert stuck(engine) == []


def test_alarm_does_not_wait_for_the_others(engine: Engine):
    flow = Flow(engine, "a b clean<a,b:all_done alarm<a,b:any_failed")
    flow.fail("a")
    assert flow.states == "a=DEAD b=PENDING clean=BLOCKED alarm=PENDING"


def test_skipped_task_says_why_and_makes_no_workflow_fail(engine: Engine):
    flow = Flow(engine, "a alarm<a:any_failed next<alarm last<a,next all<next:all_done")
    flow.run("a")
    assert flow.states == "a=SUCCEEDED alarm=CANCELLED next=CANCELLED last=CANCELLED all=PENDING"
    assert flow.node("alarm")["error_type"] == flow.node("last")["error_type"] == "Skipped"
    assert flow.node("alarm")["error_message"] == "no dependency failed"
    flow.run("all")
    assert flow.status == "SUCCEEDED"


def test_failed_dependency_counts_for_more_than_a_skipped_one(engine: Engine):
    flow = Flow(engine, "a b alarm<a:any_failed c<alarm,b")
    flow.run("a")
    assert flow.node("c")["status"] == "BLOCKED"
    flow.fail("b")
    assert flow.node("c")["status"] == "FAILED"


def test_what_failed_because_of_another_counts_as_failed(engine: Engine):
    flow = Flow(engine, "a b<a alarm<b:any_failed clean<b:all_done")
    flow.fail("a")
    assert flow.states == "a=DEAD b=FAILED alarm=PENDING clean=PENDING"
    flow.run("alarm", "clean")
    assert flow.status == "FAILED"


def test_one_batch_ends_dependencies_of_many_workflows(engine: Engine):
    flows = [Flow(engine, "a b c<a,b") for _ in range(50)]
    flows[0].run("a", "b")
    assert engine.one("select count(*) from skiplane.ready") == 50
    flows[0].run("c")
    assert {flow.status for flow in flows} == {"SUCCEEDED"}
    assert stuck(engine) == []


def test_successes_and_failures_of_one_batch_are_both_carried_on(engine: Engine):
    flow = Flow(engine, "a b c<a d<b e<c,d:all_done")
    claim = flow.claim("a", "b")
    engine.finish(claim, {flow.ids["a"]: 1}, [{"task_id": flow.ids["b"], "kind": "error"}])
    assert flow.states == "a=SUCCEEDED b=DEAD c=PENDING d=FAILED e=BLOCKED"
    flow.run("c")
    flow.run("e")
    assert flow.status == "FAILED"


def test_stale_finish_releases_nothing(engine: Engine):
    flow = Flow(engine, tasks("a b<a", max_retries=3))
    claim = flow.claim("a")
    engine.skip(60)
    engine.rows("sweep_leases")
    assert engine.finish(claim) == claim.ids
    assert flow.states == "a=PENDING b=BLOCKED"


def test_delay_counts_from_the_end_of_the_dependencies(engine: Engine):
    spec = tasks("a b<a c<b")
    spec[1]["delay_seconds"] = 100
    flow = Flow(engine, spec)
    engine.skip(1000)
    flow.run("a")
    assert flow.states == "a=SUCCEEDED b=SCHEDULED c=BLOCKED"
    assert engine.places(flow.ids["b"]) == ["timer"]
    assert engine.get(flow.ids["b"])["task_name"] == "b"
    engine.skip(99)
    assert engine.value("promote_tasks")[0] == 0
    engine.skip(2)
    assert engine.value("promote_tasks")[0] == 1
    flow.run("b")
    flow.run("c")
    assert flow.status == "SUCCEEDED"


def test_time_that_has_not_come_keeps_a_released_task_waiting(engine: Engine):
    spec = tasks("a b<a")
    spec[1]["scheduled_at"] = engine.one(
        "select skiplane._utc_text(skiplane.clock() + interval '1 hour')"
    )
    flow = Flow(engine, spec)
    flow.run("a")
    assert flow.states == "a=SUCCEEDED b=SCHEDULED"
    flow2 = Flow(engine, spec)
    engine.skip(4000)
    flow2.run("a")
    assert flow2.states == "a=SUCCEEDED b=PENDING"


def test_scheduled_task_of_a_workflow_may_be_cancelled_or_edited(engine: Engine):
    spec = tasks("a b<a")
    spec[0]["delay_seconds"] = 100
    flow = Flow(engine, spec)
    document = engine.get(flow.ids["a"])
    engine.value(
        "edit_task", task_id=flow.ids["a"], version=document["version"],
        changes={"delay_seconds": 0},
    )  # fmt: skip
    flow.run("a")
    assert flow.states == "a=SUCCEEDED b=PENDING"
    other = Flow(engine, spec)
    engine.value("cancel_task", task_id=other.ids["a"])
    assert (other.states, other.status) == ("a=CANCELLED b=FAILED", "FAILED")


def test_blocked_task_may_be_cancelled_but_not_edited(engine: Engine):
    flow = Flow(engine, "a b<a c<b")
    with refused(engine.conn, "SK003", "task_id"):
        engine.value("edit_task", task_id=flow.ids["b"], version=1, changes={"priority": "high"})
    assert engine.value("cancel_task", task_id=flow.ids["b"])["status"] == "CANCELLED"
    assert flow.states == "a=PENDING b=CANCELLED c=FAILED"
    assert engine.rows("list_tasks", status=["BLOCKED"]) == []
    flow.run("a")
    assert flow.status == "FAILED"


def test_lists_and_views_show_blocked_tasks(engine: Engine):
    flow = Flow(engine, "a b<a")
    listed = [row[0]["task_id"] for row in engine.rows("list_tasks", status=["BLOCKED"])]
    assert listed == [str(flow.ids["b"])]
    rows = engine.conn.execute(
        "select task_name, status from skiplane.tasks where workflow_id = %s order by 1", [flow.id]
    ).fetchall()
    assert rows == [("a", "PENDING"), ("b", "BLOCKED")]


def test_dependency_results_are_read_by_name(engine: Engine):
    flow = Flow(engine, "a b c<a,b:all_done")
    flow.run("a")
    flow.fail("b")
    rows = {row[0]: row[2:] for row in engine.rows("dependency_results", task_id=flow.ids["c"])}
    assert rows == {
        "a": ("SUCCEEDED", True, "a", None, None),
        "b": ("DEAD", True, None, "Boom", "boom"),
    }
    assert engine.rows("dependency_results", task_id=flow.ids["a"]) == []
    assert engine.rows("dependency_results", task_id=engine.submit()) == []
    with refused(engine.conn, "SK002", "task_id"):
        engine.rows("dependency_results", task_id=uuid.uuid4())


def test_long_chain_fails_to_its_end_at_once(engine: Engine):
    count = 3000
    spec = [
        {"name": str(n), "task_type": "w", "max_retries": 0,
         "dependencies": [str(n - 1)] if n else []}
        for n in range(count)
    ]  # fmt: skip
    flow = Flow(engine, spec)
    engine.fail(engine.claim(1))
    assert engine.value("get_workflow", workflow_id=flow.id)["tasks"] == {
        "DEAD": 1,
        "FAILED": count - 1,
    }
    assert flow.status == "FAILED"

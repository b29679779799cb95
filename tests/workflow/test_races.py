"""Ends that overlap: each join is released once, and nobody waits in a circle."""

import threading
import uuid
from typing import Any

import psycopg
import pytest

from skiplane.tests.support.engine import Claim, Engine
from skiplane.tests.support.races import Racer

from .flows import Flow, ready, stuck, tasks


def finishing(engine: Engine, claim: Claim) -> Racer:
    """Finish a claim in another thread."""
    return Racer(
        engine, "finish_tasks", worker_id=claim.worker, lease_id=claim.lease_id,
        task_ids=claim.ids, results=["1"] * len(claim.ids),
    )  # fmt: skip


def claim(engine: Engine, *names: str) -> Claim:
    found = engine.claim(100, task_types=list(names), worker=uuid.uuid4())
    assert {t["task_type"] for t in found.tasks} == set(names)
    return found


def test_two_last_parents_at_once_release_the_child_once(
    first: Engine, second: Engine, watcher: Engine
):
    flow = Flow(watcher, "a b c<a,b")
    one, other = claim(first, "a"), claim(second, "b")
    with first.conn.transaction():
        assert first.finish(one) == []
        race = finishing(second, other).wait_for_lock(watcher)
        assert flow.states == "a=RUNNING b=RUNNING c=BLOCKED"
    assert race.result() == []
    assert flow.states == "a=SUCCEEDED b=SUCCEEDED c=PENDING"
    assert watcher.places(flow.ids["c"]) == ["ready"]
    flow.run("c")
    assert flow.status == "SUCCEEDED"


def test_parent_that_was_rolled_back_is_still_waited_for(
    first: Engine, second: Engine, watcher: Engine
):
    flow = Flow(watcher, "a b c<a,b")
    one, other = claim(first, "a"), claim(second, "b")
    with first.conn.transaction(force_rollback=True):
        first.finish(one)
        race = finishing(second, other).wait_for_lock(watcher)
    race.result()
    assert flow.states == "a=RUNNING b=SUCCEEDED c=BLOCKED"
    first.finish(one)
    assert flow.states == "a=SUCCEEDED b=SUCCEEDED c=PENDING"


def test_parents_that_fail_at_once_fail_the_child_once(
    first: Engine, second: Engine, watcher: Engine
):
    flow = Flow(watcher, "a b c<a,b d<c alarm<a,b:any_failed")
    one, other = claim(first, "a"), claim(second, "b")
    with first.conn.transaction():
        first.fail(one)
        race = finishing(second, other).wait_for_lock(watcher)
    race.result()
    assert flow.states == "a=DEAD b=SUCCEEDED c=FAILED d=FAILED alarm=PENDING"
    assert stuck(watcher) == []


def test_batches_over_the_same_workflows_wait_in_one_order(
    first: Engine, second: Engine, watcher: Engine
):
    flows = [Flow(watcher, "a b j<a,b k<b,a") for _ in range(20)]
    one, other = claim(first, "a"), claim(second, "b")
    other.tasks.reverse()
    with first.conn.transaction():
        first.finish(one)
        race = finishing(second, other).wait_for_lock(watcher)
    assert race.result() == []
    assert {flow.states for flow in flows} == {"a=SUCCEEDED b=SUCCEEDED j=PENDING k=PENDING"}


def test_workflows_do_not_wait_for_each_other(first: Engine, second: Engine, watcher: Engine):
    flow, other = Flow(watcher, "a b<a"), Flow(watcher, "c d<c")
    one, another = claim(first, "a"), claim(second, "c")
    with first.conn.transaction():
        first.finish(one)
        assert second.finish(another) == []
        assert other.states == "c=SUCCEEDED d=PENDING"
    assert flow.states == "a=SUCCEEDED b=PENDING"


def test_cancel_takes_what_a_finish_releases_meanwhile(
    first: Engine, second: Engine, watcher: Engine
):
    flow = Flow(watcher, "a b<a c<b")
    one = claim(first, "a")
    with first.conn.transaction():
        first.finish(one)
        race = Racer(second, "cancel_workflow", workflow_id=flow.id).wait_for_lock(watcher)
    assert race.result()["status"] == "CANCELLED"
    assert flow.states == "a=SUCCEEDED b=CANCELLED c=CANCELLED"
    assert ready(watcher) == []
    assert stuck(watcher) == []


def test_cancel_stops_what_a_claim_takes_meanwhile(first: Engine, second: Engine, watcher: Engine):
    flow = Flow(watcher, "a b<a")
    with first.conn.transaction():
        one = claim(first, "a")
        race = Racer(second, "cancel_workflow", workflow_id=flow.id).wait_for_lock(watcher)
    assert race.result()["status"] == "CANCELLED"
    assert first.finish(one) == one.ids
    assert flow.states == "a=CANCELLED b=CANCELLED"


def test_finish_comes_too_late_for_a_cancel(first: Engine, second: Engine, watcher: Engine):
    flow = Flow(watcher, "a b<a")
    one = claim(second, "a")
    with first.conn.transaction():
        first.value("cancel_workflow", workflow_id=flow.id)
        race = finishing(second, one).wait_for_lock(watcher)
    assert race.result() == one.ids
    assert flow.states == "a=CANCELLED b=CANCELLED"


def test_two_cancels_at_once_are_one_cancel(first: Engine, second: Engine, watcher: Engine):
    flow = Flow(watcher, "a b<a")
    with first.conn.transaction():
        first.value("cancel_workflow", workflow_id=flow.id)
        race = Racer(second, "cancel_workflow", workflow_id=flow.id).wait_for_lock(watcher)
    with pytest.raises(psycopg.Error) as caught:
        race.result()
    assert caught.value.sqlstate == "SK003"
    assert stuck(watcher) == []


def test_blocked_task_that_is_released_meanwhile_is_cancelled_where_it_went(
    first: Engine, second: Engine, watcher: Engine
):
    flow = Flow(watcher, "a b<a c<b")
    one = claim(first, "a")
    with first.conn.transaction():
        first.finish(one)
        race = Racer(second, "cancel_task", task_id=flow.ids["b"]).wait_for_lock(watcher)
    assert race.result()["status"] == "CANCELLED"
    assert flow.states == "a=SUCCEEDED b=CANCELLED c=FAILED"
    assert stuck(watcher) == []


def test_retry_sees_what_ends_meanwhile(first: Engine, second: Engine, watcher: Engine):
    flow = Flow(watcher, "a b c<a,b")
    flow.fail("a")
    one = claim(first, "b")
    with first.conn.transaction():
        first.finish(one)
        race = Racer(second, "retry_workflow", workflow_id=flow.id).wait_for_lock(watcher)
    assert race.result()["status"] == "RUNNING"
    assert flow.states == "a=PENDING b=SUCCEEDED c=BLOCKED"
    flow.run("a")
    assert flow.states == "a=SUCCEEDED b=SUCCEEDED c=PENDING"


def test_end_sees_what_a_retry_has_undone(first: Engine, second: Engine, watcher: Engine):
    flow = Flow(watcher, "a b c<a,b")
    flow.fail("a")
    one = claim(second, "b")
    with first.conn.transaction():
        first.value("retry_workflow", workflow_id=flow.id)
        race = finishing(second, one).wait_for_lock(watcher)
    assert race.result() == []
    assert flow.states == "a=PENDING b=SUCCEEDED c=BLOCKED"
    flow.run("a")
    assert flow.states == "a=SUCCEEDED b=SUCCEEDED c=PENDING"


@pytest.mark.parametrize("verb", ["retry_workflow", "retry_dead_letters"])
def test_two_retries_at_once_are_one_retry(
    first: Engine, second: Engine, watcher: Engine, verb: str
):
    flow = Flow(watcher, "a b<a")
    flow.fail("a")
    with first.conn.transaction():
        first.value("retry_workflow", workflow_id=flow.id)
        arguments: dict[str, Any] = {"workflow_id": flow.id} if verb == "retry_workflow" else {}
        race = Racer(second, verb, **arguments).wait_for_lock(watcher)
    if verb == "retry_workflow":
        with pytest.raises(psycopg.Error, match="RUNNING"):
            race.result()
    else:
        assert race.result() == 0
    assert flow.states == "a=PENDING b=BLOCKED"
    flow.run("a")
    flow.run("b")
    assert flow.status == "SUCCEEDED"


def test_release_that_fails_takes_the_end_back_with_it(first: Engine, watcher: Engine):
    flow = Flow(watcher, "a b<a")
    one = claim(first, "a")
    watcher.conn.execute(
        "create function bad() returns trigger language plpgsql as"
        " 'begin raise exception ''no''; end'"
    )
    watcher.conn.execute(
        "create trigger bad before delete on skiplane.blocked for each row execute function bad()"
    )
    with pytest.raises(psycopg.Error, match="no"):
        first.finish(one)
    assert flow.states == "a=RUNNING b=BLOCKED"
    watcher.conn.execute("drop trigger bad on skiplane.blocked")
    assert first.finish(one) == []
    assert flow.states == "a=SUCCEEDED b=PENDING"


@pytest.mark.parametrize("how", ["timed out", "terminated"])
def test_end_that_breaks_off_before_its_release_is_no_end(
    first: Engine, second: Engine, watcher: Engine, how: str
):
    flow = Flow(watcher, "a b<a c<b")
    one = claim(first, "a")
    if how == "timed out":
        first.conn.execute("set statement_timeout = '3s'")
    with second.conn.transaction():
        second.conn.execute(
            "select from skiplane.workflow_state where id = %s for update", [flow.id]
        )
        race = finishing(first, one).wait_for_lock(watcher)
        if how == "terminated":
            watcher.conn.execute("select pg_terminate_backend(%s)", [race.pid])
        with pytest.raises(psycopg.Error):
            race.rows()
    assert flow.states == "a=RUNNING b=BLOCKED c=BLOCKED"
    assert stuck(watcher) == []
    assert second.finish(one) == []
    assert flow.states == "a=SUCCEEDED b=PENDING c=BLOCKED"


@pytest.mark.parametrize(("count", "width"), [(10, 20), (1, 500)])
def test_many_at_once_neither_deadlock_nor_lose_a_join(
    dsn: str, watcher: Engine, count: int, width: int
):
    """Four workers finish one task at a time, in any order, while some of the parents fail."""
    parents = [f"p{n}" for n in range(width)]
    spec = tasks(" ".join(parents))
    for number, name in enumerate(("j", "k")):
        order = parents[::-1] if number else parents
        spec += [{"name": name, "task_type": name, "dependencies": order, "trigger": "all_done"}]
    spec += [{"name": "bad", "task_type": "bad", "dependencies": parents[:5]}]
    flows = [Flow(watcher, spec) for _ in range(count)]
    errors: list[BaseException] = []

    def work() -> None:
        try:
            with psycopg.connect(dsn, autocommit=True) as conn:
                engine = Engine(conn)
                while (found := engine.claim(7)).lease_id is not None:
                    for place, task_id in enumerate(found.ids):
                        odd = found.tasks[place]["task_type"] in ("p1", "p3")
                        failure = [{"task_id": task_id, "kind": "error"}] if odd else []
                        engine.finish(found, {} if odd else {task_id: 1}, failure)
        except BaseException as error:
            errors.append(error)

    while ready(watcher):
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert errors == []
    assert stuck(watcher) == []
    for flow in flows:
        counts = watcher.value("get_workflow", workflow_id=flow.id)["tasks"]
        assert counts == {"SUCCEEDED": width, "DEAD": 2, "FAILED": 1}
        assert flow.status == "FAILED"

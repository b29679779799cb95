"""Claims against claims, edits and schedulers: nothing is handed out twice or lost."""

import psycopg
import pytest

from skiplane.tests.support.engine import Engine
from skiplane.tests.support.races import Racer

EDIT = {"version": 1, "changes": {"priority": "high"}}


def test_two_claims_share_without_waiting(first: Engine, second: Engine, watcher: Engine):
    ids = watcher.many(10)
    with first.conn.transaction():
        one = first.claim(6)
        two = second.claim(6)
    assert (len(one.ids), len(two.ids)) == (6, 4)
    assert sorted(one.ids + two.ids) == sorted(ids)


def test_rolled_back_claim_leaves_everything(first: Engine, second: Engine, watcher: Engine):
    ids = watcher.many(3)
    with first.conn.transaction(force_rollback=True):
        first.claim(3)
        assert second.claim(3).lease_id is None
    claim = second.claim(3)
    assert claim.ids == ids
    assert {task["attempt"] for task in claim.tasks} == {1}


def test_edit_waits_for_the_claim_and_is_too_late(first: Engine, second: Engine, watcher: Engine):
    task_id = watcher.submit()
    with first.conn.transaction():
        first.claim()
        edit = Racer(second, "edit_task", task_id=task_id, **EDIT).wait_for_lock(watcher)
    with pytest.raises(psycopg.Error) as caught:
        edit.result()
    assert caught.value.sqlstate == "SK003"
    assert watcher.get(task_id)["version"] == 1


def test_claim_never_sees_a_task_half_edited(first: Engine, second: Engine, watcher: Engine):
    task_id = watcher.submit(payload={"old": 1})
    with first.conn.transaction():
        changes = {"payload": {"new": 2}}
        first.value("edit_task", task_id=task_id, version=1, changes=changes)
        assert second.claim().lease_id is None
    assert [task["payload"] for task in second.claim().tasks] == [{"new": 2}]


def test_second_of_two_edits_is_stale(first: Engine, second: Engine, watcher: Engine):
    for delay in (0, 60):
        task_id = watcher.submit(delay_seconds=delay)
        with first.conn.transaction():
            first.value("edit_task", task_id=task_id, **EDIT)
            edit = Racer(second, "edit_task", task_id=task_id, **EDIT).wait_for_lock(watcher)
        with pytest.raises(psycopg.Error) as caught:
            edit.result()
        assert caught.value.sqlstate == "SK005", delay
        assert watcher.get(task_id)["version"] == 2


def test_edit_follows_a_task_through_its_promotion(first: Engine, second: Engine, watcher: Engine):
    task_id = watcher.submit(delay_seconds=0.001)
    with first.conn.transaction():
        first.skip(1)
        assert first.value("promote_tasks")[0] == 1
        edit = Racer(second, "edit_task", task_id=task_id, **EDIT).wait_for_lock(watcher)
    assert edit.result()["priority"] == "high"
    assert watcher.places(task_id) == ["ready"]


def test_cancel_follows_an_edit(first: Engine, second: Engine, watcher: Engine):
    task_id = watcher.submit()
    with first.conn.transaction():
        first.value("edit_task", task_id=task_id, **EDIT)
        cancel = Racer(second, "cancel_task", task_id=task_id).wait_for_lock(watcher)
    assert cancel.result()["status"] == "CANCELLED"
    assert watcher.places(task_id) == ["outcome"]


def test_edit_under_way_to_another_time_is_followed(first: Engine, second: Engine, watcher: Engine):
    """From ready back into a timer: against the order in which tasks usually move."""
    task_id = watcher.submit()
    with first.conn.transaction():
        first.value("edit_task", task_id=task_id, version=1, changes={"delay_seconds": 60})
        cancel = Racer(second, "cancel_task", task_id=task_id).wait_for_lock(watcher)
    assert cancel.result()["status"] == "CANCELLED"
    assert watcher.places(task_id) == ["outcome"]


def test_two_schedulers_promote_each_task_once(first: Engine, second: Engine, watcher: Engine):
    watcher.many(10, delay_seconds=0.001)
    for scheduler in (first, second):
        scheduler.skip(1)
    with first.conn.transaction():
        assert first.value("promote_tasks", limit=6)[0] == 6
        assert second.value("promote_tasks", limit=6)[0] == 4
    assert watcher.one("select count(*), count(distinct id) from skiplane.ready") == (10, 10)


def test_two_schedulers_sweep_each_lease_once(first: Engine, second: Engine, watcher: Engine):
    ids = watcher.many(4)
    for _ in ids:
        watcher.claim()
    for scheduler in (first, second):
        scheduler.skip(11)
    with first.conn.transaction():
        assert first.value("sweep_leases", limit=3)[0] == 3
        assert second.value("sweep_leases", limit=3)[0] == 1
    assert {watcher.get(i)["attempt"] for i in ids} == {1}


def test_two_schedulers_expire_each_task_once(first: Engine, second: Engine, watcher: Engine):
    watcher.many(4, expires_at=watcher.one("select clock_timestamp() + interval '1 second'"))
    for scheduler in (first, second):
        scheduler.skip(2)
    with first.conn.transaction():
        assert first.value("expire_tasks", limit=3) == 3
        assert second.value("expire_tasks", limit=3) == 1
    assert watcher.one("select count(*) from skiplane.outcome") == 4


def test_two_schedulers_refresh_and_count_side_by_side(
    first: Engine, second: Engine, watcher: Engine
):
    watcher.many(5)
    watcher.one("select skiplane.refresh_lanes(null)")
    with first.conn.transaction():
        first.one("select skiplane.refresh_lanes(null)")
        first.value("refresh_depth")
        second.value("refresh_depth")
        refresh = Racer(second, "refresh_lanes", state={"writers": {}, "lane": 0})
        refresh.result()
    assert len(watcher.claim(10).ids) == 5


def test_new_lane_never_makes_submitters_wait(first: Engine, second: Engine, watcher: Engine):
    with first.conn.transaction():
        one = first.submit(queue="new")
        two = Racer(second, "submit_task", task_type="work", queue="new").result()[1]
        assert watcher.claim(5, queues=["new"]).ids == [two]
    assert watcher.claim(5, queues=["new"]).ids == [one]


@pytest.mark.parametrize("verb", ["get_task", "cancel_task", "get_result"])
def test_reader_finds_a_task_that_becomes_active_meanwhile(
    first: Engine, second: Engine, watcher: Engine, verb: str
):
    """It looked at the tasks before and looks at the timers after."""
    task_id = watcher.submit(delay_seconds=0.001)
    with first.conn.transaction():
        first.conn.execute("lock table skiplane.timer in access exclusive mode")
        reader = Racer(second, verb, task_id=task_id).wait_for_lock(watcher)
        first.skip(1)
        first.value("promote_tasks")
    assert reader.result()
    assert watcher.places(task_id) == ["outcome" if verb == "cancel_task" else "ready"]

"""Heartbeats, sweeps and finishes of one lease at the same instant."""

from typing import Any

import psycopg
import pytest

from skiplane.tests.support.engine import Claim, Engine
from skiplane.tests.support.races import Racer


def finishing(engine: Engine, claim: Claim, *places: int) -> Racer:
    """Finish some tasks of a claim in another thread."""
    ids = [claim.ids[place] for place in places]
    return Racer(
        engine,
        "finish_tasks",
        worker_id=claim.worker,
        lease_id=claim.lease_id,
        task_ids=ids,
        results=["1"] * len(ids),
    )


def beating(engine: Engine, claim: Claim, **options: Any) -> Racer:
    """Send a heartbeat in another thread."""
    return Racer(
        engine,
        "heartbeat",
        worker_id=claim.worker,
        lease_ids=[claim.lease_id],
        held=claim.ids,
        **options,
    )


def test_finish_comes_too_late_for_a_sweep(first: Engine, second: Engine, watcher: Engine):
    [task_id] = watcher.many(1)
    claim = second.claim()
    first.skip(11)
    with first.conn.transaction():
        assert first.value("sweep_leases")[0] == 1
        finish = finishing(second, claim, 0).wait_for_lock(watcher)
    assert finish.result() == [task_id]
    assert watcher.status(task_id) == "PENDING"


def test_sweep_passes_by_a_lease_that_is_being_finished(
    first: Engine, second: Engine, watcher: Engine
):
    [task_id] = watcher.many(1)
    claim = first.claim()
    second.skip(11)
    with first.conn.transaction():
        first.finish(claim)
        assert second.value("sweep_leases")[0] == 0
    assert second.value("sweep_leases")[0] == 0
    assert watcher.status(task_id) == "SUCCEEDED"


def test_heartbeat_waits_for_a_finish_and_extends_the_rest(
    first: Engine, second: Engine, watcher: Engine
):
    ids = watcher.many(2)
    claim = first.claim(2)
    second.skip(5)
    with first.conn.transaction():
        first.finish(claim, {ids[0]: 1})
        beat = beating(second, claim).wait_for_lock(watcher)
    lost, _, extended = beat.result()
    assert (lost, extended) == ([ids[0]], 1)
    assert watcher.one("select ids, until > claimed_at + interval '14 s' from skiplane.lease") == (
        [ids[1]],
        True,
    )


def test_heartbeat_waits_for_the_last_finish_and_extends_nothing(
    first: Engine, second: Engine, watcher: Engine
):
    watcher.many(2)
    claim = first.claim(2)
    second.skip(5)
    with first.conn.transaction():
        first.finish(claim)
        beat = beating(second, claim).wait_for_lock(watcher)
    assert beat.result()[2] == 0
    assert watcher.one("select count(*) from skiplane.lease") == 0


def test_finish_waits_for_a_heartbeat_and_counts(first: Engine, second: Engine, watcher: Engine):
    watcher.many(3)
    claim = second.claim(3)
    first.skip(5)
    with first.conn.transaction():
        first.value("heartbeat", worker_id=claim.worker, lease_ids=[claim.lease_id], held=claim.ids)
        finish = finishing(second, claim, 0, 1, 2).wait_for_lock(watcher)
    assert finish.result() == []
    assert {watcher.status(i) for i in claim.ids} == {"SUCCEEDED"}


def test_two_parts_of_a_lease_finish_at_once(first: Engine, second: Engine, watcher: Engine):
    watcher.many(4)
    claim = first.claim(4)
    with first.conn.transaction():
        first.finish(claim, {claim.ids[0]: 1, claim.ids[2]: 1})
        finish = finishing(second, claim, 1, 2, 3).wait_for_lock(watcher)
    assert finish.result() == [claim.ids[2]]
    assert {watcher.status(i) for i in claim.ids} == {"SUCCEEDED"}
    assert watcher.one("select count(*) from skiplane.lease") == 0


def test_two_finishes_of_a_whole_lease_count_once(first: Engine, second: Engine, watcher: Engine):
    watcher.many(2)
    claim = first.claim(2)
    with first.conn.transaction():
        first.finish(claim)
        finish = finishing(second, claim, 0, 1).wait_for_lock(watcher)
    assert finish.result() == claim.ids
    assert watcher.one("select count(*) from skiplane.outcome") == 2


def test_rolled_back_finish_leaves_the_task_running(first: Engine, second: Engine, watcher: Engine):
    """The user's own transaction, in which the task ends, may fail."""
    watcher.many(1)
    claim = first.claim()
    with first.conn.transaction(force_rollback=True):
        first.finish(claim)
        finish = finishing(second, claim, 0).wait_for_lock(watcher)
    assert finish.result() == []
    assert watcher.status(claim.ids[0]) == "SUCCEEDED"


def test_release_and_sweep_of_a_dead_worker_charge_once(
    first: Engine, second: Engine, watcher: Engine
):
    watcher.many(3)
    claim = watcher.claim(3)
    for engine in (first, second):
        engine.skip(11)
    with first.conn.transaction():
        assert first.value("release_worker", worker_id=claim.worker) == 3
        assert second.value("sweep_leases")[0] == 0
    assert {watcher.get(i)["attempt"] for i in claim.ids} == {1}


def test_release_waits_for_a_finish_of_the_dying_worker(
    first: Engine, second: Engine, watcher: Engine
):
    watcher.many(2)
    claim = first.claim(2)
    with first.conn.transaction():
        first.finish(claim, {claim.ids[0]: 1})
        release = Racer(second, "release_worker", worker_id=claim.worker).wait_for_lock(watcher)
    assert release.result() == 1
    assert [watcher.status(i) for i in claim.ids] == ["SUCCEEDED", "PENDING"]


def test_checkpoint_is_refused_after_a_cancel_under_way(
    first: Engine, second: Engine, watcher: Engine
):
    watcher.many(1)
    claim = second.claim()
    with first.conn.transaction():
        first.value("cancel_task", task_id=claim.ids[0])
        save = Racer(
            second,
            "checkpoint_task",
            worker_id=claim.worker,
            lease_id=claim.lease_id,
            task_id=claim.ids[0],
            checkpoint={"a": 1},
        ).wait_for_lock(watcher)
    with pytest.raises(psycopg.Error) as caught:
        save.result()
    assert caught.value.sqlstate == "SK006"

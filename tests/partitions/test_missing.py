"""Maintenance was off for longer than it had prepared: everything goes on."""

import psycopg
import pytest

from skiplane.tests.partitions.looks import DAY, PARENTS, at_the_same_time, covered, maintain, today
from skiplane.tests.support.engine import Engine
from skiplane.tests.support.races import Racer

LATE = 12 * DAY


@pytest.fixture
def late(engine: Engine) -> Engine:
    """The verbs on a day for which nothing has been prepared."""
    engine.skip(LATE)
    assert not covered(engine, "task", today(engine))
    return engine


def test_submit_claim_and_finish_go_on(late: Engine):
    task_id = late.submit()
    late.many(3)
    claim = late.claim(10)
    assert len(claim.tasks) == 4
    assert late.finish(claim) == []
    assert late.status(task_id) == "SUCCEEDED"
    assert all(covered(late, parent, today(late)) for parent in ("task", "outcome", "attempt"))


def test_failures_and_retries_go_on(late: Engine):
    task_id = late.submit(max_retries=1, retry_delay_seconds=60)
    late.fail(late.claim())
    assert late.status(task_id) == "RETRYING"
    assert late.places(task_id) == ["timer_far"]
    late.skip(61)
    assert late.value("promote_tasks")[0] == 1
    late.fail(late.claim())
    assert late.status(task_id) == "DEAD"
    assert len(late.get(task_id)["attempts"]) == 2


def test_times_wait_far_away_and_are_promoted_from_there(late: Engine):
    task_id = late.submit(delay_seconds=10)
    assert late.places(task_id) == ["timer_far"]
    late.skip(11)
    assert late.value("promote_tasks")[0] == 1
    assert late.places(task_id) == ["ready"]


@pytest.mark.parametrize("verb", ["cancel", "edit", "dead letter"])
def test_operators_verbs_go_on(engine: Engine, verb: str):
    task_id = engine.submit(max_retries=0, delay_seconds=0 if verb == "dead letter" else 20 * DAY)
    if verb == "dead letter":
        engine.fail(engine.claim())
        # Its history is gone, as after the retention.
        engine.conn.execute("delete from skiplane.task; delete from skiplane.outcome")
    engine.skip(LATE)
    if verb == "cancel":
        assert engine.value("cancel_task", task_id=task_id)["status"] == "CANCELLED"
    elif verb == "edit":
        changes = {"delay_seconds": 0}
        document = engine.value("edit_task", task_id=task_id, version=1, changes=changes)
        assert document["status"] == "PENDING"
    else:
        assert engine.value("retry_dead_letter", task_id=task_id)["status"] == "PENDING"


@pytest.mark.parametrize("isolation", ["read committed", "repeatable read"])
def test_two_submitters_at_once_make_it_once(dsn: str, late: Engine, isolation: str):
    with at_the_same_time(dsn, late) as other, psycopg.connect(dsn, autocommit=True) as watching:
        watcher = Engine(watching)
        other.conn.execute(f"set default_transaction_isolation = '{isolation}'".encode())
        with late.conn.transaction():
            mine = late.submit()
            racer = Racer(other, "submit_task", task_type="other").wait_for_lock(watcher)
        theirs = racer.result()[1]
        assert late.status(mine) == late.status(theirs) == "PENDING"


def test_submitter_makes_it_after_another_one_gave_up(dsn: str, late: Engine):
    with at_the_same_time(dsn, late) as other, psycopg.connect(dsn, autocommit=True) as watching:
        with late.conn.transaction(force_rollback=True):
            late.submit()
            racer = Racer(other, "submit_task", task_type="a").wait_for_lock(Engine(watching))
        assert late.status(racer.result()[1]) == "PENDING"


def test_writers_go_on_while_a_submitter_that_made_it_stays_open(dsn: str, late: Engine):
    late.submit()
    late.skip(DAY)
    with at_the_same_time(dsn, late) as other:
        other.skip(-DAY)
        with late.conn.transaction():
            late.submit()
            other.finish(other.claim())
            other.submit()


def test_maintenance_finds_its_way_afterwards(late: Engine):
    late.submit()
    made = [line for line in maintain(late) if line.startswith("made")]
    assert f"made task for {today(late)}" not in made
    assert f"made timer for {today(late)}" in made
    assert len(made) == len(PARENTS) * 9 - 6
    assert late.places(late.submit(delay_seconds=5)) == ["timer"]

"""Places of limits that go from a finish to the claim in its transaction, and rates in parts."""

import pytest

from skiplane.tests.support.engine import Claim, Engine


def test_places_that_are_not_taken_again_are_free_for_others(engine: Engine):
    engine.rows("set_task_type", task_type="work", concurrency=6)
    engine.many(30)
    claim = engine.claim(6)
    kept = engine.swap(claim, 1, count=4)
    assert (len(kept.ids), engine.running()) == (1, 3)
    assert len(engine.claim(9).ids) == 3
    assert engine.claim(9).lease_id is None


def test_places_of_a_finish_without_work_are_free_for_others(engine: Engine):
    engine.rows("set_task_type", task_type="work", concurrency=3)
    engine.many(3)
    assert engine.swap(engine.claim(3), 3).lease_id is None
    engine.many(9)
    assert len(engine.claim(9).ids) == 3


def test_limit_that_was_lowered_is_not_passed_by_from_hand_to_hand(engine: Engine):
    engine.rows("set_task_type", task_type="work", concurrency=6)
    engine.many(30)
    claim = engine.claim(6)
    engine.rows("set_task_type", task_type="work", concurrency=2)
    assert engine.swap(claim, 9, count=2).lease_id is None
    assert engine.running() == 4
    rest = Claim(claim.worker, claim.lease_id, claim.tasks[2:], claim.cursor)
    assert len(engine.swap(rest, 9, count=3).ids) == 1
    assert engine.running() == 2


def test_lower_limit_takes_at_once_what_a_whole_finish_leaves(engine: Engine):
    engine.rows("set_task_type", task_type="work", concurrency=6)
    engine.many(30)
    claim = engine.claim(6)
    engine.rows("set_task_type", task_type="work", concurrency=5)
    assert len(engine.swap(claim, 9).ids) == 5


def test_limit_that_was_raised_is_used_at_once(engine: Engine):
    engine.rows("set_task_type", task_type="work", concurrency=2)
    engine.many(30)
    claim = engine.claim(9)
    engine.rows("set_task_type", task_type="work", concurrency=5)
    assert len(engine.swap(claim, 9).ids) == 5
    assert engine.running() == 5


def test_task_without_a_limit_beside_one_with_gives_its_place_back_alone(engine: Engine):
    engine.rows("set_task_type", task_type="work", concurrency=2)
    for _ in range(4):
        engine.many(3)
        engine.many(3, "free")
        claim = engine.claim(99)
        kinds = [task["task_type"] for task in claim.tasks]
        assert kinds.count("work") == 2
        for number in range(len(claim.ids)):
            engine.finish(claim, {claim.ids[number]: None})
    assert engine.value("recount_limits") == 0
    engine.many(9)
    assert [t["task_type"] for t in engine.claim(99).tasks].count("work") == 2


def test_high_rate_grants_its_burst_and_then_its_rate(engine: Engine):
    """It is counted in parts: each of them has its share, and all are found."""
    engine.rows("set_task_type", task_type="work", rate_limit="1000/s", burst=600)
    engine.many(2000)
    engine.skip(0)
    taken = 0
    while ids := engine.claim(7).ids:
        taken += len(ids)
    assert taken == 600
    for _ in range(20):
        engine.skip(0.01)
        while ids := engine.claim(7).ids:
            taken += len(ids)
    assert 800 - 3 <= taken <= 800


def test_one_claim_takes_a_whole_burst(engine: Engine):
    engine.rows("set_task_type", task_type="work", rate_limit="1000/s", burst=800)
    engine.many(1000)
    engine.skip(0)
    assert len(engine.claim(1000).ids) == 800


@pytest.mark.parametrize("rate", [300, 500])
def test_new_rate_begins_with_what_the_old_one_left(engine: Engine, rate: int):
    """Also where it is counted in another number of parts."""
    engine.many(5000)
    engine.rows("set_task_type", task_type="work", rate_limit=f"{rate}/s")
    engine.skip(0)
    assert len(engine.claim(5000).ids) == rate
    engine.rows("set_task_type", task_type="work", rate_limit="1000/s")
    assert len(engine.claim(5000).ids) == 0
    engine.skip(0.1)
    assert len(engine.claim(5000).ids) == 100
    engine.rows("set_task_type", task_type="work", rate_limit="100/s")
    assert len(engine.claim(5000).ids) == 0
    engine.skip(0.1)
    assert len(engine.claim(5000).ids) == 10

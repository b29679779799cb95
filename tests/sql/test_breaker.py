"""Circuit breakers: closed, open, half open; by what happened and by hand."""

from typing import Any

import pytest

from skiplane.tests.support.engine import Engine, refused

SETTINGS: dict[str, Any] = {
    "breaker_threshold": 0.5,
    "breaker_window_seconds": 60,
    "breaker_minimum": 4,
    "breaker_cooldown_seconds": 30,
    "breaker_probes": 2,
}


@pytest.fixture
def guarded(engine: Engine) -> Engine:
    """An engine with a breaker on its type, and its clock stopped."""
    engine.rows("set_task_type", task_type="work", **SETTINGS)
    engine.many(100, max_retries=0)
    engine.skip(0)
    return engine


def state(engine: Engine) -> str:
    engine.value("refresh_flow")
    return str(engine.value("get_task_type", task_type="work")["breaker"]["state"])


def run(engine: Engine, good: int = 0, bad: int = 0, kind: str = "error") -> None:
    for succeeds, count in ((True, good), (False, bad)):
        for _ in range(count):
            claim = engine.claim()
            assert claim.ids
            if succeeds:
                engine.finish(claim)
            else:
                engine.fail(claim, kind)


@pytest.mark.parametrize("kind", ["error", "timeout", "permanent", "lost"])
def test_too_many_failures_open_it(guarded: Engine, kind: str):
    run(guarded, good=2, bad=1, kind=kind)
    assert state(guarded) == "closed"
    run(guarded, bad=1, kind=kind)
    assert state(guarded) == "open"
    assert guarded.claim().lease_id is None
    told = guarded.value("get_task_type", task_type="work")["breaker"]
    assert "2 of 4 attempts failed" in told["reason"]


def test_few_failures_do_not(guarded: Engine):
    run(guarded, good=6, bad=5)
    assert state(guarded) == "closed"


def test_few_attempts_do_not(guarded: Engine):
    run(guarded, bad=3)
    assert state(guarded) == "closed"


@pytest.mark.parametrize("kind", ["release", "postpone"])
def test_what_was_handed_back_is_no_failure(guarded: Engine, kind: str):
    run(guarded, bad=8, kind=kind)
    assert state(guarded) == "closed"


def test_failures_before_the_window_are_forgotten(guarded: Engine):
    run(guarded, bad=3)
    guarded.skip(61)
    run(guarded, good=3, bad=1)
    assert state(guarded) == "closed"


def test_probes_that_succeed_close_it(guarded: Engine):
    run(guarded, bad=4)
    assert state(guarded) == "open"
    guarded.skip(29)
    assert state(guarded) == "open"
    guarded.skip(2)
    assert state(guarded) == "half_open"
    claim = guarded.claim(10)
    assert len(claim.ids) == 2
    assert guarded.claim(10).lease_id is None
    guarded.finish(claim)
    assert state(guarded) == "closed"
    assert len(guarded.claim(10).ids) == 10


def test_probe_that_fails_opens_it_again(guarded: Engine):
    run(guarded, bad=4)
    assert state(guarded) == "open"
    guarded.skip(31)
    assert state(guarded) == "half_open"
    run(guarded, bad=1)
    assert state(guarded) == "open"
    guarded.skip(31)
    assert state(guarded) == "half_open"


def test_what_was_claimed_before_is_no_probe(guarded: Engine):
    before = guarded.claim(2)
    run(guarded, bad=4)
    assert state(guarded) == "open"
    guarded.skip(31)
    assert state(guarded) == "half_open"
    guarded.finish(before)
    assert state(guarded) == "half_open"


def test_cancelled_probe_gives_its_place_to_another(guarded: Engine):
    run(guarded, bad=4)
    assert state(guarded) == "open"
    guarded.skip(31)
    assert state(guarded) == "half_open"
    for task_id in guarded.claim(10).ids:
        guarded.rows("cancel_task", task_id=task_id)
    run(guarded, good=2)
    assert state(guarded) == "closed"


def test_opened_by_hand_it_stays_open(engine: Engine):
    engine.submit()
    engine.rows("open_breaker", task_type="work", reason="maintenance", actor="ann")
    engine.skip(3600)
    assert state(engine) == "open"
    assert engine.claim().lease_id is None
    engine.rows("close_breaker", task_type="work")
    assert len(engine.claim().ids) == 1


def test_opened_by_hand_for_a_time_it_probes_then(engine: Engine):
    engine.many(5)
    engine.skip(0)
    engine.rows("open_breaker", task_type="work", seconds=10)
    assert engine.claim().lease_id is None
    engine.skip(11)
    assert state(engine) == "half_open"
    run(engine, good=1)
    assert state(engine) == "closed"


def test_breaker_that_is_taken_away_is_closed(guarded: Engine):
    run(guarded, bad=4)
    assert state(guarded) == "open"
    guarded.rows("set_task_type", task_type="work", breaker_threshold=-1)
    assert state(guarded) == "closed"
    assert len(guarded.claim(5).ids) == 5


def test_closing_a_closed_one_is_refused(engine: Engine):
    with refused(engine.conn, "SK003", "task_type", "work"):
        engine.rows("close_breaker", task_type="work")

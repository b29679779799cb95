"""How far ahead a worker claims, and when it claims at all."""

from time import monotonic

import pytest

from skiplane.worker.appetite import PARTIAL_SECONDS, Appetite
from skiplane.worker.document import ClaimedTask
from skiplane.worker.leases import Item, Lease
from skiplane.worker.outcome import Failure
from skiplane.worker.slots import Slots


def item(claimed: float = 0.0, placed: float = 0.0) -> Item:
    """Make a claimed task."""
    made = Item(ClaimedTask("id", "t", 1, 1), Lease(1, 0, 0.0), claimed)
    made.placed = placed
    return made


def test_nothing_is_claimed_ahead_before_tasks_are_known_to_be_short():
    slots = Slots(10)
    assert slots.room() == 10
    slots.running, slots.reserved = 4, 3
    assert slots.room() == 3


def test_long_tasks_are_never_claimed_ahead():
    slots = Slots(10)
    for _ in range(100):
        slots.learn(0.06)
    slots.running = 9
    assert slots.room() == 1
    slots.running = 10
    assert slots.room() == 0


def test_short_tasks_are_claimed_for_ten_milliseconds():
    slots = Slots(10)
    slots.learn(0.001)
    assert slots.room() == pytest.approx(10 + 100, abs=1)
    slots.learn(0.00001)
    for _ in range(200):
        slots.learn(0.00001)
    assert slots.room() == 300  # one claim's most


def test_places_that_long_tasks_keep_do_not_count():
    slots = Slots(2)
    slots.learn(0.0001)
    now = monotonic()
    slots.running = 2
    assert not slots.look([item(placed=now - 1), item(placed=now - 1)])
    assert slots.stuck == 2
    assert slots.room() == 0


def test_what_waits_behind_long_tasks_is_to_be_handed_back():
    slots = Slots(1)
    now = monotonic()
    slots.running = 1
    slots.last_start = now - 0.2
    slots.waiting.append(item(claimed=now - 0.2))
    assert slots.look([item(placed=now - 0.2)])
    slots.last_start = now  # something has begun just now: it moves
    assert not slots.look([item(placed=now - 0.2)])


async def test_an_empty_claim_asks_for_notifications_and_looks_once_more():
    appetite = Appetite(60, 1, lambda: None)
    assert appetite.hungry(0, with_finish=False)
    assert appetite.found_nothing(appetite.wakes, armed=False)
    assert appetite.hungry(0, with_finish=False)
    assert not appetite.found_nothing(appetite.wakes, armed=True)
    assert not appetite.hungry(0, with_finish=True)
    appetite.wake()
    assert appetite.hungry(0, with_finish=False)
    appetite.close()


async def test_a_wake_up_during_a_claim_is_not_lost():
    appetite = Appetite(60, 1, lambda: None)
    sent = appetite.wakes
    appetite.wake()
    appetite.found_nothing(sent, armed=True)
    assert appetite.hungry(0, with_finish=False)


async def test_every_shard_is_looked_at_before_sleeping():
    appetite = Appetite(60, 3, lambda: None)
    answers = [appetite.found_nothing(appetite.wakes, armed=False) for _ in range(3)]
    assert answers == [False, False, True]


async def test_after_a_partial_claim_the_next_one_rides_with_a_finish():
    appetite = Appetite(60, 1, lambda: None)
    appetite.found(3, 10)
    assert appetite.hungry(0, with_finish=True)
    assert not appetite.hungry(0, with_finish=False)
    assert PARTIAL_SECONDS < 0.02


async def test_only_full_claims_make_it_busy():
    appetite = Appetite(60, 1, lambda: None)
    appetite.found(10, 10)
    assert not appetite.busy
    appetite.found(10, 10)
    assert appetite.busy
    appetite.found(3, 10)
    assert not appetite.busy


def test_ends_are_given_back_in_front_and_in_order():
    lease = Lease(1, 0, 0.0)
    lease.order = ["a", "b", "c"]
    lease.add_success("b", "2", 0.0, 0.0)
    first = lease.take()
    lease.add_success("c", "3", 0.0, 0.0)
    lease.add_success("a", "1", 0.0, 0.0)
    lease.give_back(first)
    assert lease.pending == 3
    ends = lease.take()
    assert (ends.ids, ends.results) == (["a", "b", "c"], ["1", "2", "3"])
    assert lease.pending == 0


def test_refused_ends_go_one_by_one():
    lease = Lease(1, 0, 0.0)
    lease.add_success("a", "1", 0.0, 0.0)
    lease.add_failure("b", Failure("error", "E", "e"), 0.0, 0.0)
    lease.single = True
    first, second = lease.take(), lease.take()
    assert (first.ids, [end[0] for end in second.failures]) == (["a"], ["b"])
    assert lease.pending == 0
    assert [end[0] for end in first.as_failure(Failure("permanent")).failures] == ["a"]

"""Places that go from a finish to the claim in its transaction, and rates in parts, under races."""

import itertools
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from skiplane.tests.support import wait_until
from skiplane.tests.support.engine import Claim, Engine


@contextmanager
def at_the_gate(other: Engine, gate: str) -> Iterator[None]:
    """Hold the lock of a limit, as a claim that has not committed yet does."""
    with other.conn.transaction():
        assert other.one("select skiplane._lock_gate(%s, 0)", [gate])
        yield


LIMITS: list[tuple[str, dict[str, Any], str]] = [
    ("set_queue", {"queue": "default"}, "queue|default"),
    ("set_task_type", {"task_type": "work"}, "type|work"),
    ("set_tenant", {"tenant_id": "default"}, "tenant|default"),
]


@pytest.mark.parametrize(("function", "options", "gate"), LIMITS)
@pytest.mark.parametrize("lanes", [1, 6])
def test_places_of_a_finish_are_taken_without_the_lock_of_their_limit(
    first: Engine,
    second: Engine,
    watcher: Engine,
    function: str,
    options: dict[str, Any],
    gate: str,
    lanes: int,
):
    watcher.rows("set_task_type", task_type="work", key_concurrency=100)
    watcher.rows(function, concurrency=4, **options)
    for number in range(lanes):
        watcher.many(20, concurrency_key=f"k{number}" if lanes > 1 else None)
    claim = first.claim(9)
    assert len(claim.ids) == 4
    with at_the_gate(second, gate):
        for _ in range(3):
            claim = first.swap(claim, 9)
            assert len(claim.ids) == 4
            assert watcher.claim(9).lease_id is None
    assert watcher.running() == 4


def test_rolled_back_swap_changes_nothing(first: Engine, second: Engine, watcher: Engine):
    watcher.rows("set_task_type", task_type="work", concurrency=3)
    watcher.many(30)
    claim = first.claim(9)
    with first.conn.transaction(force_rollback=True):
        assert len(first.swap(claim, 9).ids) == 3
        assert second.claim(9).lease_id is None
    assert second.claim(9).lease_id is None
    assert watcher.running() == 3
    assert len(first.swap(claim, 9).ids) == 3


def swapping(dsn: str, over: threading.Event, most: int, errors: list[BaseException]) -> None:
    """Finish part of what was claimed, claim on in the same call, and finish the rest."""
    try:
        with psycopg.connect(dsn, autocommit=True) as conn:
            conn.execute("set synchronous_commit = off")
            engine, claim = Engine(conn), Claim(uuid.uuid4(), None, [], None)
            for step in itertools.count():
                if over.is_set():
                    break
                if claim.lease_id is None:
                    time.sleep(0.002)
                    claim = engine.claim(most, worker=claim.worker)
                    continue
                count = 1 + step % len(claim.ids)
                swapped = engine.swap(claim, count, count)
                if claim.ids[count:]:
                    engine.finish(claim, dict.fromkeys(claim.ids[count:]))
                claim = swapped
    except BaseException as error:
        errors.append(error)


def keeps(watcher: Engine, limit: int) -> int:
    """Set a limit, wait until it is kept, and look for a while; give how many tasks have ended."""
    watcher.rows("set_task_type", task_type="work", concurrency=limit)
    wait_until(lambda: watcher.running() <= limit, 20, f"at most {limit} to run")
    ended = int(watcher.one("select count(*) from skiplane.outcome"))
    until = time.monotonic() + 1
    while time.monotonic() < until:
        assert watcher.running() <= limit
        watcher.value("refresh_flow")
    return int(watcher.one("select count(*) from skiplane.outcome")) - ended


@pytest.mark.timeout(120)
def test_swaps_at_once_never_exceed_a_limit_that_changes(dsn: str, watcher: Engine):
    watcher.many(10_000)
    errors: list[BaseException] = []
    over = threading.Event()
    watcher.rows("set_task_type", task_type="work", concurrency=5)
    threads = [
        threading.Thread(target=swapping, args=(dsn, over, most, errors)) for most in (1, 3, 5, 8)
    ]
    for thread in threads:
        thread.start()
    try:
        for limit in (5, 2, 7, 3):
            assert keeps(watcher, limit) > 0
    finally:
        over.set()
        for thread in threads:
            thread.join(30)
    assert not errors, errors
    watcher.conn.execute("update skiplane.lease set until = now() - interval '1 hour'")
    while watcher.value("sweep_leases")[0]:
        pass
    assert watcher.value("recount_limits") == 0
    assert len(watcher.claim(99).ids) == 3


def test_part_that_is_held_by_another_is_left_out_and_not_lost(
    first: Engine, second: Engine, watcher: Engine
):
    watcher.rows("set_task_type", task_type="work", rate_limit="400/s", burst=400)
    watcher.many(1000)
    for engine in (first, second):
        engine.skip(0)
    assert len(first.claim(1).ids) == 1
    with first.conn.transaction():
        assert len(first.claim(10).ids) == 10
        # The part of the first is out of reach, the other three are not.
        assert len(second.claim(999).ids) == 300
    assert len(second.claim(999).ids) == 400 - 300 - 10 - 1

"""Limits under simultaneous claims, lost leases and cancels."""

import contextlib
import random
import threading
import time
from collections import Counter
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from skiplane.tests.support.engine import Claim, Engine

LIMIT = 3


def test_open_claim_holds_its_places_and_its_rollback_frees_them(
    first: Engine, second: Engine, watcher: Engine
):
    """Neither sees what the other has taken; the place is taken all the same."""
    watcher.rows("set_task_type", task_type="work", concurrency=1)
    watcher.many(5)
    with first.conn.transaction(force_rollback=True):
        assert len(first.claim(5).ids) == 1
        watcher.submit(priority="high")
        free = watcher.submit("free")
        # It waits for nobody, and what has no limit is not lost.
        assert second.claim(5).ids == [free]
    assert len(second.claim(5).ids) == 1
    assert first.claim(5).lease_id is None


def test_claim_without_places_comes_back_at_once(first: Engine, second: Engine, watcher: Engine):
    watcher.rows("set_queue", queue="default", concurrency=9)
    watcher.many(5)
    with first.conn.transaction(force_rollback=True):
        first.claim(1)
        began = time.monotonic()
        claim = second.claim(5)
        assert claim.lease_id is None
        assert time.monotonic() - began < 10
        assert claim.cursor is not None
        assert claim.cursor["again"] <= 0.05


def test_cancel_and_finish_of_one_task_give_its_place_back_once(
    first: Engine, second: Engine, watcher: Engine
):
    watcher.rows("set_task_type", task_type="work", concurrency=1)
    watcher.many(9)
    for _ in range(3):
        claim = first.claim(9)
        [task_id] = claim.ids
        with first.conn.transaction():
            first.finish(claim)
            threads = [
                threading.Thread(target=refusable, args=(second, task_id)),
            ]
            for thread in threads:
                thread.start()
        for thread in threads:
            thread.join(10)
            assert not thread.is_alive()
        assert len(first.claim(9).ids) == 1
        assert watcher.claim(9).lease_id is None
        first.rows("release_worker", worker_id=first.worker)


def refusable(engine: Engine, task_id: Any) -> None:
    with contextlib.suppress(psycopg.Error):
        engine.rows("cancel_task", task_id=task_id)


class Fleet:
    """Workers that claim, finish, fail, crash and are cancelled, in threads of their own."""

    def __init__(self, dsn: str, seconds: float, disorder: bool) -> None:
        self.dsn = dsn
        self.until = time.monotonic() + seconds
        self.disorder = disorder
        self.starts: list[tuple[float, str]] = []
        self.errors: list[BaseException] = []

    def run(self, count: int, watch: Any) -> None:
        threads = [threading.Thread(target=self._guard, args=(n,)) for n in range(count)]
        for thread in threads:
            thread.start()
        while time.monotonic() < self.until:
            watch()
        for thread in threads:
            thread.join(30)
            assert not thread.is_alive()
        if self.errors:
            raise self.errors[0]

    def _guard(self, number: int) -> None:
        try:
            with psycopg.connect(self.dsn, autocommit=True) as conn:
                conn.execute("set synchronous_commit = off")
                self._work(Engine(conn), random.Random(number))
        except BaseException as error:
            self.errors.append(error)

    def _work(self, engine: Engine, chance: random.Random) -> None:
        cursor: Any = None
        while time.monotonic() < self.until:
            claim = engine.claim(chance.choice([1, 2, 10]), cursor=cursor and Jsonb(cursor))
            cursor = claim.cursor
            if claim.lease_id is None:
                time.sleep(0.002)
                continue
            row = engine.one(
                "select extract(epoch from claimed_at)::float8 from skiplane.lease"
                " where lease_id = %s",
                [claim.lease_id],
            )
            self.starts += [(row, task["task_type"]) for task in claim.tasks]
            self._end(engine, claim, chance)

    def _end(self, engine: Engine, claim: Claim, chance: random.Random) -> None:
        time.sleep(chance.uniform(0, 0.01))
        way = chance.randrange(6) if self.disorder else 0
        if way == 1:
            engine.rows("release_worker", worker_id=claim.worker, charge=False)
        elif way == 2:
            engine.rows("cancel_task", task_id=claim.ids[0])
        elif way == 3:
            engine.conn.execute(
                "update skiplane.lease set until = now() - interval '1 hour' where lease_id = %s",
                [claim.lease_id],
            )
            engine.rows("sweep_leases")
        elif way == 4:
            engine.fail(claim, "release")
        # A zombie finishes whatever happened.
        engine.finish(claim)


SCOPES: list[tuple[str, dict[str, Any]]] = [
    ("set_task_type", {"task_type": "work", "concurrency": LIMIT}),
    ("set_queue", {"queue": "default", "concurrency": LIMIT}),
    ("set_tenant", {"tenant_id": "default", "concurrency": LIMIT}),
    ("set_task_type", {"task_type": "work", "key_concurrency": LIMIT}),
]


@pytest.mark.parametrize(("function", "options"), SCOPES)
def test_never_more_run_than_may_and_no_place_is_lost(
    dsn: str, watcher: Engine, function: str, options: dict[str, Any]
):
    watcher.rows(function, **options)
    key = "k" if "key_concurrency" in options else None
    watcher.many(3000, max_retries=1000, concurrency_key=key)
    most: Counter[int] = Counter()

    def watch() -> None:
        held = watcher.one("select coalesce(sum(cardinality(ids)), 0)::int from skiplane.lease")
        most[held] += 1
        watcher.rows("refresh_flow")

    fleet = Fleet(dsn, 4, disorder=True)
    fleet.run(6, watch)
    assert max(most) <= LIMIT
    assert len(fleet.starts) > 100
    watcher.conn.execute("update skiplane.lease set until = now() - interval '1 hour'")
    while watcher.value("sweep_leases")[0]:
        pass
    assert len(watcher.claim(99).ids) == LIMIT


@pytest.mark.parametrize(("rate", "burst"), [(40, 10), (300, 60), (450, 400)])
def test_rate_is_never_exceeded_in_any_window_and_nearly_reached(
    dsn: str, watcher: Engine, rate: int, burst: int
):
    watcher.rows("set_task_type", task_type="work", rate_limit=f"{rate}/s", burst=burst)
    watcher.many(4000)
    fleet = Fleet(dsn, 4, disorder=False)
    fleet.run(4, lambda: time.sleep(0.02))
    times = sorted(at for at, _ in fleet.starts)
    for low in range(len(times)):
        for high in range(low, len(times)):
            most = burst + rate * (times[high] - times[low]) + 1e-3
            assert high - low + 1 <= most
    assert len(times) >= 0.95 * rate * (times[-1] - times[0])


def test_drift_is_found_and_repaired(watcher: Engine):
    watcher.rows("set_task_type", task_type="work", concurrency=LIMIT)
    watcher.many(9)
    watcher.claim(1)
    watcher.conn.execute("update skiplane.gate_state set held = held + 1")
    assert not health(watcher)["limits"]
    assert watcher.value("recount_limits") == 1
    assert health(watcher)["limits"]
    assert len(watcher.claim(9).ids) == LIMIT - 1


def health(engine: Engine) -> dict[str, bool]:
    return {name: ok for name, ok, _ in engine.rows("health")}

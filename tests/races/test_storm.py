"""Many sessions drive the same tasks through every verb: no error but refusals, nothing lost."""

import random
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable
from typing import Any

import psycopg

from skiplane.tests.support.engine import Claim, Engine

SESSIONS, SECONDS, TASKS = 6, 5.0, 60
# A success is an end for good: it comes seldom, so that the storm goes on.
KINDS = ("success", *("error", "permanent", "release", "postpone") * 10)
CHANGES = (
    {"priority": "high"},
    {"priority": "low", "queue": "default"},
    {"delay_seconds": 0.05},
    {"delay_seconds": 0},
    {"estimated_duration_seconds": 1},
)


class Session:
    """One connection that does whatever comes to its mind."""

    def __init__(self, dsn: str, ids: list[uuid.UUID], seed: int) -> None:
        self.engine = Engine(psycopg.connect(dsn, autocommit=True))
        self.ids = ids
        self.random = random.Random(seed)
        self.claims: list[Claim] = []
        self.done: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self.thread = threading.Thread(target=self.run)

    def run(self) -> None:
        """Call verbs until the time is over."""
        until = time.monotonic() + SECONDS
        steps: list[Callable[[], Any]] = [
            self.claim,
            self.finish,
            self.edit,
            self.beat,
            *(self.one_task(verb) for verb in ("cancel_task", "retry_task", "get_task")),
            *(self.whole(verb) for verb in ("promote_tasks", "sweep_leases", "expire_tasks")),
            *(self.whole(verb) for verb in ("retry_dead_letters", "refresh_lanes")),
            lambda: self.engine.value("release_worker", worker_id=self.engine.worker),
        ]
        with self.engine.conn:
            while time.monotonic() < until:
                step = self.random.choice(steps)
                try:
                    step()
                    self.done["calls"] += 1
                except psycopg.Error as error:
                    if not (error.sqlstate or "").startswith("SK"):
                        self.errors[f"{error.sqlstate}: {error}"] += 1
                    self.done[error.sqlstate or ""] += 1

    def one_task(self, verb: str) -> Callable[[], Any]:
        return lambda: self.engine.value(verb, task_id=self.random.choice(self.ids))

    def whole(self, verb: str) -> Callable[[], Any]:
        return lambda: self.engine.rows(verb)

    def claim(self) -> None:
        claim = self.engine.claim(self.random.randint(1, 8), lease_seconds=0.2)
        if claim.lease_id is not None:
            self.claims.append(claim)

    def finish(self) -> None:
        if self.claims:
            claim = self.claims.pop(self.random.randrange(len(self.claims)))
            kind = self.random.choice(KINDS)
            if kind == "success":
                self.engine.finish(claim)
            else:
                self.engine.fail(claim, kind, delay_seconds=0.05)

    def edit(self) -> None:
        task_id = self.random.choice(self.ids)
        version = self.engine.get(task_id)["version"]
        changes = self.random.choice(CHANGES)
        self.engine.value("edit_task", task_id=task_id, version=version, changes=changes)

    def beat(self) -> None:
        self.engine.value(
            "heartbeat",
            worker_id=self.engine.worker,
            lease_ids=[claim.lease_id for claim in self.claims],
            held=[task_id for claim in self.claims for task_id in claim.ids],
            lease_seconds=0.2,
        )


def test_storm_of_sessions_ends_with_every_task_in_one_place(dsn: str, watcher: Engine):
    ids = watcher.many(TASKS, max_retries=5, retry_delay_seconds=0)
    sessions = [Session(dsn, ids, seed) for seed in range(SESSIONS)]
    for session in sessions:
        session.thread.start()
    for session in sessions:
        session.thread.join(60)
    assert sum((session.errors for session in sessions), Counter()) == Counter()
    done = sum((session.done for session in sessions), Counter())
    assert done["calls"] > 100
    # Races were lost, too.
    assert done["SK003"] > 0
    assert {task_id: len(watcher.places(task_id)) for task_id in ids} == dict.fromkeys(ids, 1)
    letters = watcher.one("select array_agg(id) from skiplane.dead") or []
    assert set(letters) == {task_id for task_id in ids if watcher.status(task_id) == "DEAD"}

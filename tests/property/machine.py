"""Every verb in any order, against the model, with a producer that may commit late."""

import datetime
import uuid
from typing import Any

import hypothesis.strategies as st
import psycopg
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from skiplane.tests.support.engine import Claim, Engine

from .model import ENDED, LEASE, Model, Task, after

TABLES = (
    "task outcome attempt ready timer timer_far lease lane lane_mark watermark dead idempotency"
)
QUEUES = st.sampled_from(["p", "q"])
TYPES = st.sampled_from(["a", "b"])
WORKERS = [uuid.UUID(int=1), uuid.UUID(int=2)]
KINDS = st.sampled_from(["success", "error", "timeout", "permanent", "release", "postpone", "keep"])
PICK = st.integers(0, 1_000_000)
CHANGES = st.sampled_from(
    [
        {"priority": "high"},
        {"queue": "p"},
        {"queue": "q", "max_retries": 0},
        {"delay_seconds": 0},
        {"delay_seconds": 20},
        {"delay_seconds": 3, "queue": "p"},
        {"estimated_duration_seconds": 1},
        {"estimated_duration_seconds": None},
    ]
)
# Each task with the place where it is: the union that must give every task once.
PLACES = (
    "select id, status::text, attempt, fence, due_at from skiplane.timer"
    " union all select id, status::text, attempt, fence, due_at from skiplane.timer_far"
    " union all select id, 'PENDING', attempt, fence, null from skiplane.ready"
    " union all select u.id, 'RUNNING', u.attempt, u.fence, null from skiplane.lease,"
    " unnest(ids, attempts, fences) as u (id, attempt, fence)"
    " union all select id, status::text, attempt, fence, null from skiplane.outcome"
)
BELOW = (
    "select count(*) from skiplane.ready r left join skiplane.lane l on l.lane = r.lane"
    " left join lateral (select m.due_at, m.estimate, m.id from skiplane.lane_mark m"
    " where m.lane = r.lane order by m.n desc limit 1) m on true"
    " where l.lane is null or (r.due_at, r.estimate, r.id) < (m.due_at, m.estimate, m.id)"
)


class EngineMachine(RuleBasedStateMachine):
    """Subclasses say which engines: one for all verbs, one for the late producer."""

    engine: Engine
    producer: Engine

    def __init__(self) -> None:
        super().__init__()
        names = ", ".join(f"skiplane.{name}" for name in TABLES.split())
        self.engine.conn.execute(f"truncate {names}".encode())
        self.model = Model()
        self.claims: list[Claim] = []
        self.keys: dict[str, uuid.UUID] = {}
        self.lane_state: str | None = None
        self.after: dict[str, Any] = {"promote": None, "sweep": None}
        self.open: dict[uuid.UUID, Task] = {}
        self.now: datetime.datetime = self.engine.one("select clock_timestamp()")

    def teardown(self) -> None:
        self.producer.conn.rollback()

    def tick(self, seconds: float = 0.001) -> datetime.datetime:
        """Let time pass: no two calls happen at one instant."""
        self.now = after(self.now, seconds)
        self.engine.conn.execute(
            "select set_config('skiplane.now', %s::text, false)", [self.now.isoformat()]
        )
        return self.now

    def refusal(self, verb: str, **arguments: Any) -> tuple[str | None, Any]:
        """Call a verb; give the code of its refusal or what it gave."""
        try:
            return None, self.engine.value(verb, **arguments)
        except psycopg.Error as error:
            return error.sqlstate, None

    def pick(self, number: int) -> uuid.UUID:
        """Choose a task."""
        ids = list(self.model.tasks)
        return ids[number % len(ids)]

    @rule(seconds=st.sampled_from([0.3, 1.2, 2.5, 4.0, 11.0, 40.0]))
    def time_passes(self, seconds: float) -> None:
        self.tick(seconds)

    @rule(
        queue=QUEUES,
        task_type=TYPES,
        tenant=st.sampled_from(["t", "u"]),
        priority=st.sampled_from(["high", "medium", "low"]),
        retries=st.integers(0, 2),
        retry_delay=st.sampled_from([0, 4]),
        delay=st.sampled_from([None, None, 0, 5]),
        expires=st.sampled_from([None, None, 15]),
        count=st.integers(1, 4),
        key=st.sampled_from([None, None, "k1", "k2"]),
        late=st.booleans(),
    )
    def submit(self, **drawn: Any) -> None:
        now = self.tick()
        options = {
            "task_type": drawn["task_type"],
            "queue": drawn["queue"],
            "priority": drawn["priority"],
            "max_retries": drawn["retries"],
            "retry_delay_seconds": drawn["retry_delay"],
            "retry_backoff": "fixed",
            "retry_jitter": "none",
            "delay_seconds": drawn["delay"],
            "expires_at": drawn["expires"] and after(now, drawn["expires"]),
            "metadata": {"tenant_id": drawn["tenant"]},
        }
        start = after(now, drawn["delay"] or 0)
        waits = bool(drawn["delay"])
        made = Task(
            drawn["queue"],
            drawn["task_type"],
            drawn["retries"],
            drawn["retry_delay"],
            start,
            options["expires_at"],
            status="SCHEDULED" if waits else "PENDING",
            due=start if waits else None,
        )
        if drawn["late"] and not self.open:
            self.producer.conn.execute("begin")
            self.producer.conn.execute(
                "select set_config('skiplane.now', %s::text, false)", [now.isoformat()]
            )
            ids = self.producer.many(drawn["count"], **options)
            self.open = {task_id: Task(**vars(made)) for task_id in ids}
        elif drawn["key"]:
            self.submit_keyed(drawn["key"], made, options)
        else:
            for task_id in self.engine.many(drawn["count"], **options):
                self.model.tasks[task_id] = Task(**vars(made))

    def submit_keyed(self, key: str, made: Task, options: dict[str, Any]) -> None:
        """Submit under a key, which each tenant may use once."""
        place = f"{options['metadata']['tenant_id']}/{key}"
        code, row = self.refusal("submit_task", idempotency_key=key, **options)
        if place in self.keys:
            assert code == "SK004" or (row[1], row[5]) == (self.keys[place], True)
        else:
            assert code is None
            self.keys[place] = row[1]
            self.model.tasks[row[1]] = made

    @precondition(lambda self: self.open)
    @rule(commit=st.booleans())
    def late_producer_ends(self, commit: bool) -> None:
        self.producer.conn.execute("commit" if commit else "rollback")
        if commit:
            self.model.tasks.update(self.open)
        self.open = {}
        self.refresh(restart=False)

    @rule(restart=st.booleans())
    def refresh(self, restart: bool) -> None:
        self.tick()
        state = None if restart else self.lane_state
        self.lane_state = self.engine.one("select skiplane.refresh_lanes(%s::jsonb)::text", [state])

    @rule(
        worker=st.sampled_from(WORKERS),
        limit=st.integers(1, 5),
        queues=st.sampled_from([["p"], ["q"], ["p", "q"]]),
        types=st.sampled_from([None, None, ["a"], ["b"]]),
    )
    def claim(
        self, worker: uuid.UUID, limit: int, queues: list[str], types: list[str] | None
    ) -> None:
        now = self.tick()
        allowed = self.model.claimable(queues, types, now)
        claim = self.engine.claim(
            limit, queues=queues, worker=worker, task_types=types, lease_seconds=LEASE
        )
        assert len(set(claim.ids)) == len(claim.ids) == min(limit, len(allowed))
        assert set(claim.ids) <= allowed
        if claim.lease_id is not None:
            self.model.start(claim.lease_id, worker, claim.ids, now)
            self.claims.append(claim)
            for task in claim.tasks:
                known = self.model.tasks[uuid.UUID(task["task_id"])]
                assert (task["attempt"], task["fence"]) == (known.attempt, known.fence)

    @precondition(lambda self: self.claims)
    @rule(number=PICK, kinds=st.lists(KINDS, min_size=5, max_size=5))
    def finish(self, number: int, kinds: list[str]) -> None:
        now = self.tick()
        claim = self.claims[number % len(self.claims)]
        assert claim.lease_id is not None
        ends = {i: kind for i, kind in zip(claim.ids, kinds, strict=False) if kind != "keep"}
        results = {i: 1 for i, kind in ends.items() if kind == "success"}
        failures = [
            {"task_id": i, "kind": kind, "delay_seconds": 5}
            for i, kind in ends.items()
            if kind != "success"
        ]
        lease = self.model.leases.get(claim.lease_id)
        held = set(lease.ids) if lease else set()
        stale = self.engine.finish(claim, results, failures)
        assert set(stale) == set(ends) - held
        for task_id in set(ends) & held:
            self.model.leave(claim.lease_id, task_id)
            self.model.end_attempt(task_id, ends[task_id], now)

    @rule(worker=st.sampled_from(WORKERS), forget=st.booleans(), reconcile=st.booleans())
    def heartbeat(self, worker: uuid.UUID, forget: bool, reconcile: bool) -> None:
        now = self.tick()
        mine = {n: lease for n, lease in self.model.leases.items() if lease.worker == worker}
        known = dict(list(mine.items())[1:]) if forget else mine
        held = [i for claim in self.claims if claim.worker == worker for i in claim.ids]
        lost, _, extended = self.engine.value(
            "heartbeat",
            worker_id=worker,
            lease_ids=list(known),
            held=held,
            lease_seconds=LEASE,
            reconcile=reconcile,
        )
        assert set(lost) == set(held) - {i for lease in known.values() for i in lease.ids}
        old = [n for n, lease in known.items() if after(lease.claimed_at, LEASE / 3) < now]
        assert extended == len(old)
        for number in old:
            self.model.leases[number].until = after(now, LEASE)
        for number in set(mine) - set(known):
            if reconcile and after(mine[number].claimed_at, 2) < now:
                self.model.end_lease(number, "release", now)

    @rule(worker=st.sampled_from(WORKERS), charge=st.booleans())
    def release_worker(self, worker: uuid.UUID, charge: bool) -> None:
        now = self.tick()
        numbers = [n for n, lease in self.model.leases.items() if lease.worker == worker]
        count = self.engine.value("release_worker", worker_id=worker, charge=charge)
        kind = "lost" if charge else "release"
        assert count == sum(self.model.end_lease(number, kind, now) for number in numbers)

    @invariant()
    def every_task_is_in_exactly_one_place(self) -> None:
        rows = self.engine.conn.execute(PLACES).fetchall()
        found = {row[0]: row[1:] for row in rows}
        assert len(found) == len(rows)
        assert found == {
            i: (task.status, task.attempt, task.fence, task.due)
            for i, task in self.model.tasks.items()
        }

    @invariant()
    def view_and_letters_agree(self) -> None:
        rows = self.engine.conn.execute("select task_id, status, attempt from skiplane.tasks")
        assert {row[0]: row[1:] for row in rows} == {
            i: (task.status, task.attempt) for i, task in self.model.tasks.items()
        }
        letters = {row[0] for row in self.engine.conn.execute("select id from skiplane.dead")}
        assert letters == {i for i, task in self.model.tasks.items() if task.letter}

    @invariant()
    def nothing_is_out_of_reach(self) -> None:
        assert self.engine.one(BELOW) == 0


__all__ = ["ENDED", "CHANGES", "PICK", "EngineMachine"]

"""Random graphs, random ends, verbs in any order: the engine does what the model says."""

import uuid
from typing import Any

import hypothesis.strategies as st
import psycopg
from hypothesis import HealthCheck, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from skiplane.tests.support.engine import Claim, Document, Engine

from .flows import Flow, stuck
from .model import BAD, ENDED, Model, Node

TABLES = (
    "task outcome attempt ready timer timer_far lease dead idempotency"
    " workflow workflow_state workflow_task blocked"
)
KINDS = st.sampled_from(["success", "success", "success", "error", "permanent", "release", "keep"])
PICK = st.integers(0, 1_000_000)
LEASE = 10
PLACES = """
    select id from skiplane.timer union all select id from skiplane.timer_far
    union all select id from skiplane.ready union all select id from skiplane.blocked
    union all select u.id from skiplane.lease, unnest(ids) as u (id)
    union all select id from skiplane.outcome
"""
BOUNDED = settings(
    max_examples=15,
    stateful_step_count=30,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)


@st.composite
def graphs(draw: st.DrawFn) -> list[Node]:
    """Give a random graph; parents come first."""
    nodes: list[Node] = []
    for number in range(draw(st.integers(1, 8))):
        before = st.integers(0, number - 1)
        parents = sorted(draw(st.sets(before, max_size=4))) if number else []
        triggers = ["all_success", "all_success", "all_done", "any_failed"]
        trigger = draw(st.sampled_from(triggers)) if parents else "all_success"
        nodes.append(Node(parents, trigger, draw(st.sampled_from([0, 0, 1]))))
    return nodes


class Machine(RuleBasedStateMachine):
    """Two workflows at once, since a batch may hold tasks of both."""

    engine: Engine

    def __init__(self) -> None:
        super().__init__()
        names = ", ".join(f"skiplane.{name}" for name in TABLES.split())
        self.engine.conn.execute(f"truncate {names}".encode())
        self.flows: list[tuple[Flow, Model]] = []
        self.where: dict[uuid.UUID, tuple[Model, int]] = {}
        self.claims: list[Claim] = []
        self.held: dict[uuid.UUID, int] = {}

    @initialize(first=graphs(), second=graphs(), shuffled=st.randoms(use_true_random=False))
    def submit(self, first: list[Node], second: list[Node], shuffled: Any) -> None:
        for nodes in (first, second):
            model = Model(nodes)
            spec: list[Document] = [
                {
                    "name": str(n),
                    "task_type": "work",
                    "max_retries": node.max_retries,
                    "retry_delay_seconds": 5,
                    "dependencies": [str(p) for p in node.parents],
                    **({"trigger": node.trigger} if node.parents else {}),
                }
                for n, node in enumerate(nodes)
            ]
            shuffled.shuffle(spec)
            flow = Flow(self.engine, spec)
            model.settle()
            self.flows.append((flow, model))
            self.where |= {flow.ids[str(n)]: (model, n) for n in range(len(nodes))}

    def node(self, task_id: uuid.UUID) -> Node:
        model, place = self.where[task_id]
        return model.nodes[place]

    def settle(self) -> None:
        for _, model in self.flows:
            model.settle()

    def refusal(self, verb: str, **arguments: Any) -> str | None:
        try:
            self.engine.value(verb, **arguments)
        except psycopg.Error as error:
            return error.sqlstate
        return None

    @rule(limit=st.integers(1, 6))
    def claim(self, limit: int) -> None:
        claim = self.engine.claim(limit, worker=uuid.uuid4(), lease_seconds=LEASE)
        pending = [i for i in self.where if self.node(i).status == "PENDING"]
        assert len(claim.ids) == min(limit, len(pending))
        for task_id in claim.ids:
            node = self.node(task_id)
            assert node.status == "PENDING"
            node.status, node.attempt = "RUNNING", node.attempt + 1
            assert claim.lease_id is not None
            self.held[task_id] = claim.lease_id
        if claim.ids:
            self.claims.append(claim)

    def end_attempt(self, task_id: uuid.UUID, kind: str) -> None:
        node = self.node(task_id)
        self.held.pop(task_id)
        if kind == "success":
            node.status = "SUCCEEDED"
        elif kind == "release":
            node.status, node.attempt = "PENDING", node.attempt - 1
        elif kind == "permanent":
            node.status = "FAILED"
        elif node.attempt > node.max_retries:
            node.status = "DEAD"
        else:
            node.status = "PENDING" if kind == "lost" else "RETRYING"

    @precondition(lambda self: self.claims)
    @rule(number=PICK, kinds=st.lists(KINDS, min_size=6, max_size=6))
    def finish(self, number: int, kinds: list[str]) -> None:
        claim = self.claims[number % len(self.claims)]
        ends = {i: kind for i, kind in zip(claim.ids, kinds, strict=False) if kind != "keep"}
        results = {i: 1 for i, kind in ends.items() if kind == "success"}
        failures = [
            {"task_id": i, "kind": kind, "error_message": "boom"}
            for i, kind in ends.items()
            if kind != "success"
        ]
        held = {i for i in ends if self.held.get(i) == claim.lease_id}
        assert set(self.engine.finish(claim, results, failures)) == set(ends) - held
        for task_id in held:
            self.end_attempt(task_id, ends[task_id])
        self.settle()

    @rule()
    def lose_all_workers(self) -> None:
        for claim in self.claims:
            self.engine.value("release_worker", worker_id=claim.worker, reason="gone")
        for task_id in list(self.held):
            self.end_attempt(task_id, "lost")
        self.settle()

    @rule()
    def promote(self) -> None:
        self.engine.skip(LEASE / 1.5)
        for task_id, (_, _) in self.where.items():
            if self.node(task_id).status == "RETRYING":
                self.node(task_id).status = "PENDING"
        self.engine.rows("promote_tasks")

    @rule(number=PICK)
    def cancel_task(self, number: int) -> None:
        task_id = list(self.where)[number % len(self.where)]
        node = self.node(task_id)
        code = self.refusal("cancel_task", task_id=task_id)
        assert code == ("SK003" if node.status in ENDED else None)
        if code is None:
            self.held.pop(task_id, None)
            node.status, node.follows = "CANCELLED", False
            self.settle()

    @rule(number=PICK)
    def retry_task(self, number: int) -> None:
        task_id = list(self.where)[number % len(self.where)]
        model, place = self.where[task_id]
        node = model.nodes[place]
        code = self.refusal("retry_task", task_id=task_id)
        assert code == (None if node.status in BAD and not node.follows else "SK003")
        if code is None:
            model.retry(model.because_of(place))

    @rule(number=st.integers(0, 1), sure=st.integers(0, 3))
    def cancel_workflow(self, number: int, sure: int) -> None:
        flow, model = self.flows[number]
        if sure:
            return
        code = self.refusal("cancel_workflow", workflow_id=flow.id)
        assert code == (None if model.status == "RUNNING" else "SK003")
        if code is None:
            model.cancel()
            for task_id in flow.ids.values():
                self.held.pop(task_id, None)

    @rule(number=st.integers(0, 1))
    def retry_workflow(self, number: int) -> None:
        flow, model = self.flows[number]
        bad = any(node.status in BAD for node in model.nodes)
        code = self.refusal("retry_workflow", workflow_id=flow.id)
        assert code == (None if bad else "SK003")
        if code is None:
            model.retry(model.unhappy())

    @invariant()
    def all_states_are_those_of_the_model(self) -> None:
        for flow, model in self.flows:
            found = {n["name"]: (n["status"], n["attempt"]) for n in flow.graph["nodes"]}
            assert found == {
                str(n): (node.shown, node.attempt) for n, node in enumerate(model.nodes)
            }
            assert flow.status == model.status

    @invariant()
    def nothing_is_stuck_and_all_counts_are_right(self) -> None:
        assert stuck(self.engine) == []

    @invariant()
    def each_task_is_in_one_place(self) -> None:
        rows = self.engine.conn.execute(PLACES.encode()).fetchall()
        assert sorted(row[0] for row in rows) == sorted(self.where)


def test_random_graphs_go_as_the_model_says(conn: psycopg.Connection[tuple[Any, ...]]):
    class OnThisDatabase(Machine):
        """The machine on the database of this test."""

    OnThisDatabase.engine = Engine(conn)
    OnThisDatabase.engine.skip(0)
    run_state_machine_as_test(OnThisDatabase, settings=BOUNDED)

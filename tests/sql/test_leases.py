"""Leases: who holds them, how they are extended, how they end without their worker."""

import uuid
from typing import Any

import pytest

from skiplane.tests.support.engine import Claim, Engine, refused


def beat(engine: Engine, *claims: Claim, **options: Any) -> tuple[list[uuid.UUID], bool, int]:
    """Send a heartbeat that holds exactly these claims."""
    arguments: dict[str, Any] = {
        "worker_id": engine.worker,
        "lease_ids": [claim.lease_id for claim in claims],
        "held": [task_id for claim in claims for task_id in claim.ids],
        **options,
    }
    lost, draining, extended = engine.value("heartbeat", **arguments)
    return lost, draining, extended


def left(engine: Engine) -> float:
    """Give the seconds that the only lease has left."""
    return float(
        engine.one("select extract(epoch from until - skiplane.clock()) from skiplane.lease")
    )


@pytest.fixture
def still(engine: Engine) -> Engine:
    """The verbs with a clock that moves only when told."""
    engine.one("select set_config('skiplane.now', skiplane.clock()::text, true)")
    return engine


def test_young_lease_costs_no_extension(still: Engine):
    still.submit()
    claim = still.claim()
    still.skip(3.3)
    assert beat(still, claim) == ([], False, 0)
    assert left(still) == pytest.approx(6.7)
    still.skip(0.1)
    assert beat(still, claim) == ([], False, 1)
    assert left(still) == pytest.approx(10)


def test_heartbeat_names_what_its_worker_lost(still: Engine):
    ids = still.many(3)
    claim = still.claim(3)
    still.value("cancel_task", task_id=ids[1])
    stranger = uuid.uuid4()
    lost, _, _ = beat(still, claim, held=[*claim.ids, stranger])
    assert lost == [ids[1], stranger]


def test_heartbeat_after_the_sweep_extends_nothing(still: Engine):
    still.submit()
    claim = still.claim()
    still.skip(10.1)
    still.value("sweep_leases")
    assert beat(still, claim) == (claim.ids, False, 0)
    other = still.claim(worker=uuid.uuid4())
    assert other.ids == claim.ids
    assert beat(still, claim)[0] == claim.ids


def test_late_heartbeat_before_the_sweep_saves_the_lease(still: Engine):
    still.submit()
    claim = still.claim()
    still.skip(12)
    assert beat(still, claim) == ([], False, 1)
    assert still.value("sweep_leases")[0] == 0


def test_claim_whose_answer_got_lost_comes_back_uncharged(still: Engine):
    task_id = still.submit()
    kept = still.claim()
    other = still.submit()
    still.claim()
    still.skip(1.9)
    beat(still, kept)
    assert still.status(other) == "RUNNING"
    still.skip(0.2)
    beat(still, kept, reconcile=False)
    assert still.status(other) == "RUNNING"
    beat(still, kept)
    document = still.get(other)
    assert (document["status"], document["attempt"], document["attempts"]) == ("PENDING", 0, [])
    assert still.status(task_id) == "RUNNING"


def test_heartbeat_leaves_the_leases_of_others_alone(still: Engine):
    still.many(2)
    mine = still.claim()
    other = still.claim(worker=uuid.uuid4())
    still.skip(5)
    assert beat(still, mine, lease_ids=[mine.lease_id, other.lease_id])[2] == 1
    assert still.one("select count(*) from skiplane.lease") == 2


def test_heartbeat_tells_of_draining(still: Engine):
    still.value("register_worker", worker_id=still.worker, name="w", queues=["default"])
    assert beat(still)[1] is False
    assert still.value("drain_worker", worker_id=still.worker) is True
    assert beat(still)[1] is True
    assert still.one("select status from skiplane.workers") == "DRAINING"
    assert still.value("drain_worker", worker_id=uuid.uuid4()) is False


def test_supervisor_extends_the_leases_of_living_children(still: Engine):
    still.many(2)
    still.claim(lease_seconds=10)
    silent = uuid.uuid4()
    still.claim(worker=silent)
    still.skip(8)
    rows = still.rows("extend_leases", worker_ids=[still.worker, uuid.uuid4()])
    assert [overdue for _, overdue in rows] == [False, False]
    still.skip(3)
    assert still.value("sweep_leases")[0] == 1
    assert still.one("select worker_id from skiplane.lease") == still.worker


def test_supervisor_learns_which_child_is_overdue(still: Engine):
    still.submit(timeout_seconds=5)
    still.claim(lease_seconds=60)
    still.skip(14.9)
    assert still.rows("extend_leases", worker_ids=[still.worker]) == [(still.worker, False)]
    still.skip(0.2)
    assert still.rows("extend_leases", worker_ids=[still.worker]) == [(still.worker, True)]


def test_dead_worker_is_charged(still: Engine):
    ids = still.many(3, max_retries=1)
    still.claim(2)
    still.claim(1)
    count = still.value("release_worker", worker_id=still.worker, reason="killed by signal 9")
    assert count == 3
    for task_id in ids:
        task = still.get(task_id)
        assert (task["status"], task["attempt"]) == ("PENDING", 1)
        assert task["attempts"][0]["outcome"] == "lost"
        assert task["attempts"][0]["error_message"] == "killed by signal 9"
    assert still.value("release_worker", worker_id=still.worker) == 0


def test_dead_worker_is_charged_for_what_it_had_begun(still: Engine):
    ids = still.many(4, max_retries=0)
    still.claim(2)
    still.claim(2)
    running = [ids[1], ids[2], uuid.uuid4()]
    assert still.value("release_worker", worker_id=still.worker, running=running) == 4
    states = [(still.get(i)["status"], still.get(i)["attempt"]) for i in ids]
    assert states == [("PENDING", 0), ("DEAD", 1), ("DEAD", 1), ("PENDING", 0)]
    assert [len(still.get(i)["attempts"]) for i in ids] == [0, 1, 1, 0]
    assert still.get(ids[1])["error_type"] == "WorkerLost"


def test_what_ran_beside_a_dead_worker_is_excused(still: Engine):
    """Each time the attempt counts, but twice as often as for what ran in it."""
    inside, beside = still.many(2, max_retries=1)
    tries = {inside: 0, beside: 0}
    while (claim := still.claim(2)).lease_id is not None:
        for task_id in claim.ids:
            tries[task_id] += 1
        still.value(
            "release_worker", worker_id=still.worker, running=[inside, beside], excused=[beside]
        )
    assert tries == {inside: 2, beside: 3}


def test_a_claim_tells_who_may_have_killed_the_last_process(still: Engine):
    killer, failed, *swept = (str(i) for i in still.many(4, max_retries=9, retry_delay_seconds=0))
    suspects = []
    for _ in range(3):
        claim = still.claim(4)
        suspects.append({task["task_id"] for task in claim.tasks if task.get("lost")})
        ends = [{"task_id": killer, "kind": "lost"}, {"task_id": failed, "kind": "error"}]
        still.finish(claim, failures=ends)
        still.skip(10.1)
        still.value("sweep_leases")
    # What a machine's loss took along is not suspected the first time.
    assert suspects == [set(), {killer}, {killer, *swept}]


def test_dead_worker_that_had_begun_nothing_is_not_charged(still: Engine):
    task_id = still.submit(max_retries=0)
    still.claim()
    assert still.value("release_worker", worker_id=still.worker, running=[]) == 1
    assert (still.get(task_id)["status"], still.get(task_id)["attempt"]) == ("PENDING", 0)


def test_stopping_worker_is_not_charged_for_what_runs(still: Engine):
    task_id = still.submit(max_retries=0)
    still.claim()
    still.value("release_worker", worker_id=still.worker, charge=False, running=[task_id])
    assert (still.get(task_id)["status"], still.get(task_id)["attempt"]) == ("PENDING", 0)


def test_stopping_worker_hands_back_uncharged(still: Engine):
    ids = still.many(2, max_retries=0)
    still.claim(2)
    assert still.value("release_worker", worker_id=still.worker, charge=False) == 2
    assert [(still.get(i)["status"], still.get(i)["attempt"]) for i in ids] == [("PENDING", 0)] * 2


@pytest.mark.parametrize("retries", [0, 1, 3])
def test_poison_task_is_claimed_once_more_than_its_retries(still: Engine, retries: int):
    task_id = still.submit(max_retries=retries, retry_delay_seconds=0)
    claims = 0
    while still.claim().lease_id is not None:
        claims += 1
        if claims % 2:
            still.value("release_worker", worker_id=still.worker)
        else:
            still.skip(10.1)
            still.value("sweep_leases")
    assert claims == retries + 1
    task = still.get(task_id)
    assert (task["status"], task["error_type"], len(task["attempts"])) == (
        "DEAD",
        "WorkerLost",
        retries + 1,
    )


def test_checkpoint_and_progress_are_shown_and_given_to_the_retry(still: Engine):
    task_id = still.submit(retry_delay_seconds=0)
    claim = still.claim()
    lease = {"worker_id": claim.worker, "lease_id": claim.lease_id, "task_id": task_id}
    still.value("checkpoint_task", checkpoint={"row": 1}, **lease)
    still.value("checkpoint_task", checkpoint={"row": 2}, **lease)
    still.value("report_progress", share="0.5", message="half", **lease)
    task = still.get(task_id)
    assert task["checkpoint"] == {"row": 2}
    assert {k: task["progress"][k] for k in ("share", "message")} == {
        "share": 0.5,
        "message": "half",
    }
    still.fail(claim)
    assert still.claim().tasks[0]["checkpoint"] == {"row": 2}


def test_only_the_holder_saves_checkpoint_and_progress(still: Engine):
    first, second = still.many(2)
    claim = still.claim()
    good = {"worker_id": claim.worker, "lease_id": claim.lease_id, "task_id": first}
    stale = [
        {**good, "worker_id": uuid.uuid4()},
        {**good, "lease_id": int(claim.lease_id or 0) + 1},
        {**good, "task_id": second},
    ]
    for wrong in stale:
        with refused(still.conn, "SK006", "lease_id"):
            still.value("checkpoint_task", checkpoint={}, **wrong)
        with refused(still.conn, "SK006", "lease_id"):
            still.value("report_progress", share="0.5", **wrong)
    still.finish(claim)
    with refused(still.conn, "SK006", "lease_id", str(claim.lease_id)):
        still.value("checkpoint_task", checkpoint={}, **good)
    assert still.get(first)["checkpoint"] is None


def test_unusable_checkpoint_and_progress_are_refused(still: Engine):
    task_id = still.submit()
    claim = still.claim()
    lease = {"worker_id": claim.worker, "lease_id": claim.lease_id, "task_id": task_id}
    with refused(still.conn, "SK007", "checkpoint"):
        still.value("checkpoint_task", checkpoint={"a": "x" * 65536}, **lease)
    for share in ("-0.1", "1.1", "NaN"):
        with refused(still.conn, "SK001", "share"):
            still.value("report_progress", share=share, **lease)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", ""),
        ("queues", []),
        ("queues", ["a", ""]),
        ("concurrency", 0),
        ("lease_seconds", 0),
        ("lease_seconds", float("nan")),
    ],
)
def test_unusable_worker_is_refused(still: Engine, field: str, value: Any):
    worker = {"worker_id": uuid.uuid4(), "name": "w", "queues": ["q"], field: value}
    with refused(still.conn, "SK001", field):
        still.rows("register_worker", **worker)


def test_register_again_is_a_sign_of_life(still: Engine):
    worker: dict[str, Any] = {"worker_id": still.worker, "name": "w", "queues": ["q"]}
    still.value("register_worker", **worker)
    still.skip(30)
    assert still.one("select status from skiplane.workers") == "LOST"
    still.value("register_worker", **worker)
    assert still.one("select status from skiplane.workers") == "RUNNING"
    still.value("unregister_worker", worker_id=still.worker)
    assert still.one("select count(*) from skiplane.workers") == 0

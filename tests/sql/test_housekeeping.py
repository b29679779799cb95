"""Depth, history and partitions: bounded work that never touches what lives."""

import uuid

import pytest

from skiplane.tests.support.engine import Engine


@pytest.fixture
def still(engine: Engine) -> Engine:
    """The verbs with a clock that moves only when told."""
    engine.one("select set_config('skiplane.now', skiplane.clock()::text, true)")
    return engine


DAY = 86400.0


def test_depth_counts_what_waits_per_queue_and_priority(still: Engine):
    still.many(5, queue="a")
    still.many(3, "other", queue="a")
    still.many(2, queue="a", priority="low")
    still.many(4, queue="b", delay_seconds=60)
    still.claim(1, queues=["a"], task_types=["other"])
    assert still.value("refresh_depth") >= 1
    rows = still.conn.execute(
        "select queue, priority, depth from skiplane.queues order by 1, 2 desc"
    )
    assert rows.fetchall() == [("a", 5, 7), ("a", 0, 2)]
    still.claim(100, queues=["a"])
    still.value("refresh_depth")
    assert still.one("select count(*) from skiplane.queues") == 0


def test_old_rollups_go(still: Engine):
    still.value("refresh_depth")
    still.skip(3700)
    still.value("refresh_depth")
    assert still.one("select count(*) from skiplane.depth") == 1


def test_history_of_small_tables_goes_after_the_retention(still: Engine):
    task_id = still.submit(idempotency_key="k")
    still.value("cancel_task", task_id=task_id)
    other = still.submit()
    claim = still.claim()
    still.value(
        "checkpoint_task",
        worker_id=claim.worker,
        lease_id=claim.lease_id,
        task_id=other,
        checkpoint={},
    )
    still.finish(claim)
    still.skip(29 * DAY)
    assert still.value("sweep_history") == 0
    still.skip(2 * DAY)
    # One row each of idempotency, action and checkpoint.
    assert still.value("sweep_history", limit=1) == 3
    assert still.value("sweep_history") == 0


def test_sweep_of_history_is_bounded(still: Engine):
    still.rows(
        "submit_batch",
        task_type="a",
        payloads=["1"] * 25,
        idempotency_keys=[f"k{n}" for n in range(25)],
    )
    still.skip(31 * DAY)
    counts = []
    while count := still.value("sweep_history", limit=10):
        counts.append(count)
    assert counts == [10, 10, 5]


def test_silent_worker_is_forgotten_unless_it_holds_tasks(still: Engine):
    holding, idle = uuid.uuid4(), uuid.uuid4()
    for worker in (holding, idle):
        still.value("register_worker", worker_id=worker, name="w", queues=["q"])
    still.submit()
    still.claim(worker=holding)
    still.skip(99)
    still.value("sweep_history")
    assert still.one("select count(*) from skiplane.worker") == 2
    still.skip(2)
    still.value("sweep_history")
    assert still.one("select worker_id from skiplane.worker") == holding


def test_old_days_are_dropped_when_all_their_tasks_ended(still: Engine):
    day = still.one("select skiplane._utc_day(skiplane.clock())")
    done = still.submit()
    still.finish(still.claim())
    waiting = still.submit(max_retries=0)
    still.skip(40 * DAY)
    said = [row[0] for row in still.rows("maintain_partitions")]
    assert f"dropped task for {day}" not in said
    assert still.status(done) == "SUCCEEDED"
    still.fail(still.claim())
    assert still.status(waiting) == "DEAD"
    said = [row[0] for row in still.rows("maintain_partitions")]
    said = [line for line in said if line.endswith(str(day)) and "timer" not in line]
    tables = ("attempt", "outcome", "workflow_task", "workflow_state", "workflow", "task", "fire")
    assert said == [f"dropped {table} for {day}" for table in tables]
    assert [row[0]["task_id"] for row in still.rows("list_dead_letters")] == [str(waiting)]
    assert still.value("retry_dead_letter", task_id=waiting)["status"] == "PENDING"


def test_every_day_ahead_has_its_partition(still: Engine):
    still.conn.execute("set local timezone = 'Asia/Tokyo'")
    still.skip(3 * DAY)
    still.rows("maintain_partitions", days_ahead=9)
    for table in ("task", "outcome", "attempt", "workflow_state", "timer"):
        assert still.one(
            "select bool_and(skiplane._has_partition(%s, skiplane._utc_day(skiplane.clock()) + d))"
            " from generate_series(0, 9) d",
            [table],
        )
    said = [row[0] for row in still.rows("maintain_partitions", days_ahead=9)]
    assert not [line for line in said if line.startswith("made")]


def test_task_still_waiting_in_an_old_timer_partition_keeps_it(still: Engine):
    task_id = still.submit(delay_seconds=60)
    still.skip(5 * DAY)
    still.rows("maintain_partitions")
    assert still.status(task_id) == "SCHEDULED"
    assert still.value("promote_tasks")[0] == 1
    said = [row[0] for row in still.rows("maintain_partitions")]
    assert {line.rsplit(" ", 1)[0] for line in said} == {"dropped timer for"}


def test_health_finds_a_fresh_installation_well_but_for_its_scheduler(live: Engine):
    bad = {row[0] for row in live.rows("health") if not row[1]}
    assert bad <= {"scheduler"}
    live.one("select skiplane.refresh_lanes(null)")
    assert {row[0] for row in live.rows("health") if not row[1]} == set()


def test_health_names_what_is_late(live: Engine):
    live.submit()
    live.claim()
    live.submit(delay_seconds=5)
    live.skip(60)
    bad = {row[0] for row in live.rows("health") if not row[1]}
    assert bad >= {"orphan_leases", "overdue_timers", "scheduler"}

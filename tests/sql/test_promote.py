"""What is due becomes PENDING: never early, wherever it waits, whoever committed late."""

import pytest

from skiplane.tests.support import set_clock
from skiplane.tests.support.engine import Engine


@pytest.fixture
def still(engine: Engine) -> Engine:
    """The verbs with a clock that moves only when told."""
    engine.one("select set_config('skiplane.now', skiplane.clock()::text, true)")
    return engine


def test_nothing_is_promoted_early(still: Engine):
    task_id = still.submit(delay_seconds=10)
    still.skip(9.999)
    promoted, following, _ = still.value("promote_tasks")
    assert (promoted, still.status(task_id)) == (0, "SCHEDULED")
    assert following == pytest.approx(0.001)
    still.skip(0.001)
    assert still.value("promote_tasks")[0] == 1
    assert still.places(task_id) == ["ready"]
    assert still.claim().ids == [task_id]


def test_promoted_task_keeps_everything(still: Engine):
    task_id = still.submit(
        payload={"a": 'é"\\'},
        delay_seconds=10,
        priority="high",
        queue="q",
        metadata={"tenant_id": "t", "x": 1},
        timeout_seconds=5,
        idempotency_key="k",
        concurrency_key="c",
        estimated_duration_seconds=3,
        max_retries=9,
        callback_url="https://example.com",
    )
    before = still.get(task_id)
    still.skip(10)
    still.value("promote_tasks")
    after = still.get(task_id)
    assert {name for name in before if before[name] != after[name]} == {
        "status",
        "next_attempt_at",
    }


def test_earliest_go_first_in_bounded_batches(still: Engine):
    late = still.many(3, delay_seconds=20)
    early = still.many(3, delay_seconds=10)
    still.skip(30)
    assert still.value("promote_tasks", limit=4)[:2] == (4, 0)
    assert set(early) < set(still.claim(10).ids)
    assert still.value("promote_tasks", limit=4)[0] == 2
    assert set(still.claim(10).ids) < set(late)


def test_next_due_time_is_told_within_a_minute(still: Engine):
    assert still.value("promote_tasks")[1] is None
    still.submit(delay_seconds=61)
    assert still.value("promote_tasks")[1] is None
    still.submit(delay_seconds=7.5)
    assert still.value("promote_tasks")[1] == pytest.approx(7.5)


def test_far_timer_is_promoted_though_maintenance_never_came(still: Engine):
    task_id = still.submit(delay_seconds=86400 * 30)
    assert still.places(task_id) == ["timer_far"]
    still.skip(86400 * 30 - 1)
    still.rows("maintain_partitions", days_ahead=0)
    assert still.value("promote_tasks")[0] == 0
    still.skip(1)
    assert still.value("promote_tasks")[0] == 1
    assert still.claim().ids == [task_id]


def test_maintenance_moves_far_timers_into_their_partition(still: Engine):
    near, far = still.submit(delay_seconds=86400 * 12), still.submit(delay_seconds=86400 * 60)
    still.rows("maintain_partitions", days_ahead=14)
    assert (still.places(near), still.places(far)) == (["timer"], ["timer_far"])
    still.skip(86400 * 12)
    assert still.value("promote_tasks")[0] == 1


def test_timer_finds_a_place_though_its_partition_is_missing(still: Engine):
    """The horizon may be ahead of the truth: somebody dropped a partition."""
    far = still.one("select to_jsonb((skiplane._utc_day(skiplane.clock()) + 100)::text)")
    still.conn.execute(
        "update skiplane.setting set value = to_jsonb(%s::text) where name = 'timer_horizon'", [far]
    )
    task_id = still.submit(delay_seconds=86400 * 50)
    assert still.places(task_id) == ["timer_far"]
    still.skip(86400 * 50)
    still.rows("maintain_partitions")
    assert still.value("promote_tasks")[0] == 1
    assert still.claim().ids == [task_id]


def test_retry_waits_and_comes_back_with_its_counts(still: Engine):
    task_id = still.submit(retry_delay_seconds=5, retry_jitter="none")
    still.fail(still.claim())
    still.skip(4.9)
    assert still.value("promote_tasks")[0] == 0
    still.skip(0.1)
    assert still.value("promote_tasks")[0] == 1
    [task] = still.claim().tasks
    assert (task["task_id"], task["attempt"], task["fence"]) == (str(task_id), 2, 2)


def test_late_commit_is_found_behind_the_time_passed_back(two, live: Engine):
    """A task due in a second whose producer commits a minute later."""
    producer, scheduler = (Engine(conn) for conn in two)
    after, state = None, None
    with producer.conn.transaction():
        task_id = producer.submit(delay_seconds=1)
        now = producer.one("select skiplane.clock()")
        for seconds in range(60):
            set_clock(scheduler.conn, now)
            scheduler.skip(seconds)
            state = scheduler.one("select skiplane.refresh_lanes(%s::jsonb)::text", [state])
            promoted, _, after = scheduler.value("promote_tasks", after=after)
            assert promoted == 0
    assert scheduler.value("promote_tasks", after=after)[0] == 1
    assert scheduler.claim().ids == [task_id]


def test_time_passed_back_moves_on(live: Engine):
    """Or each look would walk all that was promoted before."""
    live.one("select skiplane.refresh_lanes(null)")
    live.skip(0)
    live.submit(delay_seconds=5)
    after = live.value("promote_tasks")[2]
    live.skip(30)
    live.one("select skiplane.refresh_lanes('{}')")
    _, _, later = live.value("promote_tasks", after=after)
    assert later > after
    assert live.one("select skiplane.clock() - %s < interval '2 seconds'", [later])

"""What the scheduler's turns make of schedules."""
# ruff: noqa: E501 - tables

from datetime import timedelta

import pytest

from skiplane.scheduler.cron import Queued
from skiplane.tests.cron.helpers import at, create, edit, fires, get, stand, tasks, turns
from skiplane.tests.support import Databases
from skiplane.tests.support.engine import Engine

NEW_YORK, BERLIN = "America/New_York", "Europe/Berlin"


@pytest.mark.parametrize(
    ("expression", "zone", "steps"),
    [
        ("30 2 * * *", NEW_YORK, "2026-03-07T06:59 2026-03-07T07:30 2026-03-08T07:00 2026-03-09T06:30"),
        ("0 2 * * *", BERLIN, "2026-10-23T12:00 2026-10-24T00:00 2026-10-25T00:00 2026-10-26T01:00"),
        ("30 1 * * *", NEW_YORK, "2026-10-31T05:00 2026-10-31T05:30 2026-11-01T05:30 2026-11-02T06:30"),
    ],
)  # fmt: skip
async def test_fires_are_those_of_the_preview(
    dsn: str, engine: Engine, expression: str, zone: str, steps: str
):
    first, *expected = steps.split()
    stand(engine, first)
    cron_id = create(engine, expression, timezone=zone, overlap_policy="queue")
    # Every half an hour a scheduler that was started just then, also between two equal times.
    moment, last = at(first), at(expected[-1]) + timedelta(minutes=31)
    while moment < last:
        await turns(dsn, moment.strftime("%Y-%m-%dT%H:%M:05"))
        moment += timedelta(minutes=30)
    assert fires(engine, cron_id) == [at(time) for time in expected]


async def test_zone_of_the_server_and_its_sessions_means_nothing(
    databases: Databases, dsn: str, engine: Engine
):
    with databases.admin() as admin:
        name = engine.conn.info.dbname
        admin.execute(f"alter database {name} set timezone = 'Europe/London'".encode())
    engine.conn.execute("set timezone = 'Europe/London'")
    stand(engine, "2026-10-24T12:00:00")
    cron_id = create(engine, "30 1 * * *", overlap_policy="queue")
    # The hour from 00:00 to 01:00 UTC comes twice in London.
    hours = (f"2026-10-25T{hour:02}:{minute}:05" for hour in range(4) for minute in ("00", "30"))
    await turns(dsn, "2026-10-24T12:00:05", *hours)
    assert fires(engine, cron_id) == [at("2026-10-25T01:30")]


async def test_expression_is_read_and_a_bad_one_marked_with_the_reason(dsn: str, engine: Engine):
    stand(engine, "2030-01-01T00:00:30")
    bad = create(engine, "61 * * * *", "bad")
    never = create(engine, "0 0 30 2 *", "never")
    zone = create(engine, "0 0 * * *", "zone", timezone="FOO+3")
    late = create(engine, "0 0 1 1 *", "late", end_at=at("2030-12-31"))
    good = create(engine, "* * * * *", "good")
    assert get(engine, good)["next_fire_time"] is None
    await turns(dsn, "2030-01-01T00:00:31")
    assert get(engine, good)["next_fire_time"] == "2030-01-01T00:01:00.000000Z"
    for cron_id, reason in ((bad, "minute 61"), (never, "never"), (zone, "zone"), (late, "end_at")):
        document = get(engine, cron_id)
        assert document["status"] == "INVALID"
        assert reason in document["reason"]
        assert document["next_fire_time"] is None
    await turns(dsn, "2030-01-01T00:01:00")
    assert fires(engine, good) == [at("2030-01-01T00:01")]
    # A correction brings it back.
    edit(engine, bad, cron_expression="1 * * * *")
    await turns(dsn, "2030-01-01T00:01:00")
    assert get(engine, bad)["status"] == "ACTIVE"


async def test_first_fire_counts_from_the_creation_however_late_it_is_read(
    dsn: str, engine: Engine
):
    stand(engine, "2030-01-01T02:59:59")
    cron_id = create(engine, "0 3 * * *")
    await turns(dsn, "2030-01-01T03:00:01", "2030-01-01T03:00:01")
    assert fires(engine, cron_id) == [at("2030-01-01T03:00")]


async def test_task_has_what_the_schedule_says(dsn: str, engine: Engine):
    stand(engine, "2030-01-01T00:00:00")
    cron_id = create(
        engine, "* * * * *", name="full", payload='{"a": [1, null]}', queue="q", priority="high",
        max_retries=7, retry_backoff="linear", timeout_seconds=5.5, concurrency_key="k",
        metadata='{"tenant_id": "acme", "x": 1}', estimated_duration_seconds=2,
    )  # fmt: skip
    await turns(dsn, "2030-01-01T00:00:30", "2030-01-01T00:01:02")
    [listed] = engine.rows("list_tasks", task_type="work")
    task = listed[0]
    assert (task["payload"], task["queue"], task["priority"]) == ({"a": [1, None]}, "q", "high")
    assert (task["max_retries"], task["retry_backoff"], task["timeout_seconds"]) == (
        7,
        "linear",
        5.5,
    )
    assert (task["concurrency_key"], task["tenant_id"], task["status"]) == ("k", "acme", "PENDING")
    assert task["estimated_duration_seconds"] == 2
    assert task["scheduled_at"] == "2030-01-01T00:01:00.000000Z"
    assert task["metadata"] == {
        "tenant_id": "acme",
        "x": 1,
        "cron_id": str(cron_id),
        "cron_name": "full",
        "fire_time": "2030-01-01T00:01:00.000000Z",
    }
    assert get(engine, cron_id)["last_task_id"] == task["task_id"]


async def test_skip_makes_no_task_while_the_last_has_not_ended(dsn: str, engine: Engine):
    stand(engine, "2030-01-01T00:00:00")
    cron_id = create(engine, "* * * * *", overlap_policy="skip")
    await turns(dsn, *(f"2030-01-01T00:0{n}:00" for n in range(4)))
    assert len(tasks(engine)) == 1
    assert fires(engine, cron_id, "fired") == [at("2030-01-01T00:01")]
    assert fires(engine, cron_id, "skipped") == [at("2030-01-01T00:02"), at("2030-01-01T00:03")]
    engine.finish(engine.claim())
    await turns(dsn, "2030-01-01T00:04:00")
    assert [status for status, _ in tasks(engine)] == ["SUCCEEDED", "PENDING"]


async def test_queue_runs_one_task_after_the_other_in_order(dsn: str, engine: Engine):
    stand(engine, "2030-01-01T00:00:00")
    cron_id = create(engine, "* * * * *", overlap_policy="queue")
    await turns(dsn, *(f"2030-01-01T00:0{n}:00" for n in range(4)))
    assert [status for status, _ in tasks(engine)] == ["PENDING", "SCHEDULED", "SCHEDULED"]
    await turns(dsn, "2030-01-01T00:03:01", loop=Queued)
    ran = []
    for second in range(2, 5):
        claim = engine.claim(limit=10)
        assert len(claim.ids) == 1
        ran.append(engine.get(claim.ids[0])["scheduled_at"][:16])
        engine.finish(claim)
        await turns(dsn, f"2030-01-01T00:03:0{second}", loop=Queued)
    assert ran == [f"2030-01-01T00:0{n}" for n in (1, 2, 3)]
    assert get(engine, cron_id)["queued"] == 0
    assert engine.one("select count(*) from skiplane.schedule_queue") == 0


async def test_queued_task_that_was_cancelled_does_not_hold_up_the_next(dsn: str, engine: Engine):
    stand(engine, "2030-01-01T00:00:00")
    create(engine, "* * * * *", overlap_policy="queue")
    await turns(dsn, *(f"2030-01-01T00:0{n}:00" for n in range(4)))
    second = engine.one("select task_id from skiplane.schedule_queue order by fire_time limit 1")
    engine.value("cancel_task", task_id=second)
    engine.finish(engine.claim())
    await turns(dsn, "2030-01-01T00:03:01", loop=Queued)
    assert [status for status, _ in tasks(engine)] == ["SUCCEEDED", "CANCELLED", "PENDING"]


async def test_cancel_running_puts_the_next_in_the_place_of_the_last(dsn: str, engine: Engine):
    stand(engine, "2030-01-01T00:00:00")
    cron_id = create(engine, "* * * * *", overlap_policy="cancel_running")
    await turns(dsn, "2030-01-01T00:00:00", "2030-01-01T00:01:00")
    claim = engine.claim()
    await turns(dsn, "2030-01-01T00:02:00")
    assert [status for status, _ in tasks(engine)] == ["CANCELLED", "PENDING"]
    assert engine.finish(claim) == claim.ids  # it holds nothing any more
    assert fires(engine, cron_id, "replaced") == [at("2030-01-01T00:02")]


@pytest.mark.parametrize(
    ("policy", "limit", "count"), [("skip", 10, 1), ("once", 10, 1), ("all", 7, 7), ("all", 25, 25)]
)
async def test_three_days_of_downtime_are_made_up_for_as_the_policy_says(
    dsn: str, engine: Engine, policy: str, limit: int, count: int
):
    stand(engine, "2030-01-01T00:00:30")
    cron_id = create(engine, "* * * * *", missed_policy=policy, missed_limit=limit)
    await turns(dsn, "2030-01-01T00:00:30", "2030-01-04T00:00:30")
    last = at("2030-01-04T00:00")
    expected = [last - timedelta(minutes=n) for n in reversed(range(count))]
    assert fires(engine, cron_id) == expected
    assert [scheduled for _, scheduled in tasks(engine)] == expected
    assert get(engine, cron_id)["next_fire_time"] == "2030-01-04T00:01:00.000000Z"
    missed = engine.one(
        "select fire_time from skiplane.fire where outcome = 'missed' and schedule_id = %s",
        [cron_id],
    )
    assert missed == at("2030-01-01T00:01")


@pytest.mark.parametrize("policy", ["skip", "once", "all"])
async def test_what_is_less_than_a_minute_late_was_not_missed(
    dsn: str, engine: Engine, policy: str
):
    stand(engine, "2030-01-01T00:00:00")
    cron_id = create(engine, "* * * * * */5", missed_policy=policy, overlap_policy="queue")
    await turns(dsn, "2030-01-01T00:00:00", "2030-01-01T00:01:04")
    assert len(fires(engine, cron_id)) == 12
    assert len(tasks(engine)) == 12


async def test_daily_schedule_runs_once_after_a_long_downtime_or_not_when_told_to_skip(
    dsn: str, engine: Engine
):
    stand(engine, "2030-01-01T00:00:00")
    once = create(engine, "0 3 * * *", "once")
    skip = create(engine, "0 3 * * *", "skip", missed_policy="skip")
    await turns(dsn, "2030-01-01T00:00:00", "2030-01-04T05:00:00")
    assert fires(engine, once) == [at("2030-01-04T03:00")]
    assert fires(engine, skip) == []
    for cron_id in (once, skip):
        assert get(engine, cron_id)["next_fire_time"] == "2030-01-05T03:00:00.000000Z"


async def test_one_second_schedule_after_three_days_is_one_small_transaction(
    dsn: str, engine: Engine
):
    stand(engine, "2030-01-01T00:00:00")
    cron_id = create(engine, "* * * * * *", missed_policy="all", missed_limit=5)
    await turns(dsn, "2030-01-01T00:00:00", "2030-01-04T00:00:00")
    assert len(fires(engine, cron_id)) == 5
    assert get(engine, cron_id)["next_fire_time"] == "2030-01-04T00:00:01.000000Z"


async def test_start_and_end_are_kept(dsn: str, engine: Engine):
    stand(engine, "2030-01-01T00:00:00")
    cron_id = create(
        engine, "*/10 * * * *", start_at=at("2030-01-01T01:00"), end_at=at("2030-01-01T01:20"),
        overlap_policy="queue",
    )  # fmt: skip
    await turns(dsn, "2030-01-01T00:00:00", *(f"2030-01-01T01:{m}:00" for m in ("00", 10, 20, 30)))
    assert fires(engine, cron_id) == [at(f"2030-01-01T01:{m}") for m in ("00", 10, 20)]
    document = get(engine, cron_id)
    assert (document["status"], document["next_fire_time"]) == ("ENDED", None)


async def test_jitter_delays_the_task_and_not_the_schedule(dsn: str, engine: Engine):
    stand(engine, "2030-01-01T00:00:00")
    for n in range(20):
        create(engine, "* * * * *", f"s{n}", jitter_seconds=30)
    await turns(dsn, "2030-01-01T00:00:00", "2030-01-01T00:01:00")
    due = [
        row[0]
        for row in engine.conn.execute(
            "select due_at from skiplane.timer_far where task_type = 'work'"
        )
    ]
    assert len(due) >= 19
    assert all(at("2030-01-01T00:01") <= time <= at("2030-01-01T00:01:30") for time in due)
    assert max(due) - min(due) > timedelta(seconds=5)
    assert {time for _, time in tasks(engine)} == {at("2030-01-01T00:01")}


async def test_schedule_that_cannot_be_fired_does_not_stop_the_others(dsn: str, engine: Engine):
    stand(engine, "2030-01-01T00:00:00")
    broken = create(engine, "* * * * *", "broken")
    good = create(engine, "* * * * *", "good")
    await turns(dsn, "2030-01-01T00:00:00")
    engine.conn.execute(
        "update skiplane.schedule set expression = 'nonsense' where id = %s", [broken]
    )
    await turns(dsn, "2030-01-01T00:01:00")
    assert fires(engine, good) == [at("2030-01-01T00:01")]
    assert get(engine, broken)["status"] == "INVALID"

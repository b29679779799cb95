"""What callers do to schedules, through SQL."""

import json
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from skiplane.tests.cron.helpers import at, create, edit, fires, get, stand, tasks, turns
from skiplane.tests.support.engine import Engine


def refused(engine: Engine, function: str, **arguments: Any) -> psycopg.errors.DatabaseError:
    with pytest.raises(psycopg.DatabaseError) as error:
        engine.rows(function, **arguments)
    return error.value


BAD = [
    ("name", {"name": " "}),
    ("cron_expression", {"cron_expression": ""}),
    ("cron_expression", {"cron_expression": "1," * 200}),
    ("cron_expression", {"cron_expression": "１ * * * *"}),
    ("timezone", {"timezone": "+03:00"}),
    ("timezone", {"timezone": "../../etc/passwd"}),
    ("timezone", {"timezone": ""}),
    ("overlap_policy", {"overlap_policy": "allow"}),
    ("missed_policy", {"missed_policy": "some"}),
    ("missed_limit", {"missed_limit": 0}),
    ("missed_limit", {"missed_limit": 1001}),
    ("jitter_seconds", {"jitter_seconds": -1}),
    ("jitter_seconds", {"jitter_seconds": float("nan")}),
    ("start_at", {"start_at": "infinity"}),
    ("end_at", {"end_at": "2029-01-01Z"}),
    ("end_at", {"start_at": "2031-01-02Z", "end_at": "2031-01-01Z"}),
    ("next_fire_time", {"next_fire_time": "2029-01-01Z"}),
    # The template, by the rules of submit_task.
    ("task_type", {"task_type": ""}),
    ("queue", {"queue": "\x01"}),
    ("priority", {"priority": "urgent"}),
    ("max_retries", {"max_retries": -1}),
    ("timeout_seconds", {"timeout_seconds": 0}),
    ("callback_url", {"callback_url": "ftp://x"}),
    ("metadata", {"metadata": "[]"}),
    ("metadata.tenant_id", {"metadata": '{"tenant_id": 1}'}),
]


@pytest.mark.parametrize(("field", "arguments"), BAD)
def test_bad_input_is_refused_with_its_field(engine: Engine, field: str, arguments: Any):
    stand(engine, "2030-01-01T00:00:00")
    good = {"name": "n", "cron_expression": "* * * * *", "task_type": "t"}
    error = refused(engine, "create_cron_task", **{**good, **arguments})
    assert error.sqlstate == "SK001"
    assert error.diag.column_name == field
    assert error.diag.message_hint
    assert engine.one("select count(*) from skiplane.schedule") == 0


def test_name_is_taken_once_per_tenant(engine: Engine):
    first = create(engine, "* * * * *", "n")
    error = refused(engine, "create_cron_task", name="n", cron_expression="@daily", task_type="t")
    assert (error.sqlstate, error.diag.column_name) == ("SK003", "name")
    other = create(engine, "* * * * *", "n", metadata='{"tenant_id": "acme"}')
    assert engine.value("find_cron_task", name="n") == first
    assert engine.value("find_cron_task", name="n", tenant_id="acme") == other


def test_unknown_schedule_is_not_found(engine: Engine):
    nobody = "01938a7e-0000-7000-8000-000000000000"
    for verb, more in (
        ("get_cron_task", {}), ("pause_cron_task", {}), ("resume_cron_task", {}),
        ("run_cron_task", {}), ("delete_cron_task", {}),
        ("edit_cron_task", {"version": 1, "changes": Jsonb({"queue": "q"})}),
    ):  # fmt: skip
        assert refused(engine, verb, cron_id=nobody, **more).sqlstate == "SK002"
    assert refused(engine, "find_cron_task", name="nobody").sqlstate == "SK002"


async def test_edit_counts_from_now_and_makes_nothing_fire(dsn: str, engine: Engine):
    stand(engine, "2030-01-01T00:00:00")
    cron_id = create(engine, "0 * * * *")
    await turns(dsn, "2030-01-01T00:00:00")
    stand(engine, "2030-01-01T00:30:30")
    edit(engine, cron_id, cron_expression="* * * * *")
    assert get(engine, cron_id)["next_fire_time"] is None
    await turns(dsn, "2030-01-01T00:30:31")
    assert fires(engine, cron_id) == []
    assert get(engine, cron_id)["next_fire_time"] == "2030-01-01T00:31:00.000000Z"


async def test_edit_of_what_is_no_time_leaves_the_next_fire(dsn: str, engine: Engine):
    stand(engine, "2030-01-01T00:00:00")
    cron_id = create(engine, "0 * * * *", payload='{"a": 1}', concurrency_key="k")
    await turns(dsn, "2030-01-01T00:00:00")
    document = edit(engine, cron_id, payload=[2], priority="high", concurrency_key=None)
    assert document["next_fire_time"] == "2030-01-01T01:00:00.000000Z"
    assert (document["payload"], document["priority"], document["version"]) == ([2], "high", 2)
    assert document["concurrency_key"] is None
    assert [action["verb"] for action in document["actions"]] == ["create", "edit"]


def test_edit_of_an_older_version_or_of_unknown_fields_is_refused(engine: Engine):
    cron_id = create(engine, "0 * * * *")
    edit(engine, cron_id, queue="q")
    for version, changes, state in (
        (1, {"queue": "r"}, "SK005"), (2, {}, "SK001"), (2, {"name": "x"}, "SK001"),
        (2, {"scheduled_at": "2030-01-01T00:00:00Z"}, "SK001"), (2, {"enabled": 1}, "SK001"),
        (2, {"metadata": {"tenant_id": "other"}}, "SK001"),
    ):  # fmt: skip
        error = refused(
            engine, "edit_cron_task", cron_id=cron_id, version=version, changes=Jsonb(changes)
        )
        assert error.sqlstate == state
    assert get(engine, cron_id)["queue"] == "q"


async def test_resume_replays_nothing(dsn: str, engine: Engine):
    stand(engine, "2030-01-01T00:00:00")
    cron_id = create(engine, "* * * * *", missed_policy="all")
    await turns(dsn, "2030-01-01T00:00:00")
    paused = engine.value("pause_cron_task", cron_id=cron_id, reason="holiday", actor="ann")
    assert (paused["status"], paused["enabled"], paused["reason"]) == ("PAUSED", False, "holiday")
    await turns(dsn, "2030-01-04T00:00:30")
    stand(engine, "2030-01-04T00:00:30")
    engine.value("resume_cron_task", cron_id=cron_id)
    await turns(dsn, "2030-01-04T00:00:31", "2030-01-04T00:01:00")
    assert fires(engine, cron_id) == [at("2030-01-04T00:01")]


async def test_disabled_schedule_waits_for_its_resume(dsn: str, engine: Engine):
    stand(engine, "2030-01-01T00:00:00")
    cron_id = create(engine, "* * * * *", enabled=False)
    await turns(dsn, "2030-01-01T00:00:00", "2030-01-01T00:01:00")
    assert get(engine, cron_id)["status"] == "PAUSED"
    edit(engine, cron_id, enabled=True)
    await turns(dsn, "2030-01-01T00:01:00")
    assert get(engine, cron_id)["next_fire_time"] is not None


async def test_run_now_makes_a_task_and_leaves_the_times(dsn: str, engine: Engine):
    stand(engine, "2030-01-01T00:00:00")
    cron_id = create(engine, "0 * * * *", overlap_policy="skip")
    await turns(dsn, "2030-01-01T00:00:00")
    before = get(engine, cron_id)["next_fire_time"]
    for second in (1, 2):
        stand(engine, f"2030-01-01T00:00:0{second}")
        assert engine.value("run_cron_task", cron_id=cron_id, actor="ann")["status"] == "PENDING"
    assert len(tasks(engine)) == 2
    assert get(engine, cron_id)["next_fire_time"] == before
    assert len(fires(engine, cron_id, "manual")) == 2
    # It counts as running for what fires next.
    await turns(dsn, "2030-01-01T01:00:00")
    assert fires(engine, cron_id, "skipped") == [at("2030-01-01T01:00")]


async def test_delete_ends_what_waits_and_leaves_what_runs(dsn: str, engine: Engine):
    stand(engine, "2030-01-01T00:00:00")
    cron_id = create(engine, "* * * * *", overlap_policy="queue")
    await turns(dsn, *(f"2030-01-01T00:0{n}:00" for n in range(3)))
    engine.value("delete_cron_task", cron_id=cron_id)
    assert [status for status, _ in tasks(engine)] == ["PENDING", "CANCELLED"]
    assert engine.one("select count(*) from skiplane.cron_tasks") == 0
    await turns(dsn, "2030-01-01T00:05:00")
    assert len(tasks(engine)) == 2
    create(engine, "* * * * *")  # its name is free


def test_lists_come_in_pages_and_by_state(engine: Engine):
    ids = [create(engine, "* * * * *", f"s{n}") for n in range(5)]
    engine.value("pause_cron_task", cron_id=ids[2])
    first = [row[0] for row in engine.rows("list_cron_tasks", limit=3)]
    rest = [row[0] for row in engine.rows("list_cron_tasks", cursor=first[-1]["cursor"])]
    assert [document["name"] for document in first + rest] == ["s4", "s3", "s2", "s1", "s0"]
    [[paused]] = engine.rows("list_cron_tasks", status="PAUSED")
    assert paused["name"] == "s2"
    assert len(engine.rows("list_cron_tasks", status="ACTIVE")) == 4
    assert engine.rows("list_cron_tasks", tenant_id="acme") == []
    assert refused(engine, "list_cron_tasks", status="ASLEEP").sqlstate == "SK001"


async def test_history_comes_in_pages(dsn: str, engine: Engine):
    stand(engine, "2030-01-01T00:00:00")
    cron_id = create(engine, "* * * * *", overlap_policy="queue")
    await turns(dsn, *(f"2030-01-01T00:0{n}:00" for n in range(6)))
    first = [row[0] for row in engine.rows("list_fires", cron_id=cron_id, limit=3)]
    rest = engine.rows("list_fires", cron_id=cron_id, before=first[-1]["fire_time"])
    minutes = [fire["fire_time"][15] for fire in first + [row[0] for row in rest]]
    assert minutes == ["5", "4", "3", "2", "1"]


def test_view_has_the_columns_of_the_contract_first(engine: Engine):
    columns = [
        row[0]
        for row in engine.conn.execute(
            "select attname from pg_attribute where attrelid = 'skiplane.cron_tasks'::regclass"
            " and attnum > 0 order by attnum"
        )
    ]
    assert columns[:9] == [
        "cron_id", "name", "cron_expression", "timezone", "task_type", "payload", "queue",
        "priority", "max_retries",
    ]  # fmt: skip
    assert columns[9:16] == [
        "timeout_seconds", "overlap_policy", "enabled", "last_fired_at", "next_fire_time",
        "tenant_id", "created_at",
    ]  # fmt: skip


def test_move_that_was_made_by_somebody_else_changes_nothing(engine: Engine):
    stand(engine, "2030-01-01T00:01:00")
    cron_id = create(engine, "* * * * *", next_fire_time=at("2030-01-01T00:01"))
    move = {
        "id": str(cron_id), "was": "2030-01-01T00:01:00Z", "fire": "2030-01-01T00:01:00Z",
        "next": "2030-01-01T00:02:00Z", "catch_up": False, "missed": False,
    }  # fmt: skip
    assert engine.value("fire_schedules", moves=json.dumps([move])) == 1
    assert engine.value("fire_schedules", moves=json.dumps([move])) == 0
    assert len(tasks(engine)) == 1


def test_schedule_cannot_go_back_to_a_fire_that_was(engine: Engine):
    stand(engine, "2030-01-01T00:01:00")
    cron_id = create(engine, "* * * * *")
    engine.conn.execute("update skiplane.schedule set last_fire_time = '2030-01-01 00:01Z'")
    with pytest.raises(psycopg.errors.CheckViolation):
        engine.conn.execute(
            "update skiplane.schedule set next_fire_time = '2030-01-01 00:01Z' where id = %s",
            [cron_id],
        )


@pytest.mark.parametrize("time", ["infinity", "-infinity", "10000-01-01Z", "0001-01-01 BC"])
def test_time_that_the_scheduler_could_not_read_cannot_be_stored(engine: Engine, time: str):
    cron_id = create(engine, "* * * * *")
    with pytest.raises(psycopg.errors.CheckViolation):
        engine.conn.execute(
            "update skiplane.schedule set next_fire_time = %s::timestamptz where id = %s",
            [time, cron_id],
        )


def test_health_tells_of_schedules_that_nobody_fires(engine: Engine):
    stand(engine, "2030-01-01T00:00:00")
    create(engine, "* * * * *", next_fire_time=at("2030-01-01T00:01"))

    def well() -> bool:
        found = {row[0]: row[1] for row in engine.rows("health")}
        return bool(found["overdue_schedules"])

    assert well()
    stand(engine, "2030-01-01T00:01:06")
    assert not well()


def test_history_holds_a_fire_once(engine: Engine):
    row = "select gen_random_uuid(), now(), 0, skiplane._fire_day(skiplane.clock()), now()"
    insert = "insert into skiplane.fire (schedule_id, fire_time, shard, day, fired_at, outcome)"
    engine.conn.execute(f"{insert} {row}, 'missed'".encode())
    with pytest.raises(psycopg.errors.UniqueViolation):
        engine.conn.execute(
            f"{insert} select schedule_id, fire_time, shard, day, now(), 'missed' "
            "from skiplane.fire".encode()
        )

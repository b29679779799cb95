"""Schedules from Python."""

from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from skiplane import Conflict, InvalidInput, NotFound, Skiplane, StaleVersion
from skiplane.tests.support.engine import Engine

pytestmark = pytest.mark.usefixtures("engine")


def now(engine: Engine) -> datetime:
    moment = engine.one("select skiplane.clock()")
    assert isinstance(moment, datetime)
    return moment


async def test_schedule_is_ready_when_create_returns(app: Skiplane, engine: Engine):
    made = await app.cron.create(
        "nightly", "0 3 * * *", "cleanup", {"days": 7}, timezone="Europe/Berlin", jitter=60,
        tenant="acme", max_retries=1, timeout=timedelta(minutes=5), actor="ann",
    )  # fmt: skip
    assert made.status == "ACTIVE"
    assert made.next_fire_time is not None
    assert timedelta() < made.next_fire_time - now(engine) <= timedelta(days=1)
    assert (made.payload, made.jitter_seconds, made.tenant_id) == ({"days": 7}, 60, "acme")
    assert (made.max_retries, made.timeout_seconds) == (1, 300)
    assert await app.cron.preview(made.cron_id, 1) == [made.next_fire_time]
    found = await app.cron.find("nightly", tenant="acme")
    assert [(action.verb, action.actor) for action in found.actions] == [("create", "ann")]
    with pytest.raises(Conflict, match="name"):
        await app.cron.create("nightly", "@daily", "cleanup", tenant="acme")
    with pytest.raises(NotFound):
        await app.cron.find("nightly")


@pytest.mark.parametrize(
    ("field", "arguments"),
    [
        ("cron_expression", {"cron_expression": "61 * * * *"}),
        ("cron_expression", {"cron_expression": "0 0 30 2 *"}),
        ("timezone", {"timezone": "FOO+3"}),
        ("cron_expression", {"end_at": datetime(2020, 1, 1, tzinfo=UTC)}),
        ("end_at", {"end_at": datetime(2036, 1, 1)}),
        ("start_at", {"start_at": "tomorrow"}),
        ("jitter_seconds", {"jitter": "long"}),
        ("missed_limit", {"missed_limit": 1.5}),
        ("enabled", {"enabled": "yes"}),
        ("overlap_policy", {"overlap_policy": "allow"}),
        ("priority", {"priority": "urgent"}),
        ("payload.x", {"payload": {"x": float("nan")}}),
    ],
)
async def test_bad_input_is_refused_before_anything_is_stored(
    app: Skiplane, field: str, arguments: dict[str, Any]
):
    good = {"cron_expression": "@daily", "task": "t"}
    with pytest.raises(InvalidInput) as refused:
        await app.cron.create("n", **{**good, **arguments})
    assert refused.value.field == field
    assert await app.cron.list() == []


async def test_options_that_a_schedule_cannot_have_are_no_options(app: Skiplane):
    for name, value in (("delay", 5), ("idempotency_key", "k"), ("colour", "red")):
        with pytest.raises(TypeError):
            await app.cron.create("n", "@daily", "t", **{name: value})  # type: ignore[arg-type]


async def test_task_of_the_app_brings_its_options_and_checks_the_arguments(app: Skiplane):
    @app.task("report", queue="reports", max_retries=9)
    async def report(month: int) -> None: ...

    with pytest.raises(InvalidInput) as refused:
        await app.cron.create("n", "@monthly", report, {"month": "May"})
    assert refused.value.field == "month"
    made = await app.cron.create("n", "@monthly", report.options(priority="high"), {"month": 5})
    assert (made.task_type, made.queue, made.priority) == ("report", "reports", "high")
    assert (made.max_retries, made.payload) == (9, {"month": 5})


async def test_edit_recomputes_what_it_changes(app: Skiplane, engine: Engine):
    made = await app.cron.create("n", "0 0 1 1 *", "t", end_at=now(engine) + timedelta(days=2000))
    made = await app.cron.edit(made.cron_id, made.version, cron_expression="* * * * *", queue="q")
    assert made.next_fire_time is not None
    assert made.next_fire_time - now(engine) <= timedelta(minutes=1)
    made = await app.cron.edit(made.cron_id, made.version, end_at=None, jitter=3, payload=[1])
    assert (made.end_at, made.jitter_seconds, made.payload, made.queue) == (None, 3, [1], "q")
    with pytest.raises(StaleVersion):
        await app.cron.edit(made.cron_id, 1, queue="r")
    with pytest.raises(InvalidInput, match="never fires"):
        await app.cron.edit(made.cron_id, made.version, cron_expression="0 0 30 2 *")
    assert (await app.cron.get(made.cron_id)).version == made.version


async def test_pause_resume_run_history_delete(app: Skiplane):
    made = await app.cron.create("n", "@yearly", "t", enabled=False)
    assert (made.status, made.next_fire_time) == ("PAUSED", None)
    made = await app.cron.resume(made.cron_id)
    assert made.next_fire_time is not None
    made = await app.cron.pause(made.cron_id, "holiday")
    assert [one.name for one in await app.cron.list(status="PAUSED")] == ["n"]
    task = await app.cron.run(made.cron_id, actor="ann")
    [fire] = await app.cron.history(made.cron_id)
    assert (fire.outcome, fire.task_id) == ("manual", task.task_id)
    assert len(await app.cron.preview(made.cron_id, 3)) == 3
    await app.cron.delete(made.cron_id)
    with pytest.raises(NotFound):
        await app.cron.get(made.cron_id)
    with pytest.raises(InvalidInput, match="UUID"):
        await app.cron.get("n")


def test_sync_verbs_do_the_same(dsn: str):
    with Skiplane(dsn) as app:
        made = app.cron.create_sync("n", "@hourly", "t")
        made = app.cron.edit_sync(made.cron_id, made.version, timezone="Asia/Kathmandu")
        assert app.cron.preview_sync(made.cron_id, 1) == [made.next_fire_time]
        assert app.cron.pause_sync(made.cron_id).status == "PAUSED"
        assert app.cron.resume_sync(made.cron_id).status == "ACTIVE"
        task = app.cron.run_sync(made.cron_id)
        assert app.cron.history_sync(made.cron_id)[0].task_id == task.task_id
        assert app.cron.find_sync("n") == app.cron.get_sync(made.cron_id)
        assert len(app.cron.list_sync()) == 1
        assert app.cron.delete_sync(made.cron_id).name == "n"
        assert app.cron.list_sync() == []


async def test_schedule_is_part_of_the_callers_transaction(
    app: Skiplane, aconn: psycopg.AsyncConnection[Any]
):
    async with aconn.transaction(force_rollback=True):
        made = await app.cron.create("n", "@daily", "t", connection=aconn)
        assert (await app.cron.get(made.cron_id, connection=aconn)).name == "n"
    assert await app.cron.list() == []

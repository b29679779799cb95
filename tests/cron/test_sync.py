"""Schedules that code declares, and the sync that stores them."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from skiplane import Conflict, InvalidInput, Skiplane
from skiplane.schema.schedule_records import ScheduleChange
from skiplane.tests.cli.conftest import Run, bare, skiplane
from skiplane.tests.support.engine import Engine

__all__ = ["bare", "skiplane"]

pytestmark = pytest.mark.usefixtures("engine")


def did(changes: list[ScheduleChange]) -> list[tuple[str, str]]:
    return [(one.name, one.change) for one in changes]


async def stored(app: Skiplane) -> dict[str, tuple[str, str | None]]:
    return {one.name: (one.cron_expression, one.owner) for one in await app.cron.list()}


def code(dsn: str, *schedules: tuple[str, str], **options: Any) -> Skiplane:
    """Give an app as it is in some version of its code."""
    app = Skiplane(dsn)
    for name, expression in schedules:
        app.schedule(name, expression, "work", **options)
    return app


async def test_sync_adds_changes_and_removes_until_it_is_as_declared(app: Skiplane):
    @app.task("report", queue="reports", max_retries=9)
    async def report(month: int) -> None: ...

    app.schedule("monthly", "@monthly", report.options(priority="high"), {"month": 5}, jitter=60)
    app.schedule("daily", "0 3 * * *", "work", {"a": None}, timezone="Europe/Berlin")
    assert did(await app.cron.sync("app")) == [("daily", "create"), ("monthly", "create")]
    made = await app.cron.find("monthly")
    assert (made.queue, made.max_retries, made.priority) == ("reports", 9, "high")
    assert (made.payload, made.jitter_seconds, made.owner) == ({"month": 5}, 60, "app")
    assert made.next_fire_time is not None  # at once, without waiting for a scheduler
    assert did(await app.cron.sync("app")) == [("daily", "none"), ("monthly", "none")]
    assert (await app.cron.get(made.cron_id)).version == made.version
    later = code(app.dsn, ("daily", "0 4 * * *"), timezone="Europe/Berlin")
    changes = {one.name: one for one in later.cron.sync_sync("app")}
    assert {name: one.change for name, one in changes.items()} == {
        "daily": "edit",
        "monthly": "delete",
    }
    assert changes["daily"].fields == {
        "cron_expression": {"from": "0 3 * * *", "to": "0 4 * * *"},
        "payload": {"from": {"a": None}, "to": {}},
    }
    assert await stored(app) == {"daily": ("0 4 * * *", "app")}
    daily = await app.cron.find("daily")
    assert [daily.next_fire_time] == await app.cron.preview(daily.cron_id, 1)
    later.close_sync()


async def test_dry_run_tells_and_changes_nothing(app: Skiplane):
    first = code(app.dsn, ("stays", "@daily"), ("goes", "@daily"), ("moves", "@daily"))
    await first.cron.sync("app")
    before = await stored(app)
    second = code(app.dsn, ("stays", "@daily"), ("moves", "@weekly"), ("comes", "@daily"))
    [comes, *others] = await second.cron.sync("app", dry_run=True)
    assert (comes.name, comes.change, comes.cron_id) == ("comes", "create", None)
    assert did(others) == [("goes", "delete"), ("moves", "edit"), ("stays", "none")]
    assert await stored(app) == before
    assert did(await second.cron.sync("app")) == did([comes, *others])
    for one in (first, second):
        await one.close()


async def test_what_others_made_is_neither_removed_nor_taken(app: Skiplane):
    await app.cron.create("by hand", "@daily", "work")
    other = code(app.dsn, ("other's", "@daily"))
    await other.cron.sync("other")
    mine = code(app.dsn, ("mine", "@daily"), ("by hand", "@weekly"))
    for name, whose in (("by hand", "nobody's code"), ("other's", "the app other")):
        taking = code(app.dsn, ("mine", "@daily"), (name, "@weekly"))
        with pytest.raises(Conflict, match=whose) as refused:
            await taking.cron.sync("app")
        assert "adopt" in str(refused.value.remedy)
        await taking.close()
    assert await stored(app) == {"by hand": ("@daily", None), "other's": ("@daily", "other")}
    assert did(await mine.cron.sync("app", adopt=True)) == [
        ("by hand", "adopt"),
        ("mine", "create"),
    ]
    assert await stored(app) == {
        "by hand": ("@weekly", "app"), "mine": ("@daily", "app"),
        "other's": ("@daily", "other"),
    }  # fmt: skip
    # The other's code may come to declare nothing: only its own goes.
    empty = code(app.dsn)
    assert did(await empty.cron.sync("other")) == [("other's", "delete")]
    assert set(await stored(app)) == {"by hand", "mine"}
    for one in (other, mine, empty):
        await one.close()


async def test_pause_of_an_operator_outlives_a_sync(app: Skiplane):
    first = code(app.dsn, ("s", "@daily"))
    [made] = await first.cron.sync("app")
    assert made.cron_id is not None
    await app.cron.pause(made.cron_id, "holiday")
    second = code(app.dsn, ("s", "@weekly"))
    assert did(await second.cron.sync("app")) == [("s", "edit")]
    assert (await app.cron.get(made.cron_id)).status == "PAUSED"
    said = code(app.dsn, ("s", "@weekly"), enabled=True)
    assert did(await said.cron.sync("app")) == [("s", "edit")]
    after = await app.cron.get(made.cron_id)
    assert (after.status, after.next_fire_time is not None) == ("ACTIVE", True)
    for one in (first, second, said):
        await one.close()


async def test_schedule_that_has_ended_may_stay_in_the_code(app: Skiplane, engine: Engine):
    end = datetime.now(UTC) + timedelta(days=1)
    ending = code(app.dsn, ("s", "@hourly"), end_at=end)
    [made] = await ending.cron.sync("app")
    engine.conn.execute(
        "update skiplane.schedule set status = 'ENDED', next_fire_time = null,"
        " end_at = now() - interval '1 day' where id = %s",
        [made.cron_id],
    )
    record = await app.cron.find("s")
    ended = code(app.dsn, ("s", "@hourly"), end_at=record.end_at)
    assert did(await ended.cron.sync("app")) == [("s", "none")]
    for one in (ending, ended):
        await one.close()


async def test_schedules_of_tenants_are_apart(app: Skiplane):
    for tenant in ("acme", "umbrella"):
        app.schedule("nightly", "@daily", "work", tenant=tenant)
    changes = await app.cron.sync("app")
    assert [(one.tenant_id, one.change) for one in changes] == [
        ("acme", "create"), ("umbrella", "create"),
    ]  # fmt: skip
    with pytest.raises(InvalidInput, match="declared twice"):
        app.schedule("nightly", "@weekly", "other", metadata={"tenant_id": "acme"})


@pytest.mark.parametrize(
    ("field", "arguments"),
    [
        ("cron_expression", {"cron_expression": "61 * * * *"}),
        ("cron_expression", {"cron_expression": "0 0 30 2 *"}),
        ("timezone", {"timezone": "FOO+3"}),
        ("jitter_seconds", {"jitter": "long"}),
        ("payload.x", {"payload": {"x": float("nan")}}),
        ("name", {"name": 7}),
    ],
)
async def test_bad_declaration_is_refused_where_it_stands(
    app: Skiplane, field: str, arguments: dict[str, Any]
):
    good = {"name": "s", "cron_expression": "@daily", "task": "t"}
    with pytest.raises(InvalidInput) as refused:
        app.schedule(**{**good, **arguments})
    assert refused.value.field == field
    assert app.declared_schedules() == []


async def test_two_syncs_at_once_do_the_work_once(app: Skiplane, dsn: str):
    old = code(dsn, *((f"s{n}", "@daily") for n in range(20)))
    await old.cron.sync("app")
    new = [code(dsn, *((f"s{n}", "@weekly") for n in range(10, 30))) for _ in range(4)]
    answers = await asyncio.gather(*(one.cron.sync("app") for one in new))
    changed = sorted(pair for changes in answers for pair in did(changes) if pair[1] != "none")
    assert changed == sorted(
        [(f"s{n}", "delete") for n in range(10)]
        + [(f"s{n}", "edit") for n in range(10, 20)]
        + [(f"s{n}", "create") for n in range(20, 30)]
    )
    assert await stored(app) == {f"s{n}": ("@weekly", "app") for n in range(10, 30)}
    for one in (old, *new):
        await one.close()


async def test_sync_is_part_of_the_callers_transaction(
    app: Skiplane, aconn: psycopg.AsyncConnection[Any]
):
    app.schedule("s", "@daily", "work")
    async with aconn.transaction(force_rollback=True):
        assert did(await app.cron.sync("app", connection=aconn)) == [("s", "create")]
    assert await app.cron.list() == []


GOOD = {"name": "a", "cron_expression": "@daily", "task_type": "t"}


@pytest.mark.parametrize(
    ("field", "schedules"),
    [
        ("schedules", {}),
        ("schedules[1].object", [GOOD, 7]),
        ("schedules[0].name", [{**GOOD, "name": None}]),
        ("schedules[0].cron_expression", [{"name": "a", "task_type": "t"}]),
        ("schedules[0].colour", [{**GOOD, "colour": 1}]),
        ("schedules[1].name", [GOOD, GOOD]),
        ("schedules[0].priority", [{**GOOD, "priority": "urgent"}]),
    ],
)
def test_engine_refuses_bad_lists_by_their_place(engine: Engine, field: str, schedules: Any):
    with pytest.raises(psycopg.Error) as refused:
        engine.conn.execute("select skiplane.sync_cron_tasks('app', %s)", [Jsonb(schedules)])
    assert refused.value.sqlstate == "SK001"
    assert refused.value.diag.column_name == field
    assert engine.one("select count(*) from skiplane.schedule") == 0


CODE = """
from skiplane import Skiplane

app = Skiplane()


@app.task("cleanup", queue="nightly")
async def cleanup(days: int) -> None: ...


app.schedule("cleanup-nightly", "30 2 * * *", cleanup, {"days": 7}, timezone="Europe/Berlin")
"""


def test_command_syncs_what_a_module_declares(
    skiplane: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "declared_app.py").write_text(CODE)
    said = skiplane("cron", "sync", "--app", "declared_app", "--dry-run")
    assert said.code == 0, said.err
    assert "create" in said.out
    assert "1 to change, 0 as declared." in said.out
    assert skiplane("cron", "list", "--json").document == []
    [made] = skiplane("cron", "sync", "--app", "declared_app:app", "--json").document
    assert (made["change"], made["name"]) == ("create", "cleanup-nightly")
    shown = skiplane("cron", "show", "cleanup-nightly", "--json").document
    assert (shown["owner"], shown["queue"]) == ("declared_app:app", "nightly")
    # The same app, however it is named.
    assert "0 changed, 1 as declared." in skiplane("cron", "sync", "--app", "declared_app").out
    skiplane("cron", "edit", "cleanup-nightly", "--expression", "0 9 * * *")
    said = skiplane("cron", "sync", "--app", "declared_app")
    assert "cron_expression: 0 9 * * * -> 30 2 * * *" in said.out
    taken = skiplane("cron", "sync", "--app", "declared_app", "--owner", "else")
    assert taken.code == 1
    assert "belongs to the app declared_app:app" in taken.err
    assert skiplane("cron", "sync", "--app", "declared_app", "--owner", "else", "--adopt").code == 0


@pytest.mark.parametrize("name", ["no_such_module", "json", "skiplane.cli:nothing"])
def test_command_says_what_is_wrong_with_the_app(skiplane: Run, name: str):
    said = skiplane("cron", "sync", "--app", name)
    assert said.code == 2
    assert said.err.startswith("Error: ")
    assert "Traceback" not in said.err

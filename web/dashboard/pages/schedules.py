"""Schedules: next fires, history, and an editor that shows when it would fire."""

from datetime import datetime
from typing import Any

import msgspec
from litestar.response.base import ASGIResponse

from ....schema import cron_calls as calls
from ....schema import cron_steps as steps
from ....schema.encode import decode_json
from ....schema.errors import InvalidInput, SkiplaneError
from ....schema.schedule_records import Fire, ScheduleRecord
from ...body import MAX_PAYLOAD, storable
from ...cursors import read_cursor, write_cursor
from ...problems import Problem, invalid, problem_of
from ..charts import Series, lines
from ..render import page, redirect
from ..shows import AnyRequest, asked, form, instant, may, principal, read_id, services, shows

PAGE = 50
NEXT = 10
STATUSES = ("ACTIVE", "PAUSED", "INVALID", "ENDED")
_DONE = {
    "created": "The schedule is stored.",
    "edited": "The change is stored.",
    "paused": "The schedule does not fire any more.",
    "resumed": "The schedule fires again.",
    "run": "A task was submitted.",
    "deleted": "The schedule was deleted.",
}
_TIMES = ("cron_expression", "timezone", "start_at", "end_at")
_NUMBERS = ("jitter_seconds", "missed_limit", "max_retries", "timeout_seconds")
_WHOLE = ("missed_limit", "max_retries")
_TEXTS = ("cron_expression", "timezone", "overlap_policy", "missed_policy", "queue", "priority")
FIELDS = (*_TEXTS, *_NUMBERS, "start_at", "end_at", "task_type", "payload")
_EMPTY = {
    "timezone": "UTC", "overlap_policy": "skip", "missed_policy": "once", "queue": "default",
    "priority": "medium", "payload": "{}", "missed_limit": "10", "jitter_seconds": "0",
}  # fmt: skip


@shows("/ui/schedules")
async def list_schedules(request: AnyRequest) -> ASGIResponse:
    """Show a page of schedules."""
    who = principal(request)
    values = asked(request, ("status", "task_type", "tenant_id", "cursor", "done"))
    given, done = values.pop("cursor"), values.pop("done")
    if values["status"] and values["status"] not in STATUSES:
        raise invalid("status is no state.", "status", values["status"], "Choose one of the list.")
    scope = ("ui-schedules", who.tenant, values)
    found = await services(request).database.run(
        calls.list_cron_tasks(
            status=values["status"],
            task_type=values["task_type"],
            tenant=who.tenant or values["tenant_id"],
            limit=PAGE,
            cursor=read_cursor(given, *scope),
        )
    )
    last = found[-1].cursor if len(found) == PAGE else None
    return page(
        request,
        "schedules.html",
        schedules=found,
        values=values,
        filtered=any(values.values()),
        first=given is None,
        next=write_cursor(last, *scope),
        states=STATUSES,
        done=_DONE.get(done or ""),
        may_change=may(who, "producer"),
    )


async def _read(request: AnyRequest) -> ScheduleRecord:
    id_, who = read_id(request, "cron_id"), principal(request)
    found = await services(request).database.run(calls.get_cron_task(id_))
    if who.tenant not in (None, found.tenant_id):
        raise Problem("not_found", "No schedule has this id.", "cron_id", str(id_))
    return found


@shows("/ui/schedules/{cron_id}")
async def show_schedule(request: AnyRequest) -> ASGIResponse:
    """Show a schedule with what comes and what was."""
    schedule, who = await _read(request), principal(request)
    run = services(request).database.run
    fires = await run(calls.list_fires(schedule.cron_id, limit=PAGE))
    upcoming: list[datetime] = []
    if schedule.status == "ACTIVE":
        now = await run(calls.clock())
        try:
            upcoming = calls.times_of({}, schedule).next_after(now, NEXT)
        except InvalidInput:
            upcoming = []
    drifts = [fire for fire in reversed(fires) if fire.outcome == "fired"]
    return page(
        request,
        "schedule.html",
        schedule=schedule,
        payload=msgspec.json.encode(schedule.payload).decode(),
        fires=fires,
        upcoming=upcoming,
        drift=lines(
            "Drift: from the time to the fire",
            [fire.fire_time.timestamp() for fire in drifts],
            [Series("drift", "l-1", [_drift(fire) for fire in drifts])],
            "s",
        ),
        done=_DONE.get(request.query_params.get("done", "")),
        may_change=may(who, "producer"),
    )


def _drift(fire: Fire) -> float:
    return max(0.0, (fire.fired_at - fire.fire_time).total_seconds())


async def _verb(request: AnyRequest, call: Any, done: str) -> ASGIResponse:
    await form(request)
    schedule = await _read(request)  # whose it is
    await services(request).database.run(call(schedule))
    return redirect(f"/ui/schedules/{schedule.cron_id}?done={done}")


@shows("/ui/schedules/{cron_id}/pause", "producer", method="POST")
async def pause(request: AnyRequest) -> ASGIResponse:
    """Stop a schedule."""
    actor = principal(request).actor
    return await _verb(request, lambda s: calls.pause_cron_task(s.cron_id, None, actor), "paused")


@shows("/ui/schedules/{cron_id}/resume", "producer", method="POST")
async def resume(request: AnyRequest) -> ASGIResponse:
    """Let it fire again."""
    await form(request)
    schedule = await _read(request)
    run = services(request).database.run
    await steps.take_async(run, steps.resume(schedule.cron_id, principal(request).actor))
    return redirect(f"/ui/schedules/{schedule.cron_id}?done=resumed")


@shows("/ui/schedules/{cron_id}/run", "producer", method="POST")
async def run_now(request: AnyRequest) -> ASGIResponse:
    """Submit its task now."""
    actor = principal(request).actor
    return await _verb(request, lambda s: calls.run_cron_task(s.cron_id, actor), "run")


@shows("/ui/schedules/{cron_id}/delete", "producer", method="POST")
async def delete(request: AnyRequest) -> ASGIResponse:
    """Delete it; what it made stays."""
    await form(request)
    schedule = await _read(request)
    call = calls.delete_cron_task(schedule.cron_id, principal(request).actor)
    await services(request).database.run(call)
    return redirect("/ui/schedules?done=deleted")


@shows("/ui/schedules/preview")
async def preview(request: AnyRequest) -> ASGIResponse:
    """Show when an expression would fire, for the editor."""
    values = asked(request, _TIMES)
    found, problem = await _preview(request, {n: v or "" for n, v in values.items()})
    return page(request, "preview.html", upcoming=found, problem=problem)


async def _preview(
    request: AnyRequest, values: dict[str, str]
) -> tuple[list[datetime], Problem | None]:
    if not values.get("cron_expression"):
        return [], None
    try:
        times = calls.Times(
            values["cron_expression"],
            values.get("timezone") or "UTC",
            instant(dict(values), "start_at"),
            instant(dict(values), "end_at"),
        )
        now = await services(request).database.run(calls.clock())
        return times.next_after(now, NEXT), None
    except (Problem, SkiplaneError) as error:
        return [], problem_of(error)


@shows("/ui/schedules/new", "producer")
async def show_new(request: AnyRequest) -> ASGIResponse:
    """Show an empty editor."""
    return await _editor(request, None, {**dict.fromkeys(FIELDS, ""), **_EMPTY, "name": ""}, None)


@shows("/ui/schedules/{cron_id}/edit", "producer")
async def show_edit(request: AnyRequest) -> ASGIResponse:
    """Show the editor of a schedule."""
    schedule = await _read(request)
    return await _editor(request, schedule, _shown(schedule), None)


def _shown(schedule: ScheduleRecord) -> dict[str, str]:
    values = {name: getattr(schedule, name) for name in FIELDS if name != "payload"}
    shown = {name: "" if value is None else _text(value) for name, value in values.items()}
    payload = msgspec.json.format(msgspec.json.encode(schedule.payload), indent=2).decode()
    return {**shown, "payload": payload, "version": str(schedule.version)}


def _text(value: Any) -> str:
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    return f"{value:g}" if isinstance(value, float) else str(value)


async def _editor(
    request: AnyRequest,
    schedule: ScheduleRecord | None,
    values: dict[str, str],
    problem: Problem | None,
) -> ASGIResponse:
    found, wrong = await _preview(request, values)
    status = problem.status if problem else 200
    return page(
        request,
        "schedule_edit.html",
        status,
        schedule=schedule,
        values=values,
        problem=problem,
        upcoming=found,
        preview_problem=wrong,
    )


@shows("/ui/schedules/new", "producer", method="POST")
async def create(request: AnyRequest) -> ASGIResponse:
    """Store a new schedule."""
    given, who = await form(request), principal(request)
    try:
        name = given.get("name", "").strip()
        fields = _fields(given, dict.fromkeys(FIELDS, ""))
        task_type, payload = fields.pop("task_type", ""), fields.pop("payload", {})
        # A bound key makes schedules of its tenant; submit reads the tenant from here.
        if tenant := who.tenant or given.get("tenant_id", "").strip():
            fields["tenant"] = tenant
        made = await steps.take_async(
            services(request).database.run,
            steps.create(name, task_type, payload, fields, who.actor),
        )
    except (Problem, SkiplaneError) as error:
        shown = {**dict.fromkeys(FIELDS, ""), **_EMPTY, "name": "", **given}
        return await _editor(request, None, shown, problem_of(error))
    return redirect(f"/ui/schedules/{made.cron_id}?done=created")


@shows("/ui/schedules/{cron_id}/edit", "producer", method="POST")
async def edit(request: AnyRequest) -> ASGIResponse:
    """Store what was changed."""
    given = await form(request)
    schedule, who = await _read(request), principal(request)
    try:
        changes = _fields(given, _shown(schedule))
        version = int(given.get("version", "")[:9]) if given.get("version", "").isdigit() else 0
        if changes:
            await steps.take_async(
                services(request).database.run,
                steps.edit(schedule.cron_id, version, changes, who.actor),
            )
    except (Problem, SkiplaneError) as error:
        return await _editor(request, schedule, {**_shown(schedule), **given}, problem_of(error))
    return redirect(f"/ui/schedules/{schedule.cron_id}?done=edited")


def _fields(given: dict[str, str], shown: dict[str, str]) -> dict[str, Any]:
    """Give the fields that differ from what was shown; None for what was emptied."""
    found: dict[str, Any] = {}
    for name in FIELDS:
        text = given.get(name, shown[name]).replace("\r\n", "\n").strip()
        if text == shown[name].strip():
            continue
        key = name.removesuffix("_seconds") if name == "timeout_seconds" else name
        found[key] = _value(name, text) if text else None
    return found


def _value(name: str, text: str) -> Any:
    if name == "payload":
        storable(text.encode(), name, MAX_PAYLOAD)
        return decode_json(text)
    if name in ("start_at", "end_at"):
        return instant({name: text}, name)
    if name in _NUMBERS:
        try:
            return int(text) if name in _WHOLE else float(text)
        except ValueError:
            raise invalid(f"{name} is no number.", name, text[:100]) from None
    return text


HANDLERS = [
    list_schedules,
    preview,
    show_new,
    create,
    show_schedule,
    show_edit,
    edit,
    pause,
    resume,
    run_now,
    delete,
]

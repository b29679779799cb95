"""Schedules."""

from typing import Any
from uuid import UUID

import msgspec
from litestar.response.base import ASGIResponse
from msgspec import UNSET

from ...schema import cron_calls, cron_steps
from ...schema.schedule_records import ScheduleRecord
from ...schema.web_calls import as_text, check_within
from ..body import MAX_PAYLOAD, Query, read_json, storable, task_id, tenant_filter
from ..contract import CRON, ONE_CRON
from ..cursors import read_cursor, write_cursor
from ..models_flows import RecurringTask, ScheduleEdit, ScheduleRequest, Template
from ..problems import invalid
from ..reading import bound_metadata
from ..services import principal, services
from .routes import AnyRequest, handles, page, reply
from .versions import version_of

_NONE: frozenset[str] = frozenset()
_LIST = frozenset({"status", "task_type", "tenant_id", "limit", "cursor"})


async def _visible(request: AnyRequest) -> UUID:
    """Give the id of the path, once the caller may see what it names."""
    cron_id = task_id(request, "cron_id")
    who = principal(request)
    if who.tenant is not None:
        await services(request).database.run(check_within("cron", cron_id, who.tenant))
    return cron_id


def _fields(request: AnyRequest, wish: Template) -> dict[str, Any]:
    """Give what was sent, by the engine's names."""
    given = {
        name: value
        for name in wish.__struct_fields__
        if (value := getattr(wish, name)) is not UNSET
    }
    if "payload" in given:
        given["payload"] = storable(bytes(given["payload"]), "payload", MAX_PAYLOAD)
    metadata = bound_metadata(given.pop("metadata", UNSET), principal(request).tenant)
    if metadata:
        given["metadata"] = metadata
    return given


async def _create(
    request: AnyRequest, name: str, task_type: str, fields: dict[str, Any]
) -> ASGIResponse:
    payload = fields.pop("payload", {})
    steps = cron_steps.create(name, task_type, payload, fields, principal(request).actor)
    made = await cron_steps.take_async(services(request).database.run, steps)
    body = {
        "cron_id": made.cron_id,
        "name": made.name,
        "next_fire_time": made.next_fire_time,
        "status": made.status,
    }
    return reply(body, 201, {"location": f"{CRON}/{made.cron_id}"})


@handles("POST", CRON)
async def create_cron_task(request: AnyRequest) -> ASGIResponse:
    """Make a schedule."""
    Query(request, _NONE)
    fields = _fields(request, await read_json(request, ScheduleRequest))
    return await _create(request, fields.pop("name"), fields.pop("task_type"), fields)


async def create_recurring(request: AnyRequest) -> ASGIResponse:
    """Make a schedule in the words of a task."""
    fields = _fields(request, await read_json(request, RecurringTask))
    fields["cron_expression"] = fields.pop("schedule")
    if "task_duration" in fields:
        if "estimated_duration_seconds" in fields:
            raise invalid(
                "task_duration and estimated_duration_seconds are one option.",
                "task_duration",
                fields["task_duration"],
                "Give one of them.",
            )
        fields["estimated_duration_seconds"] = fields.pop("task_duration")
    task_type = fields.pop("task_type")
    # One of a kind unless it is named.
    name = fields.pop("name", None) or f"{task_type}: {fields['cron_expression']}"
    return await _create(request, name, task_type, fields)


@handles("GET", CRON)
async def list_cron_tasks(request: AnyRequest) -> ASGIResponse:
    """List schedules."""
    who = principal(request)
    query = Query(request, _LIST)
    status, task_type, asked = (query.text(n) for n in ("status", "task_type", "tenant_id"))
    limit = query.number("limit", 50, 1, 1000)
    scope = ("cron", who.tenant, status, task_type, asked)
    cursor = read_cursor(query.text("cursor"), *scope)
    tenant, nothing = tenant_filter(who.tenant, asked)
    call = cron_calls.list_cron_tasks(
        status=status, task_type=task_type, tenant=tenant, limit=limit, cursor=cursor
    )
    found = [] if nothing else await services(request).database.run(as_text(call))
    last = msgspec.json.decode(found[-1])["cron_id"] if len(found) == limit else None
    return page("cron_tasks", found, write_cursor(last, *scope))


def _shown(record: ScheduleRecord) -> ASGIResponse:
    return reply(record, 200, {"etag": f'"v{record.version}"'})


@handles("GET", ONE_CRON)
async def get_cron_task(request: AnyRequest) -> ASGIResponse:
    """Read a schedule."""
    Query(request, _NONE)
    call = cron_calls.get_cron_task(await _visible(request))
    return _shown(await services(request).database.run(call))


@handles("PUT", ONE_CRON)
async def edit_cron_task(request: AnyRequest) -> ASGIResponse:
    """Change a schedule."""
    Query(request, _NONE)
    version = version_of(request)
    edit = await read_json(request, ScheduleEdit)
    changes = _fields(request, edit)
    if edit.metadata is UNSET:
        changes.pop("metadata", None)
    if not changes:
        raise invalid("There is nothing to change.", "body", "{}", "Give at least one field.")
    cron_id = await _visible(request)
    steps = cron_steps.edit(cron_id, version, changes, principal(request).actor)
    return _shown(await cron_steps.take_async(services(request).database.run, steps))


@handles("DELETE", ONE_CRON)
async def delete_cron_task(request: AnyRequest) -> ASGIResponse:
    """Delete a schedule."""
    Query(request, _NONE)
    call = cron_calls.delete_cron_task(await _visible(request), principal(request).actor)
    return _shown(await services(request).database.run(call))


@handles("POST", ONE_CRON + "/pause")
async def pause_cron_task(request: AnyRequest) -> ASGIResponse:
    """Pause a schedule."""
    Query(request, _NONE)
    call = cron_calls.pause_cron_task(await _visible(request), None, principal(request).actor)
    return _shown(await services(request).database.run(call))


@handles("POST", ONE_CRON + "/resume")
async def resume_cron_task(request: AnyRequest) -> ASGIResponse:
    """Resume a schedule."""
    Query(request, _NONE)
    steps = cron_steps.resume(await _visible(request), principal(request).actor)
    return _shown(await cron_steps.take_async(services(request).database.run, steps))


@handles("POST", ONE_CRON + "/run")
async def run_cron_task(request: AnyRequest) -> ASGIResponse:
    """Submit the task of a schedule now."""
    Query(request, _NONE)
    call = cron_calls.run_cron_task(await _visible(request), principal(request).actor)
    task = await services(request).database.run(call)
    return reply({"task_id": task.task_id, "status": task.status}, 202)


@handles("GET", ONE_CRON + "/preview")
async def preview_cron_task(request: AnyRequest) -> ASGIResponse:
    """Give the next fire times."""
    count = Query(request, frozenset({"count"})).number("count", 10, 1, 1000)
    cron_id = await _visible(request)
    steps = cron_steps.preview(cron_id, count)
    times = await cron_steps.take_async(services(request).database.run, steps)
    return reply({"cron_id": cron_id, "fire_times": times})


HANDLERS = [
    create_cron_task,
    list_cron_tasks,
    get_cron_task,
    edit_cron_task,
    delete_cron_task,
    pause_cron_task,
    resume_cron_task,
    run_cron_task,
    preview_cron_task,
]

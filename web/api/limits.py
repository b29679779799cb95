"""Queues, task types and tenants: how they stand, limits, weights, pauses, breakers."""

from collections.abc import Callable
from typing import Any
from urllib.parse import quote, unquote

import msgspec
from litestar.response.base import ASGIResponse

from ...schema import flow_calls
from ...schema.call import Call
from ...schema.web_calls import as_text, explain_waiting_within
from .. import models_limits as m
from ..body import Query, name_in_path, read_json, read_optional, task_id
from ..contract import ONE_QUEUE, ONE_TASK, ONE_TENANT, ONE_TYPE, QUEUES, TENANTS, TYPES
from ..cursors import read_cursor, write_cursor
from ..problems import Problem
from ..services import principal, services
from .routes import AnyRequest, handles, page, reply

_NONE: frozenset[str] = frozenset()
_LIST = frozenset({"limit", "cursor"})
# The API's names of settings, and those of Python where they differ.
_PYTHON = {
    "breaker_window_seconds": "breaker_window",
    "breaker_cooldown_seconds": "breaker_cooldown",
}


async def _one(request: AnyRequest, call: Call[Any]) -> str:
    [document] = await services(request).database.run(as_text(call))
    return document


async def _page(
    request: AnyRequest, call: Callable[[int, str], Call[Any]], name: str, key: str
) -> tuple[list[str], str | None]:
    query = Query(request, _LIST)
    limit = query.number("limit", 50, 1, 1000)
    after = read_cursor(query.text("cursor"), name)
    found = await services(request).database.run(as_text(call(limit, unquote(after or ""))))
    # A cursor is ASCII, a name may be anything.
    last = quote(msgspec.json.decode(found[-1])[key]) if len(found) == limit else None
    return found, write_cursor(last, name)


def _with_pressure(request: AnyRequest, document: str) -> str:
    found = msgspec.json.decode(document)
    busy = services(request).pressure.queues
    found["pressure"] = busy.get(found["queue"], (0, "none"))[1]
    return msgspec.json.encode(found).decode()


@handles("GET", QUEUES)
async def list_queues(request: AnyRequest) -> ASGIResponse:
    """List queues."""
    found, cursor = await _page(request, flow_calls.list_queues, "queues", "queue")
    return page("queues", [_with_pressure(request, one) for one in found], cursor)


async def _queue(request: AnyRequest, call: Call[Any]) -> ASGIResponse:
    return reply(_with_pressure(request, await _one(request, call)).encode())


@handles("GET", ONE_QUEUE)
async def get_queue(request: AnyRequest) -> ASGIResponse:
    """Read a queue."""
    Query(request, _NONE)
    return await _queue(request, flow_calls.get_queue(name_in_path(request)))


async def _set_queue(request: AnyRequest, **given: Any) -> ASGIResponse:
    Query(request, _NONE)
    name, actor = name_in_path(request), principal(request).actor
    return await _queue(request, flow_calls.set_queue(name, actor=actor, **given))


@handles("PUT", ONE_QUEUE)
async def set_queue(request: AnyRequest) -> ASGIResponse:
    """Set a queue."""
    return await _set_queue(request, **m.changes(await read_json(request, m.QueueSettings)))


@handles("POST", ONE_QUEUE + "/pause")
async def pause_queue(request: AnyRequest) -> ASGIResponse:
    """Pause a queue."""
    return await _set_queue(request, paused=True)


@handles("POST", ONE_QUEUE + "/resume")
async def resume_queue(request: AnyRequest) -> ASGIResponse:
    """Resume a queue."""
    return await _set_queue(request, paused=False)


@handles("GET", TYPES)
async def list_task_types(request: AnyRequest) -> ASGIResponse:
    """List task types."""
    found = await _page(request, flow_calls.list_task_types, "task_types", "task_type")
    return page("task_types", *found)


async def _document(request: AnyRequest, call: Call[Any]) -> ASGIResponse:
    Query(request, _NONE)
    return reply((await _one(request, call)).encode())


@handles("GET", ONE_TYPE)
async def get_task_type(request: AnyRequest) -> ASGIResponse:
    """Read a task type."""
    return await _document(request, flow_calls.get_task_type(name_in_path(request)))


async def _set_task_type(request: AnyRequest, **given: Any) -> ASGIResponse:
    name, actor = name_in_path(request), principal(request).actor
    return await _document(request, flow_calls.set_task_type(name, actor=actor, **given))


@handles("PUT", ONE_TYPE)
async def set_task_type(request: AnyRequest) -> ASGIResponse:
    """Set a task type."""
    given = m.changes(await read_json(request, m.TaskTypeSettings))
    named = {_PYTHON.get(name, name): value for name, value in given.items()}
    return await _set_task_type(request, **named)


@handles("POST", ONE_TYPE + "/pause")
async def pause_task_type(request: AnyRequest) -> ASGIResponse:
    """Pause a task type."""
    return await _set_task_type(request, paused=True)


@handles("POST", ONE_TYPE + "/resume")
async def resume_task_type(request: AnyRequest) -> ASGIResponse:
    """Resume a task type."""
    return await _set_task_type(request, paused=False)


@handles("POST", ONE_TYPE + "/breaker/open")
async def open_breaker(request: AnyRequest) -> ASGIResponse:
    """Open a circuit breaker."""
    wish = await read_optional(request, m.BreakerOpening)
    call = flow_calls.open_breaker(
        name_in_path(request),
        duration=wish.seconds,
        reason=wish.reason,
        actor=principal(request).actor,
    )
    return await _document(request, call)


@handles("POST", ONE_TYPE + "/breaker/close")
async def close_breaker(request: AnyRequest) -> ASGIResponse:
    """Close a circuit breaker."""
    call = flow_calls.close_breaker(name_in_path(request), actor=principal(request).actor)
    return await _document(request, call)


@handles("GET", TENANTS)
async def list_tenants(request: AnyRequest) -> ASGIResponse:
    """List tenants."""
    own = principal(request).tenant
    if own is None:
        return page(
            "tenants", *await _page(request, flow_calls.list_tenants, "tenants", "tenant_id")
        )
    query = Query(request, _LIST)
    query.number("limit", 50, 1, 1000)
    read_cursor(query.text("cursor"), "tenants", own)
    return page("tenants", [await _one(request, flow_calls.get_tenant(own))], None)


@handles("GET", ONE_TENANT)
async def get_tenant(request: AnyRequest) -> ASGIResponse:
    """Read a tenant."""
    name, own = name_in_path(request), principal(request).tenant
    if own not in (None, name):
        raise Problem(
            "not_found",
            "No tenant has this id.",
            "tenant_id",
            name[:200],
            "The key is bound to a tenant; GET /api/v1/tenants shows it.",
        )
    return await _document(request, flow_calls.get_tenant(name))


async def _set_tenant(request: AnyRequest, **given: Any) -> ASGIResponse:
    name, actor = name_in_path(request), principal(request).actor
    return await _document(request, flow_calls.set_tenant(name, actor=actor, **given))


@handles("PUT", ONE_TENANT)
async def set_tenant(request: AnyRequest) -> ASGIResponse:
    """Set a tenant."""
    return await _set_tenant(request, **m.changes(await read_json(request, m.TenantSettings)))


@handles("POST", ONE_TENANT + "/pause")
async def pause_tenant(request: AnyRequest) -> ASGIResponse:
    """Pause a tenant."""
    return await _set_tenant(request, paused=True)


@handles("POST", ONE_TENANT + "/resume")
async def resume_tenant(request: AnyRequest) -> ASGIResponse:
    """Resume a tenant."""
    return await _set_tenant(request, paused=False)


@handles("GET", ONE_TASK + "/waiting")
async def explain_waiting(request: AnyRequest) -> ASGIResponse:
    """Tell why a task waits."""
    Query(request, _NONE)
    call = explain_waiting_within(principal(request).tenant, task_id(request))
    return reply((await services(request).database.run(call)).encode())


HANDLERS = [
    list_queues,
    get_queue,
    set_queue,
    pause_queue,
    resume_queue,
    list_task_types,
    get_task_type,
    set_task_type,
    pause_task_type,
    resume_task_type,
    open_breaker,
    close_breaker,
    list_tenants,
    get_tenant,
    set_tenant,
    pause_tenant,
    resume_tenant,
    explain_waiting,
]

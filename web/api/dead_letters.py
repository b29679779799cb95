"""The dead letter queue."""

import time

import msgspec
from litestar.response.base import ASGIResponse

from ...schema.task_calls import retry_dead_letters as retry_some
from ...schema.web_calls import dead_letters, verb_within
from ..body import Query, task_id, tenant_filter
from ..contract import DLQ
from ..cursors import read_cursor, write_cursor
from ..services import principal, services
from .routes import AnyRequest, handles, page, reply
from .tasks import retried

_NONE: frozenset[str] = frozenset()
_FILTERS = ("task_type", "queue", "tenant_id")
RETRY_SECONDS = 2.0


@handles("GET", DLQ)
async def list_dead_letters(request: AnyRequest) -> ASGIResponse:
    """List dead letters."""
    service, who = services(request), principal(request)
    query = Query(request, frozenset({*_FILTERS, "limit", "cursor"}))
    task_type, queue, asked = (query.text(name) for name in _FILTERS)
    tenant, nothing = tenant_filter(who.tenant, asked)
    limit = query.number("limit", 50, 1, 1000)
    scope = ("dlq", who.tenant, task_type, queue, asked)
    cursor = read_cursor(query.text("cursor"), *scope)
    if nothing:
        return page("dead_letters", [], None)
    found = await service.database.run(dead_letters(limit, cursor, task_type, queue, tenant))
    last = None
    if len(found) == limit:
        last = msgspec.json.decode(found[-1])["task_id"]
    return page("dead_letters", found, write_cursor(last, *scope))


@handles("POST", DLQ + "/{task_id}/retry")
async def retry_dead_letter(request: AnyRequest) -> ASGIResponse:
    """Run a dead letter again."""
    Query(request, _NONE)
    return await retried(request, "retry_dead_letter")


@handles("POST", DLQ + "/retry-all")
async def retry_dead_letters(request: AnyRequest) -> ASGIResponse:
    """Run all dead letters of a filter again."""
    service, who = services(request), principal(request)
    query = Query(request, frozenset(_FILTERS))
    task_type, queue, asked = (query.text(name) for name in _FILTERS)
    tenant, nothing = tenant_filter(who.tenant, asked)
    total, count = 0, 0
    end = time.monotonic() + RETRY_SECONDS
    while not nothing:
        count = await service.database.run(
            retry_some(task_type=task_type, queue=queue, tenant=tenant, actor=who.actor), 30
        )
        total += count
        if not count or time.monotonic() > end:
            break
    return reply({"retried": total, "more": count > 0})


@handles("DELETE", DLQ + "/{task_id}")
async def discard_dead_letter(request: AnyRequest) -> ASGIResponse:
    """Take a dead letter out of the queue."""
    Query(request, _NONE)
    who = principal(request)
    call = verb_within("discard_dead_letter", who.tenant, task_id(request), None, who.actor)
    document = msgspec.json.decode(await services(request).database.run(call))
    return reply({"task_id": document["task_id"], "status": "DEAD", "discarded": True})


HANDLERS = [list_dead_letters, retry_dead_letter, retry_dead_letters, discard_dead_letter]

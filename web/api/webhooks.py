"""Webhooks."""

from litestar.response.base import ASGIResponse

from ...schema import webhook_calls
from ..body import Query, read_json, task_id
from ..cursors import read_cursor, write_cursor
from ..models_webhooks import WebhookRequest
from ..services import principal, services
from .routes import AnyRequest, handles, reply

_NONE: frozenset[str] = frozenset()


@handles("POST", "/api/v1/webhooks")
async def create_webhook(request: AnyRequest) -> ASGIResponse:
    """Make a webhook. Those of a bound key hear of its tenant."""
    who = principal(request)
    Query(request, _NONE)
    wish = await read_json(request, WebhookRequest)
    call = webhook_calls.create_webhook(
        wish.name,
        wish.url,
        wish.events,
        tenant=wish.tenant_id or who.tenant,
        task_type=wish.task_type,
        queue=wish.queue,
        secret=wish.secret,
        delivery_queue=wish.delivery_queue,
        enabled=wish.enabled,
        actor=who.actor,
        within=who.tenant,
    )
    return reply(await services(request).database.run(call), 201)


@handles("GET", "/api/v1/webhooks")
async def list_webhooks(request: AnyRequest) -> ASGIResponse:
    """List webhooks."""
    within = principal(request).tenant
    query = Query(request, frozenset({"limit", "cursor"}))
    limit = query.number("limit", 50, 1, 1000)
    cursor = read_cursor(query.text("cursor"), "webhooks", within)
    call = webhook_calls.list_webhooks(within, limit, cursor)
    found = await services(request).database.run(call)
    last = found[-1]["webhook_id"] if len(found) == limit else None
    return reply({"webhooks": found, "next_cursor": write_cursor(last, "webhooks", within)})


@handles("DELETE", "/api/v1/webhooks/{webhook_id}")
async def delete_webhook(request: AnyRequest) -> ASGIResponse:
    """End a webhook."""
    Query(request, _NONE)
    call = webhook_calls.delete_webhook(_id(request), principal(request).tenant)
    return reply(await services(request).database.run(call))


@handles("POST", "/api/v1/webhooks/{webhook_id}/enable")
async def enable_webhook(request: AnyRequest) -> ASGIResponse:
    """Switch a webhook on."""
    return await _switch(request, True)


@handles("POST", "/api/v1/webhooks/{webhook_id}/disable")
async def disable_webhook(request: AnyRequest) -> ASGIResponse:
    """Switch a webhook off."""
    return await _switch(request, False)


async def _switch(request: AnyRequest, enabled: bool) -> ASGIResponse:
    Query(request, _NONE)
    call = webhook_calls.enable_webhook(_id(request), enabled, principal(request).tenant)
    return reply(await services(request).database.run(call))


@handles("POST", "/api/v1/webhooks/{webhook_id}/test")
async def test_webhook(request: AnyRequest) -> ASGIResponse:
    """Send a test event."""
    Query(request, _NONE)
    call = webhook_calls.send_test(_id(request), principal(request).tenant)
    return reply({"task_id": await services(request).database.run(call)}, 202)


def _id(request: AnyRequest) -> str:
    return str(task_id(request, "webhook_id"))


HANDLERS = [
    create_webhook,
    list_webhooks,
    delete_webhook,
    enable_webhook,
    disable_webhook,
    test_webhook,
]

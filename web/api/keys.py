"""API keys."""

from litestar.response.base import ASGIResponse

from ...schema import key_calls
from ..body import Query, read_json
from ..cursors import read_cursor, write_cursor
from ..models import KeyRequest
from ..services import principal, services
from .routes import AnyRequest, handles, reply

_NONE: frozenset[str] = frozenset()


@handles("POST", "/api/v1/keys")
async def create_key(request: AnyRequest) -> ASGIResponse:
    """Make a key. A bound admin's keys are bound as it is."""
    who = principal(request)
    Query(request, _NONE)
    wish = await read_json(request, KeyRequest)
    drawn = key_calls.draw_key()
    call = key_calls.create_api_key(
        drawn,
        wish.name,
        wish.role,
        wish.tenant_id or who.tenant,
        wish.expires_at,
        who.actor,
        who.tenant,
    )
    made = await services(request).database.run(call)
    return reply({**made, "key": drawn.key}, 201)


@handles("GET", "/api/v1/keys")
async def list_keys(request: AnyRequest) -> ASGIResponse:
    """List keys."""
    who = principal(request)
    query = Query(request, frozenset({"limit", "cursor"}))
    limit = query.number("limit", 50, 1, 1000)
    cursor = read_cursor(query.text("cursor"), "keys", who.tenant)
    found = await services(request).database.run(key_calls.list_api_keys(who.tenant, limit, cursor))
    last = found[-1]["key_id"] if len(found) == limit else None
    return reply({"keys": found, "next_cursor": write_cursor(last, "keys", who.tenant)})


@handles("DELETE", "/api/v1/keys/{key_id}")
async def revoke_key(request: AnyRequest) -> ASGIResponse:
    """Revoke a key."""
    who = principal(request)
    Query(request, _NONE)
    key_id = str(request.path_params["key_id"])[:200]
    call = key_calls.revoke_api_key(key_id, who.actor, who.tenant)
    return reply(await services(request).database.run(call))


HANDLERS = [create_key, list_keys, revoke_key]

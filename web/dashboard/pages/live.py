"""Telling a page that something changed, so that it looks again."""

import time
from collections.abc import AsyncIterator
from typing import Any

from litestar.response.streaming import ASGIStreamingResponse

from ...events import Wanted
from ..shows import AnyRequest, principal, services, shows

PING = b"event: changed\ndata: {}\n\n"
# A session that has ended is noticed as soon.
LOOK_SECONDS = 5.0


@shows("/ui/events")
async def events(request: AnyRequest) -> Any:
    """Send a word whenever tasks of the visitor change state, twice a second at most."""
    told = await services(request).stream.open(Wanted(tenant=principal(request).tenant), None)
    headers = {
        "content-type": "text/event-stream; charset=utf-8",
        "cache-control": "no-store",
        "x-accel-buffering": "no",
    }
    return ASGIStreamingResponse(iterator=_pings(request, told), headers=headers)


async def _pings(request: AnyRequest, told: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    looked = time.monotonic()
    sessions = services(request).sessions
    yield b"retry: 3000\n\n"
    async for chunk in told:
        if b"event: task\n" in chunk or b"event: gap\n" in chunk:
            yield PING
        else:
            yield b": nothing new\n\n"
        if time.monotonic() - looked > LOOK_SECONDS:
            looked = time.monotonic()
            if await sessions.visitor(request.scope) is None:
                return


HANDLERS = [events]

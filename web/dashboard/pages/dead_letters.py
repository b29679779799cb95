"""Dead letters: by kind of error, and what is done to many at once, after a count."""

import asyncio
import time
from datetime import UTC, datetime
from typing import Any

from litestar.response.base import ASGIResponse

from ....schema import dashboard_calls as calls
from ....schema.web_calls import verb_within
from ...cursors import read_cursor, write_cursor
from ...problems import Problem
from ..render import page, redirect
from ..shows import AnyRequest, asked, form, instant, may, principal, read_id, services, shows

PAGE = 50
SECONDS = 2.0
FILTERS = ("task_type", "queue", "tenant_id", "fingerprint")
_VERBS = {"retry": "retried", "discard": "discarded"}


@shows("/ui/dead-letters")
async def list_dead(request: AnyRequest) -> ASGIResponse:
    """Show dead letters, grouped and one by one."""
    who, run = principal(request), services(request).database.run
    values = asked(request, (*FILTERS, "cursor", "done", "n", "left"))
    done, count, left = values.pop("done"), values.pop("n"), values.pop("left")
    given = values.pop("cursor")
    scope = ("ui-dead", who.tenant, values)
    cursor = read_cursor(given, *scope)
    grouping = {name: value for name, value in values.items() if name != "fingerprint"}
    kinds, letters = await asyncio.gather(
        run(calls.dead_letter_kinds(who.tenant, **grouping)),
        run(calls.dead_letters_page(who.tenant, PAGE, cursor, **values)),
    )
    last = letters[-1]["task_id"] if len(letters) == PAGE else None
    return page(
        request,
        "dead_letters.html",
        kinds=kinds,
        letters=letters,
        values=values,
        filtered=any(values.values()),
        first=cursor is None,
        next=write_cursor(last, *scope),
        done=_told(done, count, left),
        may_change=may(who, "operator"),
    )


def _told(done: str | None, count: str | None, left: str | None) -> str | None:
    if done not in _VERBS.values() or not count or not count.isdigit():
        return None
    more = " More are left: do it again for the rest." if left else ""
    return f"{int(count[:9])} dead letters were {done}.{more}"


@shows("/ui/dead-letters/{verb}", "operator")
async def confirm(request: AnyRequest) -> ASGIResponse:
    """Count first what would be retried or discarded."""
    verb, who = _verb(request), principal(request)
    values = asked(request, FILTERS)
    now = datetime.now(UTC)
    count = await services(request).database.run(
        calls.count_dead_letters(who.tenant, until=now, **values)
    )
    return page(
        request, "confirm_dead.html", verb=verb, values=values, until=now.isoformat(), count=count
    )


def _verb(request: AnyRequest) -> str:
    verb = str(request.path_params["verb"])
    if verb not in _VERBS:
        raise Problem("not_found", "There is no such page.")
    return verb


@shows("/ui/dead-letters/{verb}", "operator", method="POST")
async def settle(request: AnyRequest) -> ASGIResponse:
    """Do it to all of the filter that were counted, for a moment at most."""
    verb, who = _verb(request), principal(request)
    given: dict[str, Any] = await form(request)
    filters = {name: given.get(name) or None for name in FILTERS}
    reason = given.get("reason", "").strip()[:1000] or f"{verb} of many at the dashboard"
    until = instant(given, "until")
    total, count, end = 0, 1, time.monotonic() + SECONDS
    while count and time.monotonic() < end:
        call = calls.settle_dead_letters(
            verb, who.tenant, reason, who.actor, until=until, **filters
        )
        count = await services(request).database.run(call, 30)
        total += count
    left = "&left=1" if count else ""
    return redirect(f"/ui/dead-letters?done={_VERBS[verb]}&n={total}{left}")


@shows("/ui/dead-letters/one/{task_id}/{verb}", "operator", method="POST")
async def settle_one(request: AnyRequest) -> ASGIResponse:
    """Retry or discard one."""
    verb, who = _verb(request), principal(request)
    given = await form(request)
    reason = given.get("reason", "").strip()[:1000] or None
    call = verb_within(f"{verb}_dead_letter", who.tenant, read_id(request), reason, who.actor)
    await services(request).database.run(call)
    return redirect(f"/ui/dead-letters?done={_VERBS[verb]}&n=1")


HANDLERS = [list_dead, confirm, settle, settle_one]

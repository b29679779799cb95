"""Making handlers of pages, and reading what they are asked."""

from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime
from typing import Any
from urllib.parse import parse_qsl

from litestar import route
from litestar.handlers import HTTPRouteHandler
from litestar.response.base import ASGIResponse

from ..access import RANKS, Principal
from ..api.routes import AnyRequest
from ..body import task_id as read_id
from ..problems import Problem, invalid
from ..services import principal, services
from .sessions import Visitor, check_form
from .words import as_time

Page = Callable[[AnyRequest], Awaitable[Any]]
_LONGEST = 1000

__all__ = ["AnyRequest", "principal", "read_id", "services"]


def shows(
    path: str, role: str = "reader", *, fleet: bool = False, method: str = "GET"
) -> Callable[[Page], HTTPRouteHandler]:
    """Make a handler of a page.

    Args:
        path: With names in braces.
        role: Least role of the visitor's key; ``open`` needs none.
        fleet: It concerns all tenants: keys bound to one are refused.
        method: POST for what changes something.
    """

    def decorate(function: Page) -> HTTPRouteHandler:
        async def handler(request: AnyRequest) -> ASGIResponse:
            request.scope["state"]["route"] = path
            answer: ASGIResponse = await function(request)
            return answer

        handler.__name__ = f"ui_{method.lower()}_{function.__name__}"
        handler.__doc__ = function.__doc__
        return route(
            path.replace("}", ":str}"),
            http_method=method,  # type: ignore[arg-type]
            status_code=200,
            opt={"role": role, "fleet": fleet},
        )(handler)

    return decorate


def may(who: Principal, role: str) -> bool:
    """Whether somebody has at least a role."""
    return RANKS[who.role] >= RANKS[role]


def asked(request: AnyRequest, names: Iterable[str]) -> dict[str, str | None]:
    """Read filters from the query; empty ones are none, unknown ones mean nothing."""
    found: dict[str, str | None] = dict.fromkeys(names)
    raw = request.scope["query_string"].decode("latin-1")
    for name, value in parse_qsl(raw, errors="replace"):
        if name not in found or not value.strip():
            continue
        if len(value) > _LONGEST or "\0" in value:
            raise invalid(f"{name} is too long or holds a NUL character.", name)
        found[name] = value.strip()
    return found


def instant(values: dict[str, str | None], name: str) -> datetime | None:
    """Read a time.

    Raises:
        Problem: It is none.
    """
    text = values.get(name)
    if not text:
        return None
    at = as_time(text.replace(" ", "T", 1) if "T" not in text else text)
    if at is None or datetime.fromisoformat(text).tzinfo is None:
        raise invalid(
            f"{name} is no instant.",
            name,
            text,
            "Give it with its offset, such as 2026-04-04T09:00:00Z.",
        )
    return at


async def form(request: AnyRequest) -> dict[str, str]:
    """Read a form that we showed.

    Raises:
        Problem: It is none, or none of ours.
    """
    values = await plain_form(request)
    visitor: Visitor = request.scope["state"]["visitor"]
    check_form(request.scope, visitor, values.pop("csrf", ""))
    return values


async def plain_form(request: AnyRequest) -> dict[str, str]:
    """Read a form without asking for its proof."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise Problem("unsupported_media_type", "This is no form.", "content-type", kind[:200])
    body = (await request.body()).decode("ascii", "replace")
    return dict(parse_qsl(body, keep_blank_values=True, errors="replace"))


def local(path: str | None) -> str:
    """Give a place of the dashboard to go back to, its front page for anything else."""
    path = path or ""
    ours = path == "/ui" or path.startswith(("/ui/", "/ui?"))
    if ours and "\\" not in path and "//" not in path.partition("?")[0] and path.isprintable():
        return path
    return "/ui"


def static(body: bytes, media_type: str) -> ASGIResponse:
    """Answer with a file of ours, which its address names by content."""
    headers = {"content-type": media_type, "cache-control": "public, max-age=31536000, immutable"}
    return ASGIResponse(body=body, headers=headers)

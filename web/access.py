"""Who may come in: API keys, roles, and the few open routes.

Closed by default, twice: the gate stands before routing and lets nobody pass to a
path that is not in OPEN without a valid key, and the guard refuses a handler that
names no role. Paths are compared whole: nothing in a name can open anything.
"""

import asyncio
import time
from collections import OrderedDict
from typing import Any

import msgspec
from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler

from ..schema.key_calls import Known, authenticate_api_key, hash_key
from .database import Database
from .problems import Problem

# The only routes without a key, as (method, whole path).
OPEN = frozenset(
    {
        ("GET", "/healthz"),
        ("GET", "/readyz"),
        ("GET", "/openapi.json"),
        ("GET", "/docs"),
        ("GET", "/docs/page.js"),
        ("GET", "/docs/page.css"),
    }
)

RANKS = {"reader": 1, "producer": 2, "operator": 3, "admin": 4}
# How long a revoked key may still open something, and an unknown one is not looked up again.
KNOWN_SECONDS = 2.0
MOST_KEYS = 10_000
_LONGEST_KEY = 200


class Principal(msgspec.Struct, frozen=True):
    """Who makes a request.

    Attributes:
        tenant: The tenant that the key is bound to, None for none.
    """

    key_id: str
    role: str
    tenant: str | None

    @property
    def actor(self) -> str:
        """The name in the history of tasks."""
        return f"api:{self.key_id}"


class Keys:
    """Looks keys up, and remembers the answer for a moment."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: OrderedDict[bytes, tuple[float, Known | None]] = OrderedDict()
        self._asking: dict[bytes, asyncio.Future[Known | None]] = {}

    async def principal(self, headers: list[tuple[bytes, bytes]]) -> Principal:
        """Give who makes the request.

        Raises:
            Problem: No key, or none that is valid.
            Unavailable: The database cannot be asked.
        """
        key = _key(headers)
        known = await self._lookup(hash_key(key))
        now = time.time()
        if known is None:
            raise _unauthenticated("This API key is not known.")
        expired = known.expires_at is not None and known.expires_at.timestamp() <= now
        if known.problem or expired:
            raise _unauthenticated(f"This API key has been {known.problem or 'expired'}.")
        return Principal(known.key_id, known.role, known.tenant_id)

    async def _lookup(self, digest: bytes) -> Known | None:
        seen = self._known.get(digest)
        if seen is not None and time.monotonic() - seen[0] < KNOWN_SECONDS:
            return seen[1]
        future = self._asking.get(digest)
        if future is None:
            future = asyncio.ensure_future(self._ask(digest))
            self._asking[digest] = future
            future.add_done_callback(lambda _: self._asking.pop(digest, None))
        return await asyncio.shield(future)

    async def _ask(self, digest: bytes) -> Known | None:
        known = await self._database.run(authenticate_api_key(digest))
        self._known[digest] = (time.monotonic(), known)
        self._known.move_to_end(digest)
        if len(self._known) > MOST_KEYS:
            self._known.popitem(last=False)
        return known


def _key(headers: list[tuple[bytes, bytes]]) -> str:
    found = [value for name, value in headers if name == b"authorization"]
    other = [value for name, value in headers if name == b"x-api-key"]
    if len(found) + len(other) != 1:
        raise _unauthenticated(
            "The request has no API key." if not found + other else "The request has several keys."
        )
    text = (found or other)[0].decode("latin-1").strip()
    if found:
        scheme, _, text = text.partition(" ")
        if scheme.lower() != "bearer":
            raise _unauthenticated(f"The scheme {scheme[:20]!r} is not understood.")
    text = text.strip()
    if not text or len(text) > _LONGEST_KEY:
        raise _unauthenticated("This is no API key.")
    return text


def _unauthenticated(detail: str) -> Problem:
    return Problem(
        "unauthenticated",
        detail,
        remedy="Send the header `Authorization: Bearer sk_...`; `skiplane keys create` makes keys.",
        headers={"www-authenticate": 'Bearer realm="skiplane"'},
    )


# Async although it awaits nothing: the framework runs a plain function in a thread.
async def guard(
    connection: "ASGIConnection[Any, Any, Any, Any]", handler: BaseRouteHandler
) -> None:
    """Refuse whoever has not the role that the handler names; one that names none is closed."""
    needed = handler.opt.get("role")
    if needed == "open":
        return
    principal: Principal | None = connection.scope["state"].get("principal")
    if principal is None or needed not in RANKS:
        raise Problem("not_allowed", "This route is closed.")
    if RANKS[principal.role] < RANKS[needed]:
        raise Problem(
            "not_allowed",
            f"This needs the role {needed}; the key has the role {principal.role}.",
            "role",
            principal.role,
            "Use a key with that role.",
        )
    if handler.opt.get("fleet") and principal.tenant is not None:
        raise Problem(
            "not_allowed",
            "This concerns all tenants, and the key is bound to one.",
            "tenant_id",
            principal.tenant,
            "Use a key that is bound to no tenant.",
        )

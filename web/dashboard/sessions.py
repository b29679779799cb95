"""Who looks at the dashboard: sessions in a cookie, and proof that a form is ours.

A session is a random token whose hash lies in the database beside the API key that
opened it; it has the rights that the key has now, and ends with it. The proof against
forged requests is a hash of the token, which no other site can read; what a browser
tells of a request's origin is looked at as well.
"""

import hashlib
import hmac
import time
from collections import OrderedDict
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import urlsplit

import msgspec

from ...schema.dashboard_calls import Opened, authenticate_session, close_session, open_session
from ...schema.key_calls import Known, hash_key
from ..access import KNOWN_SECONDS, MOST_KEYS, Principal
from ..database import Database
from ..problems import Problem

PLAIN, SECURE = "skiplane", "__Host-skiplane"
_LONGEST = 200


class Visitor(msgspec.Struct, frozen=True):
    """Who is signed in, and what their forms must bring along."""

    principal: Principal
    csrf: str


class Sessions:
    """Looks sessions up, and remembers the answer for a moment."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: OrderedDict[bytes, tuple[float, Known | None]] = OrderedDict()

    async def visitor(self, scope: Any) -> Visitor | None:
        """Give who makes the request, None when nobody is signed in.

        Raises:
            Unavailable: The database cannot be asked.
        """
        token = _token(scope)
        if token is None:
            return None
        known = await self._lookup(hash_key(token))
        if known is None or known.problem:
            return None
        if known.expires_at is not None and known.expires_at.timestamp() <= time.time():
            return None
        return Visitor(Principal(known.key_id, known.role, known.tenant_id), _csrf(token))

    async def open(self, key: str) -> Opened | None:
        """Sign in with an API key; None when it opens nothing."""
        return await self._database.run(open_session(key))

    async def close(self, scope: Any) -> None:
        """Sign out."""
        token = _token(scope)
        if token is not None:
            digest = hash_key(token)
            self._known.pop(digest, None)
            await self._database.run(close_session(digest))

    async def _lookup(self, digest: bytes) -> Known | None:
        seen = self._known.get(digest)
        if seen is not None and time.monotonic() - seen[0] < KNOWN_SECONDS:
            return seen[1]
        known = await self._database.run(authenticate_session(digest))
        self._known[digest] = (time.monotonic(), known)
        self._known.move_to_end(digest)
        if len(self._known) > MOST_KEYS:
            self._known.popitem(last=False)
        return known


def _csrf(token: str) -> str:
    return hmac.new(token.encode(), b"csrf", hashlib.sha256).hexdigest()


def _secure(scope: Any) -> bool:
    # A proxy in front says so. Whoever pretends it harms their own cookie only.
    told = dict(scope["headers"]).get(b"x-forwarded-proto", b"")
    return bool(scope.get("scheme") == "https" or told.split(b",")[0].strip() == b"https")


def cookies(scope: Any) -> dict[str, str]:
    """Read the cookies of a request."""
    found: dict[str, str] = {}
    for name, value in scope["headers"]:
        if name == b"cookie":
            try:
                jar = SimpleCookie(value.decode("latin-1"))
            except CookieError:
                continue
            found.update({key: morsel.value for key, morsel in jar.items()})
    return found


def _token(scope: Any) -> str | None:
    token = cookies(scope).get(SECURE if _secure(scope) else PLAIN)
    return token if token and len(token) <= _LONGEST else None


def session_cookie(scope: Any, opened: Opened) -> str:
    """Give the Set-Cookie header that signs a browser in."""
    left = max(1, int(opened.expires_at.timestamp() - time.time()))
    return _cookie(scope, opened.token, left)


def no_cookie(scope: Any) -> str:
    """Give the Set-Cookie header that signs a browser out."""
    return _cookie(scope, "", 0)


def _cookie(scope: Any, value: str, seconds: int) -> str:
    name, secure = (SECURE, "; Secure") if _secure(scope) else (PLAIN, "")
    return f"{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}"


def check_origin(scope: Any) -> None:
    """Refuse a change that another site asks for.

    Raises:
        Problem: The browser says that the request comes from elsewhere.
    """
    headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
    site = headers.get(b"sec-fetch-site", "same-origin")
    origin = headers.get(b"origin")
    host = headers.get(b"host", "")
    if site != "same-origin" or (origin is not None and urlsplit(origin).netloc != host):
        raise Problem("not_allowed", "The request comes from another site.")


def check_form(scope: Any, visitor: Visitor, given: str) -> None:
    """Refuse a form that was not shown by us to this very visitor.

    Raises:
        Problem: Its proof is missing or another session's.
    """
    check_origin(scope)
    if not hmac.compare_digest(given.encode(), visitor.csrf.encode()):
        raise Problem(
            "not_allowed",
            "The form is out of date.",
            "csrf",
            remedy="Go back, reload the page and send the form again.",
        )

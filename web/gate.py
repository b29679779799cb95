"""What every request passes before it is routed: an id, a size limit, a key, a measurement.

Plain ASGI, outside the framework, so that nothing that a handler or a route says
can weaken it.
"""

import itertools
import re
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any
from urllib.parse import unquote

import structlog

from .access import OPEN, Keys
from .dashboard import door
from .metrics import Metrics
from .problems import MEDIA_TYPE, Problem, problem_of

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Any, Any, Any], Awaitable[None]]

log = structlog.get_logger(__name__)

_PREFIX = uuid.uuid4().hex[:20]
_NUMBERS = itertools.count(1)
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._:/+=-]{1,100}")
# Beside what handlers set; pages of ours need no more than this.
_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';"
        b" frame-ancestors 'none'; base-uri 'none'",
    ),
]


class Gate:
    """Wraps the application."""

    def __init__(
        self,
        app: App,
        keys: Keys,
        metrics: Metrics,
        limits: dict[str, int],
        pages: door.Door,
    ) -> None:
        """Prepare it.

        Args:
            app: What is behind it.
            keys: Who may pass.
            metrics: Where requests are counted.
            limits: Largest body by whole path; the empty path is for all others.
            pages: Who may see the dashboard.
        """
        self._app = app
        self._keys = keys
        self._metrics = metrics
        self._limits = limits
        self._pages = pages

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            # There are no WebSockets here.
            await send({"type": "websocket.close", "code": 1008})
            return
        begun = time.perf_counter()
        headers: list[tuple[bytes, bytes]] = scope["headers"]
        request_id = _request_id(headers)
        answer = _Answer(send, request_id)
        state = scope.setdefault("state", {})
        state["request_id"] = request_id
        if b"%2" in scope.get("raw_path", b""):
            _keep_slashes(scope)
        try:
            most = self._limits.get(scope["path"], self._limits[""])
            _check_length(headers, most)
            if door.owns(scope["path"]):
                await self._pages.admit(scope)
            elif (scope["method"], scope["path"]) not in OPEN:
                state["principal"] = await self._keys.principal(headers)
            await self._app(scope, _Counted(receive, most), answer)
        except Exception as error:
            if answer.status:
                raise
            if door.owns(scope["path"]):
                await answer.give(*door.refusal(problem_of(error), scope))
            else:
                await answer.refuse(problem_of(error))
        finally:
            self._metrics.count(
                scope["method"], state.get("route"), answer.status, time.perf_counter() - begun
            )


class _Answer:
    """Adds our headers to the answer and remembers its status."""

    def __init__(self, send: Send, request_id: str) -> None:
        self._send = send
        self._request_id = request_id
        self.status = 0

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            given = message.get("headers", [])
            present = {name for name, _ in given}
            message["headers"] = [
                *given,
                *(pair for pair in _HEADERS if pair[0] not in present),
                (b"x-request-id", self._request_id.encode()),
            ]
        await self._send(message)

    async def refuse(self, problem: Problem) -> None:
        headers = {"content-type": MEDIA_TYPE, **problem.headers}
        await self.give(problem.status, headers, problem.body(self._request_id))

    async def give(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
        pairs.append((b"content-length", str(len(body)).encode()))
        await self({"type": "http.response.start", "status": status, "headers": pairs})
        await self({"type": "http.response.body", "body": body})


class _Counted:
    """Stops a body that is larger than it said, or did not say."""

    def __init__(self, receive: Receive, most: int) -> None:
        self._receive = receive
        self._most = most
        self._size = 0

    async def __call__(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request":
            self._size += len(message.get("body", b""))
            if self._size > self._most:
                raise _too_large(self._most)
        return message


def _keep_slashes(scope: Scope) -> None:
    """Leave a slash that is part of a name encoded, so that it does not part the path."""
    raw: bytes = scope["raw_path"]
    if raw.startswith(b"/api/"):
        parts = unquote(raw.replace(b"%2f", b"%2F").replace(b"%2F", b"%252F").decode("latin-1"))
        scope["path"] = parts


def _check_length(headers: list[tuple[bytes, bytes]], most: int) -> None:
    for name, value in headers:
        if name == b"content-length" and value.isdigit() and int(value[:20]) > most:
            raise _too_large(most)


def _too_large(most: int) -> Problem:
    return Problem(
        "too_large",
        f"The body is larger than {most} bytes.",
        "body",
        remedy="Send several smaller requests, or store large data elsewhere and send its address.",
        headers={"connection": "close"},
    )


def _request_id(headers: list[tuple[bytes, bytes]]) -> str:
    for name, value in headers:
        if name == b"x-request-id" and _REQUEST_ID.fullmatch(value):
            return value.decode()
    return f"{_PREFIX}-{next(_NUMBERS):x}"

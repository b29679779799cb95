"""The HTTP client of the built-in tasks.

The address that is really connected to decides, not a name's earlier look-up: a
name that answers differently the second time gains nothing. No proxy of the
environment is used, no cookie kept, nothing decompressed.
"""

import asyncio
import socket
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple
from urllib.parse import urljoin, urlsplit

import httpcore2

from ...schema.errors import PermanentError, Retry
from .networks import Network, is_allowed

_CONNECTIONS = 100
_IDLE_SECONDS = 15.0
_REDIRECTS = (301, 302, 303, 307, 308)
_SECRET_HEADERS = (b"authorization", b"cookie", b"proxy-authorization")
_NETWORK_ERRORS = (
    httpcore2.NetworkError,
    httpcore2.TimeoutException,
    httpcore2.RemoteProtocolError,
)

Headers = list[tuple[bytes, bytes]]


class AddressRefused(PermanentError):
    """The URL leads to an address that the operator has not allowed."""


class Request(NamedTuple):
    """What to send."""

    method: str
    url: str
    headers: Headers
    body: bytes | None = None


class Reply(NamedTuple):
    """What came back.

    Attributes:
        status: The status code.
        headers: In the order in which they came.
        body: At most as much as was asked for.
        truncated: Whether there was more.
        url: The last URL, after redirects.
    """

    status: int
    headers: Headers
    body: bytes
    truncated: bool
    url: str

    def header(self, name: bytes) -> str | None:
        """Give a header by its lower-case name."""
        for key, value in self.headers:
            if key.lower() == name:
                return value.decode("latin-1")
        return None


class _Guarded(httpcore2.AsyncNetworkBackend):
    """Resolves names, and connects to the addresses that are allowed, and to no other."""

    def __init__(self, allowed: Sequence[Network]) -> None:
        self._allowed = allowed
        self._plain = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109  the protocol's own
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        addresses = await self._resolve(host, port)
        allowed = [address for address in addresses if is_allowed(address, self._allowed)]
        if not allowed:
            raise AddressRefused(
                f"{host!r} is {', '.join(addresses)}, which is not in a public network. An operator"
                " can allow it with --allow-networks."
            )
        error: Exception | None = None
        for address in allowed:
            try:
                return await self._plain.connect_tcp(
                    address, port, timeout, local_address, socket_options
                )
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as failed:
                error = failed
        assert error is not None
        raise error

    async def _resolve(self, host: str, port: int) -> list[str]:
        loop = asyncio.get_running_loop()
        try:
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except socket.gaierror as failed:
            raise httpcore2.ConnectError(f"{host!r} cannot be resolved: {failed}") from failed
        return list(dict.fromkeys(str(entry[4][0]) for entry in found))


class Client:
    """Sends requests, on one event loop."""

    def __init__(self, allowed: Sequence[Network] = ()) -> None:
        """Prepare; nothing is opened before the first request.

        Args:
            allowed: Networks besides the public ones.
        """
        self._pool = httpcore2.AsyncConnectionPool(
            max_connections=_CONNECTIONS,
            max_keepalive_connections=_CONNECTIONS // 5,
            keepalive_expiry=_IDLE_SECONDS,
            network_backend=_Guarded(allowed),
        )

    async def send(
        self, request: Request, seconds: float, most_bytes: int, redirects: int = 0
    ) -> Reply:
        """Send a request and give the reply, whatever its status.

        Args:
            request: What to send.
            seconds: For everything together, redirects included.
            most_bytes: Of the body; the rest is not read.
            redirects: How many to follow.

        Raises:
            Retry: The network failed, or the time was up.
            PermanentError: The request cannot be sent, or may not.
        """
        try:
            async with asyncio.timeout(seconds):
                reply = await self._once(request, seconds, most_bytes)
                while redirects > 0 and (further := _redirected(request, reply)) is not None:
                    request, redirects = further, redirects - 1
                    reply = await self._once(request, seconds, most_bytes)
                return reply
        except TimeoutError as error:
            raise Retry(reason=f"{request.url} gave no answer within {seconds:g} s.") from error
        except httpcore2.LocalProtocolError as error:
            raise PermanentError(f"The request cannot be sent: {error}.") from error
        except _NETWORK_ERRORS as error:
            told = str(error) or type(error).__name__
            raise Retry(reason=f"{request.url} cannot be reached: {told}.") from error

    async def _once(self, request: Request, seconds: float, most_bytes: int) -> Reply:
        limits = {"connect": seconds, "read": seconds, "write": seconds, "pool": seconds}
        async with self._pool.stream(
            request.method,
            check_url(request.url),
            headers=request.headers,
            content=request.body,
            extensions={"timeout": limits},
        ) as response:
            body = bytearray()
            truncated = False
            async for chunk in response.aiter_stream():
                body += chunk
                if len(body) > most_bytes:
                    truncated = True
                    break
            return Reply(
                response.status, response.headers, bytes(body[:most_bytes]), truncated, request.url
            )

    async def close(self) -> None:
        """Close all connections."""
        await self._pool.aclose()


def check_url(url: str) -> str:
    """Give a URL as it is sent.

    Raises:
        PermanentError: It is none of http or https, or holds a password.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise PermanentError(f"url = {url!r} cannot be read: {error}. Correct it.") from error
    if parts.scheme not in ("http", "https") or not host:
        raise PermanentError(f"url = {url!r} is no web address. Give an http or https URL.")
    if parts.username is not None or parts.password is not None:
        raise PermanentError(
            "url holds a user name or password. Put it into the Authorization header."
        )
    try:
        name = host if ":" in host else host.encode("idna").decode()
    except UnicodeError as error:
        raise PermanentError(f"url = {url!r} has a host that is no name: {error}.") from error
    place = (f"[{name}]" if ":" in name else name) + (f":{port}" if port is not None else "")
    path = _escaped(parts.path or "/") + (f"?{_escaped(parts.query)}" if parts.query else "")
    return f"{parts.scheme}://{place}{path}"


def _escaped(text: str) -> str:
    """Escape what may not stand in a request line, and leave what is escaped."""
    return "".join(
        c if "!" <= c <= "~" else "".join(f"%{byte:02X}" for byte in c.encode()) for c in text
    )


def _redirected(request: Request, reply: Reply) -> Request | None:
    """Give the request that a redirect asks for, None when it is none (RFC 9110, 15.4)."""
    target = reply.header(b"location")
    if reply.status not in _REDIRECTS or not target:
        return None
    url = urljoin(request.url, target)
    method, body, headers = request.method, request.body, request.headers
    if reply.status == 303 or (reply.status in (301, 302) and method == "POST"):
        method = "HEAD" if method == "HEAD" else "GET"
        body = None
        headers = [(key, value) for key, value in headers if not key.startswith(b"content-")]
    before, after = urlsplit(check_url(request.url)), urlsplit(check_url(url))
    if (before.scheme, before.netloc) != (after.scheme, after.netloc):
        headers = [(key, value) for key, value in headers if key not in _SECRET_HEADERS]
    # The name in it is that of the first host.
    headers = [(key, value) for key, value in headers if key != b"host"]
    return Request(method, url, headers, body)

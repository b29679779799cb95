"""``skiplane.http``: call a URL."""

import contextlib
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from ...schema.errors import PermanentError, Retry
from ..context import Context
from .client import Client, Headers, Reply, Request

MOST_BYTES = 256 * 1024
REDIRECTS = 5
LONGEST_RETRY_AFTER = 86_400.0
_RETRIED = (408, 429)
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")
_OURS = ("host", "content-length", "transfer-encoding", "connection", "te", "trailer", "upgrade")

Method = Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
Seconds = Annotated[float, Meta(gt=0, le=3600)]
Status = Annotated[int, Meta(ge=100, le=599)]


class Http:
    """Calls URLs for tasks of one worker."""

    def __init__(self, client: Callable[[], Client]) -> None:
        self._client = client

    async def run(
        self,
        ctx: Context,
        url: str,
        method: Method = "GET",
        headers: dict[str, str] = {},  # noqa: B006  msgspec copies it
        body: str | None = None,
        json: Any = msgspec.UNSET,
        expected_statuses: list[Status] = [],  # noqa: B006
        follow_redirects: bool = True,
        timeout_seconds: Seconds = 30.0,
    ) -> dict[str, Any]:
        """Call a URL and give status, headers and body of the reply.

        Args:
            ctx: The task.
            url: An http or https URL.
            method: The method.
            headers: To send along. ``Idempotency-Key`` is the task's id unless given.
            body: Text to send.
            json: A JSON value to send instead.
            expected_statuses: Which statuses are a success; 200 to 299 if empty.
            follow_redirects: Whether to follow up to five redirects.
            timeout_seconds: For the whole call.

        Raises:
            Retry: 408, 429, 5xx, or the network failed.
            PermanentError: Another status, or a call that may not be made.
        """
        given = json is not msgspec.UNSET
        if given and body is not None:
            raise PermanentError("body and json are both given. Give only one of the two.")
        sent = check_headers(headers)
        defaults = {"user-agent": "skiplane", "idempotency-key": ctx.task_id}
        content = None if body is None else body.encode()
        if given:
            content = msgspec.json.encode(json)
            defaults["content-type"] = "application/json"
        elif body is not None:
            defaults["content-type"] = "text/plain; charset=utf-8"
        names = {name for name, _ in sent}
        sent += [(k.encode(), v.encode()) for k, v in defaults.items() if k.encode() not in names]
        request = Request(method, url, sent, content)
        redirects = REDIRECTS if follow_redirects else 0
        reply = await self._client().send(request, timeout_seconds, MOST_BYTES, redirects)
        judge(reply, expected_statuses)
        return _result(reply)


def check_headers(headers: dict[str, str]) -> Headers:
    """Give headers as they are sent, with lower-case names.

    Raises:
        PermanentError: A name or value cannot be a header, or is not for callers to set.
    """
    sent: Headers = []
    for name, value in headers.items():
        lower = name.lower()
        if not _TOKEN.match(name) or lower in _OURS:
            raise PermanentError(f"headers: {name!r} cannot be set. Leave it out.")
        if not value.isprintable() or not value.isascii():
            raise PermanentError(f"headers: {name} has a value that cannot be sent.")
        sent.append((lower.encode(), value.strip().encode()))
    return sent


def judge(reply: Reply, expected: Sequence[int] = (), *, retried: Sequence[int] = ()) -> None:
    """Raise unless a reply's status is a success.

    Args:
        reply: What came back.
        expected: The successes; 200 to 299 if empty.
        retried: Statuses to retry besides 408, 429 and 5xx.

    Raises:
        Retry: Another try may help; not before the reply's Retry-After.
        PermanentError: Another try will not.
    """
    status = reply.status
    if status in expected or (not expected and 200 <= status <= 299):
        return
    beginning = reply.body[:500].decode("utf-8", "replace")
    told = f"{reply.url} answered {status}: {beginning}"
    if status in _RETRIED or status >= 500 or status in retried:
        raise Retry(retry_after(reply), told)
    raise PermanentError(told)


def retry_after(reply: Reply) -> float | None:
    """Give the seconds of Retry-After (RFC 9110, 10.2.3), at most a day; None without one."""
    text = (reply.header(b"retry-after") or "").strip()
    if text.isascii() and text.isdigit():
        return min(float(text[:10]), LONGEST_RETRY_AFTER)
    until = _date(text)
    if until is None:
        return None
    # By the sender's own clock, if it tells: the two may differ.
    now = _date(reply.header(b"date") or "") or datetime.now(UTC)
    return min(max(0.0, (until - now).total_seconds()), LONGEST_RETRY_AFTER)


def _date(text: str) -> datetime | None:
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment


def _result(reply: Reply) -> dict[str, Any]:
    body: Any = reply.body.decode("utf-8", "replace").replace("\x00", "\ufffd")
    kind = (reply.header(b"content-type") or "").partition(";")[0].strip().lower()
    # What PostgreSQL cannot hold as JSON stays the text that it is.
    whole = not reply.truncated and b"\\u0000" not in reply.body
    if whole and (kind == "application/json" or kind.endswith("+json")):
        with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            body = msgspec.json.decode(reply.body) if reply.body else None
    headers = {
        key.decode("latin-1").lower(): value.decode("latin-1") for key, value in reply.headers
    }
    return {
        "status": reply.status,
        "url": reply.url,
        "headers": headers,
        "body": body,
        "truncated": reply.truncated,
    }

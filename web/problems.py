"""Errors as problem+json (RFC 9457), mapped once from the engine's refusals.

``code`` is stable and for programs; ``field``, ``value`` and ``remedy`` are for
whoever has to mend the request.
"""

import re
import traceback
from collections.abc import Mapping
from typing import Any

import msgspec
import psycopg
import structlog

from ..schema.errors import SkiplaneError, from_driver

log = structlog.get_logger(__name__)

MEDIA_TYPE = "application/problem+json"

# code: (status, title). The whole list; OpenAPI and docs/api.md are checked against it.
CODES: dict[str, tuple[int, str]] = {
    "malformed_json": (400, "The body is not JSON"),
    "bad_request": (400, "The request cannot be read"),
    "unauthenticated": (401, "A valid API key is needed"),
    "not_allowed": (403, "This key may not do that"),
    "not_found": (404, "There is no such thing"),
    "method_not_allowed": (405, "This path does not take that method"),
    "conflict": (409, "The state does not allow this"),
    "idempotency_conflict": (409, "The idempotency key was used for another task"),
    "in_progress": (409, "Another submission with this key is under way"),
    "lease_lost": (409, "The attempt does not hold its task any more"),
    "stale_version": (412, "The task was edited in between"),
    "too_large": (413, "The request is too large"),
    "unsupported_media_type": (415, "The body must be JSON"),
    "invalid_input": (422, "A value cannot be accepted"),
    "precondition_required": (428, "The version must be named"),
    "rate_limited": (429, "The tenant submits too fast"),
    "internal_error": (500, "Something went wrong in the server"),
    "queue_full": (503, "The queue is full"),
    "unavailable": (503, "The database cannot be reached"),
    "not_installed": (503, "The database has no Skiplane of this version"),
}
RETRY_SECONDS = 1
_PAYLOADS = re.compile(r"^payloads\[\d+\]")


class ProblemDocument(msgspec.Struct, kw_only=True, omit_defaults=True):
    """An error. ``code`` is stable; the texts are for people."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    field: str | None = None
    value: str | None = None
    remedy: str | None = None
    request_id: str | None = None


class Problem(Exception):
    """A refusal of the web layer itself, or one of the engine's in this form."""

    def __init__(
        self,
        code: str,
        detail: str,
        field: str | None = None,
        value: str | None = None,
        remedy: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.code = code
        self.status, self.title = CODES[code]
        self.detail = detail
        self.field = field
        self.value = value
        self.remedy = remedy
        self.headers = dict(headers or {})
        if self.status == 503:
            self.headers.setdefault("retry-after", str(RETRY_SECONDS))

    def body(self, request_id: str | None = None) -> bytes:
        """Give the JSON document."""
        return msgspec.json.encode(
            ProblemDocument(
                type=f"urn:skiplane:problem:{self.code}",
                title=self.title,
                status=self.status,
                code=self.code,
                detail=self.detail,
                field=self.field,
                value=self.value,
                remedy=self.remedy,
                request_id=request_id,
            )
        )


def problem_of(error: BaseException) -> Problem:
    """Give the problem that an error stands for; what is unknown is logged and told as ours."""
    if isinstance(error, Problem):
        return error
    known = error if isinstance(error, SkiplaneError) else from_driver(error)
    if known is not None and known.code in CODES:
        # The engine counts the payloads of what was gathered; the caller has sent one.
        field = _PAYLOADS.sub("payload", known.field) if known.field else None
        return Problem(known.code, _sentence(known.message), field, known.value, known.remedy)
    state = getattr(error, "sqlstate", None)
    if isinstance(error, psycopg.Error) and state == "55P03":
        return Problem(
            "in_progress",
            "Another transaction that uses the same idempotency key is still open.",
            "idempotency_key",
            remedy="Repeat the request; it gives the task of whoever commits.",
            headers={"retry-after": str(RETRY_SECONDS)},
        )
    if isinstance(error, psycopg.Error) and state in ("40001", "40P01", "57014"):
        return Problem(
            "unavailable",
            "The database is too busy with conflicting work.",
            remedy="Repeat the request.",
        )
    # As text: a traceback with its variables would hold keys and payloads.
    log.error("a request failed", trace="".join(traceback.format_exception(error)))
    return Problem(
        "internal_error",
        "The request failed for a reason that is not the caller's.",
        remedy="Look for the request_id in the server's log.",
    )


def _sentence(text: str) -> str:
    # The engine writes in the style of PostgreSQL: lower case, no full stop.
    return text if text.endswith((".", "?", "!")) else f"{text}."


def invalid(detail: str, field: str, value: Any = None, remedy: str | None = None) -> Problem:
    """Give the problem of a bad value."""
    shown = None if value is None else str(value)[:200]
    return Problem("invalid_input", detail, field, shown, remedy)

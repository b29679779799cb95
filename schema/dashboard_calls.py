"""The calls of the dashboard: sessions, rollups, dead letters. ``within`` as in web_calls."""

import secrets
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from .call import Call, Rows, call
from .encode import decode_json
from .key_calls import Known, hash_key

SESSION_SECONDS = 43_200.0


class Opened(NamedTuple):
    """A session: what the browser keeps, and when it ends."""

    token: str
    expires_at: datetime


def _documents(rows: Rows) -> list[dict[str, Any]]:
    return [row[0] if isinstance(row[0], dict) else decode_json(row[0]) for row in rows]


def _document(rows: Rows) -> dict[str, Any]:
    return _documents(rows)[0]


def open_session(key: str) -> Call[Opened | None]:
    """Sign a browser in; None when the key opens nothing."""
    token = secrets.token_urlsafe(32)
    return Call(
        "select skiplane.open_web_session("
        "cast(%s as bytea), cast(%s as bytea), cast(%s as float8))",
        (hash_key(token), hash_key(key), SESSION_SECONDS),
        lambda rows: None if rows[0][0] is None else Opened(token, rows[0][0]),
    )


def authenticate_session(digest: bytes) -> Call[Known | None]:
    """Read who comes with a session of that hash, None when nobody."""
    return Call(
        "select key_id, role, tenant_id, expires_at, problem"
        " from skiplane.authenticate_web_session(cast(%s as bytea))",
        (digest,),
        lambda rows: Known(*rows[0]) if rows else None,
        repeatable=True,
    )


def close_session(digest: bytes) -> Call[None]:
    """Sign a browser out."""
    return Call(
        "select skiplane.close_web_session(cast(%s as bytea))",
        (digest,),
        lambda _: None,
        repeatable=True,
    )


def _filters(filters: Mapping[str, Any]) -> dict[str, tuple[str, Any]]:
    casts = {"until": "timestamptz"}
    return {name: (casts.get(name, "text"), value) for name, value in filters.items()}


def dead_letter_kinds(within: str | None, **filters: str | None) -> Call[dict[str, Any]]:
    """Read the newest dead letters of a filter, grouped by kind of error."""
    return call(
        "dead_letter_kinds",
        "dead_letter_kinds::text",
        _document,
        {"within": ("text", within), **_filters(filters)},
        repeatable=True,
    )


def count_dead_letters(within: str | None, **filters: Any) -> Call[int]:
    """Count the dead letters of a filter, 10,001 when there are more than 10,000."""
    return call(
        "count_dead_letters",
        "count_dead_letters",
        lambda rows: int(rows[0][0]),
        {"within": ("text", within), **_filters(filters)},
        repeatable=True,
    )


def dead_letters_page(
    within: str | None, limit: int, cursor: str | None, **filters: str | None
) -> Call[list[dict[str, Any]]]:
    """Read one page of dead letters, the newest task first."""
    return call(
        "dead_letters_page",
        "dead_letters_page::text",
        _documents,
        {
            "within": ("text", within),
            **_filters(filters),
            "limit": ("int", limit),
            "cursor": ("text", cursor),
        },
        repeatable=True,
    )


def settle_dead_letters(
    verb: str, within: str | None, reason: str | None, actor: str, **filters: Any
) -> Call[int]:
    """Retry or discard some dead letters of a filter; 0 when none is left."""
    return call(
        "settle_dead_letters",
        "settle_dead_letters",
        lambda rows: int(rows[0][0]),
        {
            "verb": ("text", verb),
            "within": ("text", within),
            **_filters(filters),
            "reason": ("text", reason),
            "actor": ("text", actor),
        },
    )


def recent_totals(seconds: int) -> Call[list[dict[str, Any]]]:
    """Read what ended in each ten seconds, over everything."""
    return call(
        "recent_totals",
        "recent_totals::text",
        _documents,
        {"seconds": ("int", seconds)},
        repeatable=True,
    )


def recent_outcomes(within: str | None, seconds: int) -> Call[list[dict[str, Any]]]:
    """Read what ended in each minute."""
    return call(
        "recent_outcomes",
        "recent_outcomes::text",
        _documents,
        {"within": ("text", within), "seconds": ("int", seconds)},
        repeatable=True,
    )


def depth_history(queue: str | None = None) -> Call[list[dict[str, Any]]]:
    """Read how much waited over the last hour."""
    return call(
        "depth_history",
        "depth_history::text",
        _documents,
        {"queue": ("text", queue)},
        repeatable=True,
    )


def fleet() -> Call[list[dict[str, Any]]]:
    """Read the worker processes."""
    return call("fleet", "fleet::text", _documents, {}, repeatable=True)


def worker_tasks(worker_id: UUID, limit: int) -> Call[list[dict[str, Any]]]:
    """Read what a worker holds."""
    return call(
        "worker_tasks",
        "worker_tasks",
        _documents,
        {"worker_id": ("uuid", worker_id), "limit": ("int", limit)},
        repeatable=True,
    )


def failure_analytics(
    within: str | None, seconds: float, filters: Mapping[str, str | None], limit: int = 50
) -> Call[dict[str, Any]]:
    """Read which types failed, with which errors, over time."""
    return call(
        "failure_analytics",
        "failure_analytics::text",
        _document,
        {
            "within": ("text", within),
            "seconds": ("float8", seconds),
            **_filters(filters),
            "limit": ("int", limit),
        },
        repeatable=True,
    )

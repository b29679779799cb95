"""The calls of the REST API. Documents pass through as the JSON text that the engine wrote.

``within`` is the tenant that the caller's key is bound to, None for none: the
engine answers for another tenant's task as for an unknown one.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, LiteralString, NamedTuple
from uuid import UUID

import msgspec

from .call import Call, JsonTexts, Rows, call

_SUBMITTED = "task_id, status, scheduled_at, created_at, duplicate"


class Accepted(NamedTuple):
    """The answer to one submission."""

    task_id: UUID
    status: str
    scheduled_at: datetime
    created_at: datetime
    duplicate: bool


class Budget(NamedTuple):
    """Submissions that were taken for a tenant; none, and ``retry_after`` seconds to wait."""

    granted: int
    retry_after: float


class Page(NamedTuple):
    """Documents of one page, and the place of the next one."""

    documents: list[str]
    next_cursor: str | None


class Events(NamedTuple):
    """Changes since a place in the stream, and the place after them."""

    changes: bytes
    place: Any


def submit_group(
    options: bytes,
    payloads: JsonTexts,
    tenant: str,
    metadata: Sequence[bytes | None],
    keys: Sequence[str | None] | None,
) -> Call[list[Accepted]]:
    """Submit tasks that share options and tenant, all or none."""
    texts = [None if one is None else one.decode() for one in metadata]
    return Call(
        f"select {_SUBMITTED} from skiplane.submit_group(cast(%s as jsonb), cast(%s as text[]),"
        " cast(%s as text), cast(%s as text[]), cast(%s as text[]))",
        (options.decode(), payloads, tenant, texts, None if keys is None else list(keys)),
        lambda rows: [Accepted(*row) for row in rows],
        repeatable=keys is not None,
    )


def read_tasks(
    task_ids: Sequence[UUID], within: Sequence[str | None]
) -> Call[dict[int, tuple[int, str]]]:
    """Read tasks: by the place in ``task_ids``, the version and the document of what is visible."""
    return Call(
        "select ordinal, version, document"
        " from skiplane.read_tasks(cast(%s as uuid[]), cast(%s as text[]))",
        (list(task_ids), list(within)),
        lambda rows: {row[0] - 1: (row[1], row[2]) for row in rows},
        repeatable=True,
    )


def ended_tasks(task_ids: Sequence[UUID]) -> Call[dict[UUID, str]]:
    """Read state and result of those tasks that have ended."""
    return Call(
        "select task_id, document from skiplane.ended_tasks(cast(%s as uuid[]))",
        (list(task_ids),),
        lambda rows: {row[0]: row[1] for row in rows},
        repeatable=True,
    )


def list_page(within: str | None, limit: int, cursor: str | None, **filters: Any) -> Call[Page]:
    """Read one page of tasks; filters as the parameters of list_tasks_page."""
    casts = {
        "status": "text[]",
        "workflow_id": "uuid",
        "created_after": "timestamptz",
        "created_before": "timestamptz",
    }
    return call(
        "list_tasks_page",
        "documents, next_cursor",
        lambda rows: Page(*rows[0]),
        {
            "within": ("text", within),
            **{name: (casts.get(name, "text"), value) for name, value in filters.items()},
            "limit": ("int", limit),
            "cursor": ("text", cursor),
        },
        repeatable=True,
    )


_ARGUMENTS: LiteralString = (
    "(cast(%s as text), cast(%s as uuid), cast(%s as text), cast(%s as text))"
)
_VERBS: dict[str, LiteralString] = {
    "cancel_task": f"select skiplane.cancel_task_within{_ARGUMENTS}::text",
    "retry_task": f"select skiplane.retry_task_within{_ARGUMENTS}::text",
    "retry_dead_letter": f"select skiplane.retry_dead_letter_within{_ARGUMENTS}::text",
    "discard_dead_letter": f"select skiplane.discard_dead_letter_within{_ARGUMENTS}::text",
}


def _text(rows: Rows) -> str:
    return str(rows[0][0])


def verb_within(
    name: str, within: str | None, task_id: UUID, reason: str | None, actor: str
) -> Call[str]:
    """Call cancel_task, retry_task, retry_dead_letter or discard_dead_letter; give the document."""
    return Call(
        _VERBS[name],
        (within, task_id, reason, actor),
        _text,
    )


def explain_waiting_within(within: str | None, task_id: UUID) -> Call[str]:
    """Tell why a task has not started; give the document."""
    return Call(
        "select skiplane.explain_waiting_within(cast(%s as text), cast(%s as uuid))::text",
        (within, task_id),
        _text,
        repeatable=True,
    )


def edit_task_within(
    within: str | None, task_id: UUID, version: int, changes: bytes, actor: str
) -> Call[str]:
    """Edit a task that waits; give the document."""
    return Call(
        "select skiplane.edit_task_within(cast(%s as text), cast(%s as uuid), cast(%s as int),"
        " cast(%s as jsonb), cast(%s as text))::text",
        (within, task_id, version, changes.decode(), actor),
        _text,
    )


def dead_letters(
    limit: int, cursor: str | None, task_type: str | None, queue: str | None, tenant: str | None
) -> Call[list[str]]:
    """Read dead letters as documents, the newest first."""
    return call(
        "list_dead_letters",
        "list_dead_letters::text",
        lambda rows: [row[0] for row in rows],
        {
            "task_type": ("text", task_type),
            "queue": ("text", queue),
            "tenant_id": ("text", tenant),
            "limit": ("int", limit),
            "cursor": ("text", cursor),
        },
        repeatable=True,
    )


def take_submissions(tenant: str, needed: int, wanted: int) -> Call[Budget]:
    """Take submissions out of a tenant's budget."""
    return Call(
        "select granted, retry_after from skiplane.take_submissions("
        "cast(%s as text), cast(%s as int), cast(%s as int))",
        (tenant, needed, wanted),
        lambda rows: Budget(*rows[0]),
    )


def queue_pressure() -> Call[dict[str, tuple[int, str]]]:
    """Read the queues over a cap: depth, and ``high`` or ``full``."""
    return Call(
        "select queue, depth, pressure from skiplane.queue_pressure()",
        (),
        lambda rows: {row[0]: (row[1], row[2]) for row in rows},
        repeatable=True,
    )


def read_events(place: Any) -> Call[Events]:
    """Read what changed since a place; None gives the present place and no changes."""
    return Call(
        "select events, place::text from skiplane.read_events(cast(%s as jsonb))",
        (None if place is None else msgspec.json.encode(place).decode(),),
        lambda rows: Events(rows[0][0].encode(), msgspec.json.decode(rows[0][1])),
        repeatable=True,
    )


def measurements() -> Call[dict[str, Any]]:
    """Read what is measured of the whole database."""
    return Call(
        "select skiplane.measurements()::text",
        (),
        lambda rows: msgspec.json.decode(rows[0][0]),
        repeatable=True,
    )


def health() -> Call[list[tuple[str, bool, str]]]:
    """Read the engine's own checks: name, whether it is well, and what was seen."""
    return Call(
        "select check_name, ok, detail from skiplane.health()",
        (),
        lambda rows: [(row[0], row[1], row[2]) for row in rows],
        repeatable=True,
    )


def drain_worker(worker_id: UUID, actor: str) -> Call[bool]:
    """Ask a worker to take no more; False when there is none."""
    return Call(
        "select skiplane.drain_worker(cast(%s as uuid), cast(%s as text))",
        (worker_id, actor),
        lambda rows: bool(rows[0][0]),
    )


def check_within(kind: str, object_id: UUID, within: str | None) -> Call[None]:
    """Refuse, as unknown, a schedule (``cron``) or workflow of another tenant."""
    return Call(_CHECKS[kind], (object_id, within), lambda rows: None, repeatable=True)


_CHECKS: dict[str, LiteralString] = {
    "cron": "select skiplane.check_schedule_within(cast(%s as uuid), cast(%s as text))::text",
    "workflow": "select skiplane.check_workflow_within(cast(%s as uuid), cast(%s as text))::text",
}


def as_text(call: Call[Any]) -> Call[list[str]]:
    """Make a call that reads documents give them as the engine wrote them."""
    return call._replace(read=lambda rows: [row[0] for row in rows])

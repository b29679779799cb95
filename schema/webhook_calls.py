"""The calls that keep webhooks, and those of the built-in tasks.

``within`` is the tenant that the caller is bound to, None for none.
"""

from collections.abc import Sequence
from typing import Any, LiteralString, NamedTuple
from uuid import UUID

import msgspec

from .call import Call, Rows, as_uuid, call, text
from .connect import AsyncConnection
from .encode import check_text
from .rows import one_row

EVENTS = (
    "task",
    "task.succeeded",
    "task.failed",
    "task.cancelled",
    "task.dead",
    "workflow",
    "workflow.succeeded",
    "workflow.failed",
    "workflow.cancelled",
    "alert",
)

_TARGET: LiteralString = "select url, secret from skiplane.webhook_target(%s::uuid)"
_PREPARE: LiteralString = (
    "select role, statement from skiplane.prepare_procedure(%s::text, %s::jsonb)"
)
_BECOME: LiteralString = "select set_config('role', %s::text, true)"


def _document(rows: Rows) -> dict[str, Any]:
    document: dict[str, Any] = msgspec.json.decode(rows[0][0])
    return document


def _webhook(webhook_id: UUID | str) -> tuple[str, str]:
    return "uuid", str(as_uuid(webhook_id, "webhook_id"))


def create_webhook(
    name: str,
    url: str,
    events: Sequence[str] = ("task",),
    *,
    tenant: str | None = None,
    task_type: str | None = None,
    queue: str | None = None,
    secret: str | None = None,
    delivery_queue: str | None = None,
    enabled: bool = True,
    actor: str | None = None,
    within: str | None = None,
) -> Call[dict[str, Any]]:
    """Subscribe a URL to events; the answer holds the secret, this once."""
    return call(
        "create_webhook",
        "create_webhook::text",
        _document,
        {
            "name": text("name", name),
            "url": text("url", url),
            "events": ("text[]", [check_text("events", event) for event in events]),
            "tenant_id": text("tenant_id", tenant),
            "task_type": text("task_type", task_type),
            "queue": text("queue", queue),
            "secret": text("secret", secret),
            "delivery_queue": text("delivery_queue", delivery_queue),
            "enabled": ("boolean", enabled),
            "actor": text("actor", actor),
            "within": ("text", within),
        },
    )


def list_webhooks(
    within: str | None = None, limit: int = 50, cursor: UUID | str | None = None
) -> Call[list[dict[str, Any]]]:
    """Read webhooks, the newest first, without their secrets."""
    after = None if cursor is None else str(as_uuid(cursor, "cursor"))
    return call(
        "list_webhooks",
        "list_webhooks::text",
        lambda rows: [msgspec.json.decode(row[0]) for row in rows],
        {"within": ("text", within), "limit": ("int", limit), "cursor": ("uuid", after)},
        repeatable=True,
    )


def delete_webhook(webhook_id: UUID | str, within: str | None = None) -> Call[dict[str, Any]]:
    """End a subscription."""
    arguments = {"webhook_id": _webhook(webhook_id), "within": ("text", within)}
    return call("delete_webhook", "delete_webhook::text", _document, arguments)


def enable_webhook(
    webhook_id: UUID | str, enabled: bool, within: str | None = None
) -> Call[dict[str, Any]]:
    """Switch a subscription on or off."""
    return call(
        "enable_webhook",
        "enable_webhook::text",
        _document,
        {
            "webhook_id": _webhook(webhook_id),
            "enabled": ("boolean", enabled),
            "within": ("text", within),
        },
        repeatable=True,
    )


def send_test(webhook_id: UUID | str, within: str | None = None) -> Call[UUID]:
    """Send a test event; the answer is the id of the delivery, a task."""
    return call(
        "test_webhook",
        "test_webhook",
        lambda rows: as_uuid(rows[0][0]),
        {"webhook_id": _webhook(webhook_id), "within": ("text", within)},
    )


def callback_secret(tenant: str = "default") -> Call[str]:
    """Read the key of what is sent to the callback_url of a tenant's tasks."""
    return call(
        "callback_secret",
        "callback_secret",
        lambda rows: str(rows[0][0]),
        {"tenant_id": text("tenant_id", tenant)},
        repeatable=True,
    )


def announce_alert(
    name: str,
    state: str = "firing",
    summary: str | None = None,
    labels: dict[str, str] | None = None,
    tenant: str | None = None,
) -> Call[int]:
    """Tell the webhooks that listen to alerts; the answer is the number of deliveries."""
    return call(
        "announce_alert",
        "announce_alert",
        lambda rows: int(rows[0][0]),
        {
            "name": text("name", name),
            "state": text("state", state),
            "summary": text("summary", summary),
            "labels": ("jsonb", msgspec.json.encode(labels or {}).decode()),
            "tenant_id": text("tenant_id", tenant),
        },
    )


class Target(NamedTuple):
    """Where a delivery goes; both None when its webhook was deleted."""

    url: str | None
    secret: str | None


async def webhook_target(conn: AsyncConnection, task_id: str) -> Target:
    """Read where a delivery goes and the key of its signature."""
    return Target(*await one_row(conn, _TARGET, (task_id,)))


async def call_procedure(conn: AsyncConnection, procedure: str, arguments: str) -> Any:
    """Call a listed procedure as its role, in the open transaction.

    Args:
        conn: With the transaction; its role is as before when this returns.
        procedure: Its name, or its signature.
        arguments: A JSON object or array.

    Returns:
        The function's value, a list for a set, a procedure's output as a dict.
    """
    role, statement = await one_row(conn, _PREPARE, (procedure, arguments))
    was = (await one_row(conn, "select current_setting('role')"))[0]
    await conn.execute(_BECOME, (role,))
    cursor = await conn.execute(statement.encode())
    rows = await cursor.fetchall() if cursor.description else []
    await conn.execute(_BECOME, (was,))
    if not statement.startswith("call "):
        return rows[0][0]
    names = [column.name for column in cursor.description or ()]
    return dict(zip(names, rows[0], strict=True)) if rows else None

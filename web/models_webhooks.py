"""The shapes of webhooks."""

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

import msgspec
from msgspec import Meta

from .models import Name

Event = Literal[
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
]


class WebhookRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A webhook to make. ``secret``: drawn when it is left out."""

    name: Name
    url: Annotated[str, Meta(min_length=1, max_length=2000)]
    events: Annotated[list[Event], Meta(min_length=1, max_length=20)] = msgspec.field(
        default_factory=lambda: ["task"]
    )
    tenant_id: Name | None = None
    task_type: Name | None = None
    queue: Name | None = None
    delivery_queue: Name | None = None
    secret: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    enabled: bool = True


class WebhookView(msgspec.Struct, kw_only=True):
    """A webhook without its secret."""

    webhook_id: UUID
    name: str
    url: str
    events: list[str]
    tenant_id: str | None
    task_type: str | None
    queue: str | None
    delivery_queue: str | None
    enabled: bool
    created_at: datetime
    created_by: str


class WebhookMade(WebhookView, kw_only=True):
    """A new webhook. ``secret`` is the key of its signatures, shown this once."""

    secret: str


class WebhookList(msgspec.Struct, kw_only=True):
    """One page, newest first. ``next_cursor`` null: this was the last one."""

    webhooks: list[WebhookView]
    next_cursor: str | None


class TestSent(msgspec.Struct, kw_only=True):
    """The delivery of a test event is a task."""

    task_id: UUID

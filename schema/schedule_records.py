"""What the calls about schedules return. Every time is an aware datetime in UTC."""

from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from .records import Action


class ScheduleRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule as every door shows it.

    Attributes:
        status: ACTIVE, PAUSED, INVALID or ENDED; ``reason`` says more.
        next_fire_time: None when it does not fire, and for a moment after SQL has
            created or changed it, until a scheduler has read the expression.
        last_fire_time: When it last was to fire; ``last_fired_at`` is when it did.
        queued: Tasks that wait until the one before them has ended.
        owner: The app whose code declares it; None for what a caller has made.
        version: Pass it to an edit; every change raises it.
        cursor: The schedule's place in a list.
    """

    cron_id: UUID
    name: str
    cron_expression: str
    timezone: str
    task_type: str
    status: str
    payload: Any = None
    reason: str | None = None
    enabled: bool = True
    next_fire_time: datetime | None = None
    last_fire_time: datetime | None = None
    last_fired_at: datetime | None = None
    last_task_id: UUID | None = None
    queued: int = 0
    overlap_policy: str = "skip"
    missed_policy: str = "once"
    missed_limit: int = 0
    jitter_seconds: float = 0
    start_at: datetime | None = None
    end_at: datetime | None = None
    queue: str = "default"
    priority: str = "medium"
    max_retries: int = 0
    retry_backoff: str | None = None
    retry_delay_seconds: float | None = None
    retry_max_delay_seconds: float | None = None
    retry_jitter: str | None = None
    timeout_seconds: float | None = None
    estimated_duration_seconds: float | None = None
    concurrency_key: str | None = None
    callback_url: str | None = None
    metadata: Any = None
    tenant_id: str = "default"
    owner: str | None = None
    version: int = 0
    created_at: datetime | None = None
    actions: list[Action] = []
    cursor: str | None = None


class ScheduleChange(msgspec.Struct, frozen=True, kw_only=True):
    """What a sync did to one schedule, or would do.

    Attributes:
        change: create, edit, adopt, delete, or none.
        cron_id: None for one that a dry run would create.
        fields: What an edit changes: for each field an object with ``from`` and ``to``.
    """

    name: str
    tenant_id: str
    change: str
    cron_id: UUID | None = None
    fields: dict[str, Any] = {}


class Fire(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a schedule's history.

    Attributes:
        outcome: fired, queued, replaced, skipped, missed or manual.
        task_id: What it made, None when nothing.
    """

    cron_id: UUID
    fire_time: datetime
    fired_at: datetime
    outcome: str
    task_id: UUID | None = None
    reason: str | None = None

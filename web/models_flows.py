"""The shapes of schedules and workflows; see models."""

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

import msgspec
from msgspec import UNSET, Meta, UnsetType

from .models import MAX_TEXT, ActionView, Backoff, Delay, Instant, Jitter, Name, Priority, Status


class Template(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What the tasks of a schedule have."""

    payload: msgspec.Raw | UnsetType = UNSET
    queue: Name | UnsetType = UNSET
    priority: Priority | UnsetType = UNSET
    max_retries: Annotated[int, Meta(ge=0, le=10_000)] | UnsetType = UNSET
    retry_backoff: Backoff | UnsetType = UNSET
    retry_delay_seconds: Delay | UnsetType = UNSET
    retry_max_delay_seconds: Delay | UnsetType = UNSET
    retry_jitter: Jitter | UnsetType = UNSET
    timeout_seconds: Annotated[float, Meta(ge=0.001, le=2_592_000)] | UnsetType = UNSET
    estimated_duration_seconds: Annotated[float, Meta(ge=0, le=2_000_000)] | UnsetType = UNSET
    concurrency_key: Name | UnsetType = UNSET
    callback_url: Annotated[str, Meta(pattern=r"^https?://\S+$", max_length=2000)] | UnsetType = (
        UNSET
    )
    metadata: msgspec.Raw | UnsetType = UNSET
    timezone: Annotated[str, Meta(min_length=1, max_length=100)] | UnsetType = UNSET
    overlap_policy: Literal["skip", "queue", "cancel_running"] | UnsetType = UNSET
    missed_policy: Literal["skip", "once", "all"] | UnsetType = UNSET
    missed_limit: Annotated[int, Meta(ge=1, le=1000)] | UnsetType = UNSET
    enabled: bool | UnsetType = UNSET
    jitter_seconds: Annotated[float, Meta(ge=0, le=86_400)] | UnsetType = UNSET
    start_at: Instant | UnsetType = UNSET
    end_at: Instant | UnsetType = UNSET


Expression = Annotated[str, Meta(min_length=1, max_length=MAX_TEXT)]


class ScheduleRequest(Template, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A schedule to make. ``name`` is unique per tenant."""

    name: Name
    cron_expression: Expression
    task_type: Name


class ScheduleEdit(Template, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Changes of a schedule; what is left out stays."""

    cron_expression: Expression | UnsetType = UNSET
    task_type: Name | UnsetType = UNSET


class RecurringTask(Template, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """With ?schedule_recurring=true: a schedule, in the words of a task."""

    schedule: Expression
    task_type: Name
    name: Name | UnsetType = UNSET
    task_duration: Annotated[float, Meta(ge=0, le=2_000_000)] | UnsetType = UNSET


class ScheduleMade(msgspec.Struct, kw_only=True):
    """The schedule is stored."""

    cron_id: UUID
    name: str
    next_fire_time: datetime | None
    status: Literal["ACTIVE", "PAUSED"]


class ScheduleView(msgspec.Struct, kw_only=True):
    """A schedule."""

    cron_id: UUID
    name: str
    cron_expression: str
    timezone: str
    task_type: str
    status: Literal["ACTIVE", "PAUSED", "INVALID", "ENDED"]
    payload: Any
    reason: str | None
    enabled: bool
    next_fire_time: datetime | None
    last_fire_time: datetime | None
    last_fired_at: datetime | None
    last_task_id: UUID | None
    queued: int
    overlap_policy: str
    missed_policy: str
    missed_limit: int
    jitter_seconds: float
    start_at: datetime | None
    end_at: datetime | None
    queue: str
    priority: Priority
    max_retries: int
    metadata: dict[str, Any] | None
    tenant_id: str
    owner: str | None
    version: int
    created_at: datetime


class ScheduleList(msgspec.Struct, kw_only=True):
    """One page, newest first."""

    cron_tasks: list[ScheduleView]
    next_cursor: str | None


class Fires(msgspec.Struct, kw_only=True):
    """The next fire times."""

    cron_id: UUID
    fire_times: list[datetime]


class WorkflowTask(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A task of a workflow; ``task_id`` is its name there."""

    task_id: Name
    task_type: Name
    payload: msgspec.Raw | UnsetType = UNSET
    dependencies: Annotated[list[Name], Meta(max_length=10_000)] | UnsetType = UNSET
    trigger: Literal["all_success", "all_done", "any_failed"] | UnsetType = UNSET
    queue: Name | UnsetType = UNSET
    priority: Priority | UnsetType = UNSET
    max_retries: Annotated[int, Meta(ge=0, le=10_000)] | UnsetType = UNSET
    retry_backoff: Backoff | UnsetType = UNSET
    retry_delay_seconds: Delay | UnsetType = UNSET
    retry_max_delay_seconds: Delay | UnsetType = UNSET
    retry_jitter: Jitter | UnsetType = UNSET
    timeout_seconds: Annotated[float, Meta(ge=0.001, le=2_592_000)] | UnsetType = UNSET
    estimated_duration_seconds: Annotated[float, Meta(ge=0, le=2_000_000)] | UnsetType = UNSET
    concurrency_key: Name | UnsetType = UNSET


class WorkflowRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A workflow to run: named tasks, and what each waits for."""

    workflow_name: Name
    tasks: Annotated[list[WorkflowTask], Meta(min_length=1, max_length=10_000)]
    idempotency_key: Name | None = None
    metadata: msgspec.Raw | UnsetType = UNSET


class WorkflowAccepted(msgspec.Struct, kw_only=True):
    """The workflow is stored; ``tasks`` gives each task's state by its name."""

    workflow_id: UUID
    status: Literal["RUNNING", "SUCCEEDED", "FAILED", "CANCELLED"]
    tasks: dict[str, Status]


class WorkflowSummary(msgspec.Struct, kw_only=True):
    """A workflow in a list."""

    workflow_id: UUID
    workflow_name: str
    status: Literal["RUNNING", "SUCCEEDED", "FAILED", "CANCELLED"]
    tenant_id: str
    task_count: int
    pending: int
    created_at: datetime
    completed_at: datetime | None


class WorkflowView(WorkflowSummary, kw_only=True):
    """A workflow; ``tasks`` says how many are in which state."""

    tasks: dict[str, int]
    dag_definition: list[dict[str, Any]]
    actions: list[ActionView]


class WorkflowPicture(WorkflowSummary, kw_only=True):
    """A workflow as nodes and edges."""

    nodes: list[dict[str, Any]]
    edges: list[dict[str, str]]


class WorkflowList(msgspec.Struct, kw_only=True):
    """One page, newest first."""

    workflows: list[WorkflowSummary]
    next_cursor: str | None


class WorkflowChanged(msgspec.Struct, kw_only=True):
    """The workflow's state after the call."""

    workflow_id: UUID
    status: Literal["RUNNING", "SUCCEEDED", "FAILED", "CANCELLED"]

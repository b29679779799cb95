"""The shapes of requests and answers: what is decoded, and what OpenAPI shows.

Limits are the engine's own, met here so that a bad value is refused at the door.
"""

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

import msgspec
from msgspec import UNSET, Meta, UnsetType

MAX_TEXT = 200
YEAR = 31_536_000.0

# One to 200 bytes; the engine counts bytes, which matters for letters beyond ASCII only.
Name = Annotated[str, Meta(min_length=1, max_length=MAX_TEXT, pattern=r"^[^\x00-\x1f\x7f]*$")]
Priority = Literal["high", "medium", "low"]
Backoff = Literal["exponential", "linear", "fixed"]
Jitter = Literal["full", "equal", "decorrelated", "none"]
Instant = Annotated[
    datetime,
    Meta(tz=True, description="RFC 3339 with an offset, at most 10 years from now"),
]
Status = Literal[
    "SCHEDULED",
    "BLOCKED",
    "PENDING",
    "RUNNING",
    "RETRYING",
    "SUCCEEDED",
    "FAILED",
    "CANCELLED",
    "DEAD",
]
Delay = Annotated[float, Meta(ge=0, le=YEAR)]


class Options(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What may be set for a task when it is submitted and changed until it starts."""

    queue: Name | UnsetType | None = UNSET
    priority: Priority | UnsetType | None = UNSET
    scheduled_at: Instant | UnsetType | None = UNSET
    delay_seconds: Annotated[float, Meta(ge=0, le=315_360_000)] | UnsetType | None = UNSET
    max_retries: Annotated[int, Meta(ge=0, le=10_000)] | UnsetType | None = UNSET
    retry_backoff: Backoff | UnsetType | None = UNSET
    retry_delay_seconds: Delay | UnsetType | None = UNSET
    retry_max_delay_seconds: Delay | UnsetType | None = UNSET
    retry_jitter: Jitter | UnsetType | None = UNSET
    timeout_seconds: Annotated[float, Meta(ge=0.001, le=2_592_000)] | UnsetType | None = UNSET
    estimated_duration_seconds: Annotated[float, Meta(ge=0, le=2_000_000)] | UnsetType | None = (
        UNSET
    )
    concurrency_key: Name | UnsetType | None = UNSET
    expires_at: Instant | UnsetType | None = UNSET
    callback_url: (
        Annotated[str, Meta(pattern=r"^https?://\S+$", max_length=2000)] | UnsetType | None
    ) = UNSET


class TaskSubmission(Options, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A task to run. All but ``task_type`` may be left out."""

    task_type: Name
    payload: msgspec.Raw | UnsetType = UNSET
    idempotency_key: Name | UnsetType | None = UNSET
    task_duration: Annotated[float, Meta(ge=0, le=2_000_000)] | UnsetType | None = UNSET
    metadata: msgspec.Raw | UnsetType = UNSET


class TaskEdit(Options, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Changes of a task that waits; what is left out stays."""

    payload: msgspec.Raw | UnsetType = UNSET


class Batch(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Tasks to run, all or none."""

    tasks: Annotated[list[TaskSubmission], Meta(min_length=1, max_length=10_000)]


class Why(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Why it is done; it is kept in the task's history."""

    reason: Annotated[str, Meta(max_length=1000)] | None = None


class KeyRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A key to make."""

    name: Name
    role: Literal["reader", "producer", "operator", "admin"]
    tenant_id: Name | None = None
    expires_at: Instant | None = None


class TaskAccepted(msgspec.Struct, kw_only=True):
    """The task is stored and will run."""

    task_id: UUID
    status: Status
    scheduled_at: datetime
    created_at: datetime


class TaskReplayed(TaskAccepted, kw_only=True):
    """An earlier submission with this key and the same body made this task."""

    duplicate: Literal[True] = True


class BatchItem(TaskAccepted, kw_only=True):
    """One task of a batch; ``duplicate``: an earlier submission made it."""

    duplicate: bool


class BatchAccepted(msgspec.Struct, kw_only=True):
    """All tasks are stored, in the order in which they were sent."""

    tasks: list[BatchItem]


class AttemptView(msgspec.Struct, kw_only=True):
    """One try that ended."""

    attempt: int
    outcome: str
    fence: int | None = None
    worker_id: UUID | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    error_type: str | None = None
    error_message: str | None = None
    error_detail: str | None = None
    retry_at: datetime | None = None


class ActionView(msgspec.Struct, kw_only=True):
    """What somebody did to a task."""

    at: datetime
    actor: str
    verb: str
    detail: Any = None


class ProgressView(msgspec.Struct, kw_only=True):
    """How far a running task says it is."""

    share: float
    message: str | None = None
    at: datetime | None = None


class TaskSummary(msgspec.Struct, kw_only=True):
    """A task in a list."""

    task_id: UUID
    task_type: str
    queue: str
    priority: Priority
    status: Status
    error_type: str | None
    error_message: str | None
    scheduled_at: datetime
    created_at: datetime
    started_at: datetime | None
    completed_at: datetime | None
    next_attempt_at: datetime | None
    duration_ms: float | None
    attempt: int
    max_retries: int
    retry_backoff: Backoff
    retry_delay_seconds: float
    retry_max_delay_seconds: float
    retry_jitter: Jitter
    timeout_seconds: float | None
    idempotency_key: str | None
    estimated_duration_seconds: float | None
    concurrency_key: str | None
    expires_at: datetime | None
    callback_url: str | None
    metadata: dict[str, Any] | None
    tenant_id: str
    workflow_id: UUID | None
    task_name: str | None
    worker_id: UUID | None
    lease_expiry: datetime | None
    version: int


class TaskView(TaskSummary, kw_only=True):
    """A task with everything that is known of it."""

    payload: Any
    result: Any
    attempts: list[AttemptView]
    actions: list[ActionView]
    checkpoint: Any
    progress: ProgressView | None


class TaskList(msgspec.Struct, kw_only=True):
    """One page, newest first. ``next_cursor`` null: this was the last one."""

    tasks: list[TaskSummary]
    next_cursor: str | None


class TaskCancelled(msgspec.Struct, kw_only=True):
    """The task was cancelled."""

    task_id: UUID
    status: Literal["CANCELLED"]
    cancelled_at: datetime


class TaskRetried(msgspec.Struct, kw_only=True):
    """The task waits to run again."""

    task_id: UUID
    status: Status


class ResultView(msgspec.Struct, kw_only=True):
    """Where a task stands; ``done``: it has ended."""

    task_id: UUID
    status: Status
    done: bool
    result: Any
    error_type: str | None
    error_message: str | None


class DeadLetterView(msgspec.Struct, kw_only=True):
    """A task whose retries are used up."""

    task_id: UUID
    task_type: str
    queue: str
    tenant_id: str
    died_at: datetime
    created_at: datetime
    error_type: str | None
    error_message: str | None
    payload: Any


class DeadLetterList(msgspec.Struct, kw_only=True):
    """One page, newest first. ``next_cursor`` null: this was the last one."""

    dead_letters: list[DeadLetterView]
    next_cursor: str | None


class AllRetried(msgspec.Struct, kw_only=True):
    """How many were retried; ``more``: some are left, call again."""

    retried: int
    more: bool


class Discarded(msgspec.Struct, kw_only=True):
    """The task left the dead letter queue and stays DEAD in the history."""

    task_id: UUID
    status: Literal["DEAD"]
    discarded: Literal[True]


class WorkerView(msgspec.Struct, kw_only=True):
    """One worker process."""

    worker_id: UUID
    name: str
    status: Literal["RUNNING", "DRAINING", "LOST"]
    queues: list[str]
    concurrency: int
    holding: int
    utilisation: float
    up_seconds: float
    silent_seconds: float


class WorkerList(msgspec.Struct, kw_only=True):
    """The fleet."""

    workers: list[WorkerView]


class WorkerDraining(msgspec.Struct, kw_only=True):
    """The worker finishes what it has and takes no more."""

    worker_id: UUID
    status: Literal["DRAINING"]


class KeyView(msgspec.Struct, kw_only=True):
    """What may be shown of a key."""

    key_id: str
    name: str
    role: str
    tenant_id: str | None
    created_at: datetime
    created_by: str
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None


class KeyMade(KeyView, kw_only=True):
    """A new key. ``key`` is shown this once and stored nowhere."""

    key: str


class KeyList(msgspec.Struct, kw_only=True):
    """One page, newest first."""

    keys: list[KeyView]
    next_cursor: str | None


class Health(msgspec.Struct, kw_only=True):
    """The process answers."""

    status: Literal["ok"]


class Check(msgspec.Struct, kw_only=True):
    """One thing that was looked at."""

    name: str
    ok: bool
    detail: str


class Readiness(msgspec.Struct, kw_only=True):
    """Whether requests can be served; ``missing`` names what stands in the way."""

    status: Literal["ready", "not_ready"]
    missing: list[str]
    checks: list[Check]

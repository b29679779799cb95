"""What the engine's calls return. Every time is an aware datetime in UTC."""

from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from typing import Any, TypeVar
from uuid import UUID

import msgspec

from .encode import decode_json


class Status(StrEnum):
    """The states of a task; the last four are final."""

    SCHEDULED = "SCHEDULED"
    BLOCKED = "BLOCKED"
    PENDING = "PENDING"
    RUNNING = "RUNNING"
    RETRYING = "RETRYING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    DEAD = "DEAD"

    @property
    def final(self) -> bool:
        """Whether nothing but an operator's retry moves the task on."""
        return self in (Status.SUCCEEDED, Status.FAILED, Status.CANCELLED, Status.DEAD)


class Submitted(msgspec.Struct, frozen=True):
    """The answer to a submission.

    Attributes:
        duplicate: An earlier submission with the same idempotency key made this
            task; this one added nothing.
    """

    task_id: UUID
    status: Status
    scheduled_at: datetime
    created_at: datetime
    duplicate: bool


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One try that ended. ``fence`` is the number of its claim."""

    attempt: int
    fence: int | None = None
    outcome: str | None = None
    worker_id: UUID | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    error_type: str | None = None
    error_message: str | None = None
    error_detail: str | None = None
    retry_at: datetime | None = None


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """What an operator did to a task."""

    at: datetime
    verb: str
    actor: str | None = None
    detail: Any = None


class Progress(msgspec.Struct, frozen=True):
    """How far a running task says it is; ``share`` runs from 0 to 1."""

    share: float
    message: str | None = None
    at: datetime | None = None


class TaskRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A task as every door shows it. Durations are in the unit that their name says.

    Attributes:
        version: Pass it to ``edit``; every edit raises it.
        attempts: Attempts that failed or were lost, and the last one when the
            task ended. Empty in lists.
        cursor: The task's place in a list; pass it to get the rows after it.
    """

    task_id: UUID
    task_type: str
    queue: str
    status: Status
    priority: str = "medium"
    payload: Any = None
    result: Any = None
    error_type: str | None = None
    error_message: str | None = None
    scheduled_at: datetime | None = None
    created_at: datetime | None = None
    started_at: datetime | None = None
    completed_at: datetime | None = None
    next_attempt_at: datetime | None = None
    attempt: int = 0
    max_retries: int = 0
    retry_backoff: str | None = None
    retry_delay_seconds: float | None = None
    retry_max_delay_seconds: float | None = None
    retry_jitter: str | None = None
    timeout_seconds: float | None = None
    idempotency_key: str | None = None
    estimated_duration_seconds: float | None = None
    concurrency_key: str | None = None
    expires_at: datetime | None = None
    callback_url: str | None = None
    metadata: Any = None
    tenant_id: str | None = None
    workflow_id: UUID | None = None
    task_name: str | None = None
    worker_id: UUID | None = None
    lease_expiry: datetime | None = None
    version: int = 0
    duration_ms: float | None = None
    checkpoint: Any = None
    progress: Progress | None = None
    attempts: list[Attempt] = []
    actions: list[Action] = []
    cursor: str | None = None


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A task whose retries are used up. ``cursor`` is as in TaskRecord."""

    task_id: UUID
    task_type: str
    queue: str
    tenant_id: str | None = None
    payload: Any = None
    error_type: str | None = None
    error_message: str | None = None
    created_at: datetime | None = None
    died_at: datetime | None = None
    cursor: str | None = None


class Result(msgspec.Struct, frozen=True):
    """Where a task stands, for somebody who waits for it.

    Attributes:
        done: The status is final.
        result: What the task returned, None unless it SUCCEEDED.
    """

    task_id: UUID
    status: Status
    done: bool
    result: Any = None
    error_type: str | None = None
    error_message: str | None = None


_T = TypeVar("_T", bound=msgspec.Struct)


@lru_cache
def _decoder(kind: type[_T]) -> msgspec.json.Decoder[_T]:
    return msgspec.json.Decoder(kind)


def decode_record(document: str | bytes, kind: type[_T]) -> _T:
    """Read the engine's document of a task, a dead letter, a schedule.

    A number that no float holds becomes an infinity and a time that no datetime
    holds (``infinity``, the year 294276) the nearest one: what somebody wrote
    with SQL into one row must not break a list.
    """
    try:
        record: _T = _decoder(kind).decode(document)
    except msgspec.ValidationError:
        values = decode_json(document)
        for field in msgspec.structs.fields(kind):
            if field.type == datetime | None and values.get(field.name):
                values[field.name] = _nearest(values[field.name])
        record = msgspec.convert(values, kind)
    return record


def _nearest(text: str) -> datetime:
    try:
        return msgspec.convert(text, datetime)
    except msgspec.ValidationError:
        early = text.startswith("-") or text.endswith("BC")
        return (datetime.min if early else datetime.max).replace(tzinfo=UTC)

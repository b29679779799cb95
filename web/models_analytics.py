"""The shapes of failure analytics, as SQL's failure_analytics gives them."""

from datetime import datetime
from uuid import UUID

import msgspec


class TypeFailures(msgspec.Struct, kw_only=True):
    """How tasks of a type ended. ``retried``: attempts that failed and were tried again."""

    task_type: str
    succeeded: int
    failed: int
    dead: int
    cancelled: int
    retried: int
    mean_run_ms: float | None


class ErrorKind(msgspec.Struct, kw_only=True):
    """Errors that are alike but for numbers and names. ``task_id``: one of the last."""

    fingerprint: str
    error_type: str | None
    message: str | None
    errors: int
    task_types: list[str]
    first_seen: datetime
    last_seen: datetime
    task_id: UUID | None


class ErrorsAt(msgspec.Struct, kw_only=True):
    """Failed attempts of one step."""

    at: datetime
    errors: int


class Failures(msgspec.Struct, kw_only=True):
    """What failed between two instants, the most first."""

    since: datetime
    until: datetime
    step_seconds: float
    types: list[TypeFailures]
    errors: list[ErrorKind]
    over_time: list[ErrorsAt]

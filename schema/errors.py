"""What can go wrong, one exception for each cause that a caller can act on.

The engine refuses with SQLSTATEs of class SK; they become exceptions here and
nowhere else, and nobody matches message text. The driver's error stays as
``__cause__``.

A task function steers its own fate with Retry, Postpone and PermanentError.
"""

from collections.abc import Iterator
from types import TracebackType
from typing import Any, ClassVar


class SkiplaneError(Exception):
    """The base of everything that Skiplane raises.

    Attributes:
        message: One sentence that says what is wrong.
        field: The field or argument at fault, None when no single one is.
        value: The value that was refused, as text, None when there is none to show.
        remedy: What to do about it, None when nothing more can be said.
        code: A stable word for programs; the REST API uses the same.
    """

    code: ClassVar[str] = "error"

    def __init__(
        self,
        message: str,
        field: str | None = None,
        value: str | None = None,
        remedy: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.field = field
        self.value = value
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.message} {self.remedy}" if self.remedy else self.message

    def __reduce__(self) -> tuple[Any, ...]:
        # The default would call the class with the message alone and lose the
        # rest on the way back from a pool process.
        return type(self), (self.message, self.field, self.value, self.remedy)


class InvalidInput(SkiplaneError, ValueError):
    """An argument cannot be accepted (SK001)."""

    code = "invalid_input"


class NotFound(SkiplaneError, LookupError):
    """No such task, schedule, workflow or queue, or not for this caller (SK002)."""

    code = "not_found"


class Conflict(SkiplaneError):
    """The state that the task is in does not allow this (SK003)."""

    code = "conflict"


class IdempotencyConflict(Conflict):
    """The idempotency key was used before, with another body (SK004)."""

    code = "idempotency_conflict"


class StaleVersion(Conflict):
    """Somebody else edited the task in between; read it again (SK005)."""

    code = "stale_version"


class LeaseLost(SkiplaneError):
    """The attempt does not hold its task any more; nothing was written (SK006)."""

    code = "lease_lost"


class TooLarge(SkiplaneError, ValueError):
    """A payload, result or batch is above the stated limit (SK007)."""

    code = "too_large"


class NotAllowed(SkiplaneError, PermissionError):
    """The role or key of the caller may not do this (SK010)."""

    code = "not_allowed"


class Unavailable(SkiplaneError, ConnectionError):
    """PostgreSQL cannot be reached or broke the connection.

    When a submission was on its way, it may or may not be stored: repeat it
    with an idempotency key.
    """

    code = "unavailable"


class NotInstalled(SkiplaneError):
    """The database has no Skiplane, or another version of it."""

    code = "not_installed"


class TaskFailed(SkiplaneError):
    """The task whose result was asked for ended FAILED or DEAD.

    Attributes:
        status: ``FAILED`` or ``DEAD``.
        error_type: Name of the last attempt's error, None when it had none.
        error_message: Text of the last attempt's error.
    """

    code = "task_failed"

    def __init__(
        self,
        message: str,
        status: str = "FAILED",
        error_type: str | None = None,
        error_message: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.error_type = error_type
        self.error_message = error_message

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.message, self.status, self.error_type, self.error_message)


class TaskCancelled(SkiplaneError):
    """The task whose result was asked for was cancelled."""

    code = "task_cancelled"


class WorkflowFailed(SkiplaneError):
    """The workflow whose results were asked for ended FAILED or CANCELLED.

    Attributes:
        status: ``FAILED`` or ``CANCELLED``.
        task_name: The task that was the cause, None when it is not known.
    """

    code = "workflow_failed"

    def __init__(self, message: str, status: str = "FAILED", task_name: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.task_name = task_name

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.message, self.status, self.task_name)


class Retry(Exception):
    """Raised inside a task: this attempt failed, try again.

    Args:
        after: Seconds until the next attempt at the earliest; None leaves it to
            the task's retry policy.
        reason: Recorded as the error of the attempt.
    """

    def __init__(self, after: float | None = None, reason: str = "retry requested") -> None:
        super().__init__(reason)
        self.after = after
        self.reason = reason

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.after, self.reason)


class Postpone(Exception):
    """Raised inside a task: not now. The attempt is not charged.

    Args:
        delay: Seconds until the task runs again.
        reason: Shown in the task's history.
    """

    def __init__(self, delay: float, reason: str = "postponed") -> None:
        super().__init__(reason)
        self.delay = delay
        self.reason = reason

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.delay, self.reason)


class PermanentError(Exception):
    """Raised inside a task: trying again cannot help. The task ends FAILED."""


BY_SQLSTATE: dict[str, type[SkiplaneError]] = {
    "SK001": InvalidInput,
    "SK002": NotFound,
    "SK003": Conflict,
    "SK004": IdempotencyConflict,
    "SK005": StaleVersion,
    "SK006": LeaseLost,
    "SK007": TooLarge,
    "SK010": NotAllowed,
    "42501": NotAllowed,  # insufficient_privilege
    "54000": TooLarge,  # program_limit_exceeded
    "54001": InvalidInput,  # stack depth: JSON nested deeper than the server can read
    "3F000": NotInstalled,  # no schema skiplane
    "42883": NotInstalled,  # no such function in it
}
_UNAVAILABLE = ("08", "53", "57P")  # connection, out of resources, shutting down


def from_driver(error: BaseException) -> SkiplaneError | None:
    """Give the Skiplane error that a driver's error stands for.

    Understands psycopg, psycopg2 and asyncpg, also inside the wrappers of
    SQLAlchemy and Django.

    Returns:
        None when it is none of ours: a deadlock or a serialization failure is
        for the owner of the transaction to see as it is.
    """
    for cause in _causes(error):
        state = getattr(cause, "sqlstate", None) or getattr(cause, "pgcode", None)
        if isinstance(state, str):
            return _from_sqlstate(state, cause)
    return _connection_failure(error)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        original = getattr(error, "orig", None)
        error = original if isinstance(original, BaseException) else error.__cause__


def _from_sqlstate(state: str, cause: BaseException) -> SkiplaneError | None:
    kind = BY_SQLSTATE.get(state)
    if kind is None and state.startswith("22"):  # data exception, found while binding
        kind = InvalidInput
    if kind is None and state.startswith(_UNAVAILABLE):
        kind = Unavailable
    if kind is None:
        return None
    message, detail, hint, column = _diagnosis(cause)
    if kind is NotInstalled:
        return NotInstalled(
            f"This database has no Skiplane of this version ({message}).",
            remedy="Run `skiplane migrate` against it, or correct the DSN.",
        )
    return kind(message, column, detail, hint)


def _diagnosis(cause: BaseException) -> tuple[str, str | None, str | None, str | None]:
    # psycopg and psycopg2 keep these in .diag; asyncpg's error has them itself,
    # and SQLAlchemy's wrapper of asyncpg has that error as its cause.
    source: Any = getattr(cause, "diag", None)
    names = ("message_primary", "message_detail", "message_hint", "column_name")
    if source is None:
        source = next((e for e in _causes(cause) if hasattr(e, "column_name")), cause)
        names = ("message", "detail", "hint", "column_name")
    message, detail, hint, column = (getattr(source, name, None) for name in names)
    # The engine says "no field" and "no remedy" with an empty text; a value may be one.
    return message or str(cause), detail, hint or None, column or None


def _connection_failure(error: BaseException) -> Unavailable | None:
    for cause in _causes(error):
        if type(cause).__name__ in ("OperationalError", "InterfaceError", "PoolTimeout"):
            text = str(cause).strip().splitlines()
            return Unavailable(
                f"PostgreSQL cannot be reached: {text[0] if text else 'connection lost'}",
                remedy="Look whether it runs and whether the DSN is right.",
            )
    return None


class Translating:
    """A context manager that turns driver errors into Skiplane errors."""

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        if not isinstance(error, Exception) or isinstance(error, SkiplaneError):
            return
        known = from_driver(error)
        if known is not None:
            raise known from error


translating = Translating()

"""The options of a submission: Python's names and values to the engine's.

Durations are seconds or a timedelta, and are named without a unit (``delay``);
the engine's own names (``delay_seconds``) are understood as well, so that one
set of names serves SQL, REST and Python. Defaults are the engine's alone.
"""

import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, NamedTuple, TypedDict

from .encode import check_text, encode_json, shown
from .errors import InvalidInput

Priority = Literal["high", "medium", "low"]
Backoff = Literal["exponential", "linear", "fixed"]
Jitter = Literal["full", "equal", "decorrelated", "none"]
Seconds = float | timedelta


class TaskOptions(TypedDict, total=False):
    """What a task type may set once for all its submissions. None: the engine's default."""

    queue: str
    priority: Priority
    max_retries: int
    retry_backoff: Backoff
    retry_delay: Seconds
    retry_max_delay: Seconds
    retry_jitter: Jitter
    timeout: Seconds | None
    estimated_duration: Seconds | None
    concurrency_key: str | None
    callback_url: str | None
    metadata: Mapping[str, Any] | None


class SubmitOptions(TaskOptions, total=False):
    """What one submission may set. ``tenant`` is short for ``metadata["tenant_id"]``."""

    delay: Seconds
    scheduled_at: datetime
    idempotency_key: str | None
    expires_at: datetime | None
    tenant: str


class Option(NamedTuple):
    """One option: the engine's name, the SQL type of its parameter, and the check."""

    name: str
    cast: str
    read: Callable[[str, Any], Any]


def seconds(name: str, value: Any) -> float:
    """Read a duration.

    Raises:
        InvalidInput: It is neither a finite number nor a timedelta.
    """
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if math.isfinite(number):
            return number
    raise InvalidInput(
        f"{name} is no duration.", name, shown(value), "Give seconds or a timedelta."
    )


def instant(name: str, value: Any) -> datetime:
    """Read a point in time and give it in UTC.

    A naive datetime is refused, since only its author knows the zone it was
    meant in. ``fold`` is respected (PEP 495).

    Raises:
        InvalidInput: It is no datetime, has no zone, or leaves the years 1 to 9999 in UTC.
    """
    if not isinstance(value, datetime):
        raise InvalidInput(f"{name} is no datetime.", name, shown(value), "Give an aware one.")
    if value.utcoffset() is None:
        raise InvalidInput(
            f"{name} has no time zone, so it could mean any instant of a day.",
            name,
            shown(value),
            "Give an aware datetime, for example datetime.now(UTC) + timedelta(hours=1).",
        )
    try:
        return value.astimezone(UTC)
    except OverflowError as error:
        raise InvalidInput(
            f"{name} is outside the years 1 to 9999 in UTC.", name, shown(value)
        ) from error


def integer(name: str, value: Any) -> int:
    """Read a whole number of 32 bits.

    Raises:
        InvalidInput: It is no such number.
    """
    if isinstance(value, int) and not isinstance(value, bool) and -(2**31) <= value < 2**31:
        return value
    raise InvalidInput(
        f"{name} is no whole number of 32 bits.", name, shown(value), "Give a small int."
    )


_GIVE_OBJECT = "Give a JSON object: in Python a dict."


def _metadata(name: str, value: Any) -> str:
    if not isinstance(value, Mapping):
        raise InvalidInput(f"{name} is no object.", name, shown(value), _GIVE_OBJECT)
    return encode_json(value, name).decode()


def _option(name: str, cast: str, read: Callable[[str, Any], Any]) -> Option:
    return Option(name, cast, read)


_TEXT = (
    "queue",
    "priority",
    "retry_backoff",
    "retry_jitter",
    "idempotency_key",
    "concurrency_key",
    "callback_url",
)
_SECONDS = ("delay", "retry_delay", "retry_max_delay", "timeout", "estimated_duration")

OPTIONS: dict[str, Option] = {
    **{name: _option(name, "text", check_text) for name in _TEXT},
    **{name: _option(f"{name}_seconds", "float8", seconds) for name in _SECONDS},
    **{f"{name}_seconds": _option(f"{name}_seconds", "float8", seconds) for name in _SECONDS},
    "max_retries": _option("max_retries", "int", integer),
    "scheduled_at": _option("scheduled_at", "timestamptz", instant),
    "expires_at": _option("expires_at", "timestamptz", instant),
    "metadata": _option("metadata", "jsonb", _metadata),
}
CASTS: dict[str, str] = {option.name: option.cast for option in OPTIONS.values()}


def read_options(*layers: Mapping[str, Any]) -> dict[str, Any]:
    """Merge options, the weakest layer first, and give the engine's names and values.

    None takes back what a weaker layer set. ``metadata`` is merged key by key.

    Raises:
        TypeError: No option has that name.
        InvalidInput: A value is refused, or one option is given under two names.
    """
    merged: dict[str, tuple[str, Any]] = {}
    metadata: dict[str, Any] = {}
    for layer in layers:
        given: dict[str, str] = {}
        for name, value in layer.items():
            if name in ("tenant", "tenant_id"):
                _set_tenant(metadata, name, value, layer.get("metadata"))
                continue
            option = OPTIONS.get(name)
            if option is None:
                raise TypeError(f"{name!r} is no option. Known: {', '.join(OPTIONS)}, tenant.")
            if name == "metadata":
                metadata.update(_checked_mapping(value))
                continue
            _once(given, option.name, name, value)
            merged[option.name] = (name, value)
    values = {
        known: OPTIONS[name].read(name, value)
        for known, (name, value) in merged.items()
        if value is not None
    }
    if metadata:
        values["metadata"] = _metadata("metadata", metadata)
    return values


def _once(given: dict[str, str], known: str, name: str, value: Any) -> None:
    if known in given:
        raise InvalidInput(
            f"{name} and {given[known]} are one option.", name, shown(value), "Give one."
        )
    given[known] = name


def _checked_mapping(value: Any) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidInput("metadata is no object.", "metadata", shown(value), _GIVE_OBJECT)
    return value


def _set_tenant(metadata: dict[str, Any], name: str, value: Any, beside: Any) -> None:
    if value is None:
        return
    tenant = check_text(name, value)
    other = beside.get("tenant_id", tenant) if isinstance(beside, Mapping) else tenant
    if other != tenant:
        raise InvalidInput(
            f"{name} and metadata.tenant_id differ.", name, shown(value), "Give one of them."
        )
    metadata["tenant_id"] = tenant

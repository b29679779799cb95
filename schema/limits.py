"""The limits that a task type may have: Python's names and values to the engine's."""

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, TypedDict

from .encode import check_text, shown
from .errors import InvalidInput
from .options import integer, seconds

_RATE = re.compile(
    r"\s*([0-9]{1,12}(\.[0-9]{1,9})?)\s*(/|per)?\s*"
    r"(s|sec|second|m|min|minute|h|hour|d|day)?\s*",
    re.ASCII | re.IGNORECASE,
)


class TypeLimits(TypedDict, total=False):
    """What may be said of a task type; what is left out stays as it is.

    Attributes:
        rate_limit: Starts over the whole fleet, such as ``100/s`` or ``10/min``.
        burst: Starts that may come at once; a second's worth by default.
        tenant_rate_limit: The same for each tenant.
        tenant_burst: The burst of each tenant.
        concurrency: The most that run at once over the fleet.
        key_concurrency: The most that run at once of one tenant and
            ``concurrency_key``; 1 by default.
        breaker_threshold: The share of failed attempts that opens the circuit breaker.
        breaker_window: Over how long the share is taken.
        breaker_minimum: With fewer attempts in it the breaker stays closed.
        breaker_cooldown: How long it stays open before probes.
        breaker_probes: How many tasks probe, and must succeed to close it.
    """

    rate_limit: str
    burst: float
    tenant_rate_limit: str
    tenant_burst: float
    concurrency: int
    key_concurrency: int
    breaker_threshold: float
    breaker_window: float | timedelta
    breaker_minimum: int
    breaker_cooldown: float | timedelta
    breaker_probes: int


class QueueSettings(TypedDict, total=False):
    """What may be set of a queue; what is left out stays as it is.

    Attributes:
        priority_order: ``weighted`` (70 / 25 / 5) or ``strict``.
        concurrency: The most tasks that run at once over the fleet; -1: no limit.
        paused: Whether nothing starts.
        actor: Who does it.
    """

    priority_order: str | None
    concurrency: int | None
    paused: bool | None
    actor: str | None


class TenantSettings(TypedDict, total=False):
    """What may be set of a tenant; what is left out stays as it is.

    Attributes:
        weight: Its share of capacity against other tenants, 1 to 1000.
        concurrency: The most of its tasks that run at once; -1: no limit.
        rates: Its own rates by task type; ``"none"`` takes one away.
        paused: Whether nothing of it starts.
        actor: Who does it.
    """

    weight: int | None
    concurrency: int | None
    rates: Mapping[str, str] | None
    paused: bool | None
    actor: str | None


def rate(name: str, value: Any) -> str:
    """Read a rate in words.

    Raises:
        InvalidInput: It is none.
    """
    text = check_text(name, value)
    if text.lower() != "none" and not _RATE.fullmatch(text):
        raise InvalidInput(
            f"{name} is not a rate.",
            name,
            shown(value),
            "Give a number per second, minute, hour or day, such as 100/s, 10/min or 1/hour.",
        )
    return text


# Python's name: the engine's name, its type, and the check.
LIMITS: dict[str, tuple[str, str, Any]] = {
    "rate_limit": ("rate_limit", "text", rate),
    "burst": ("burst", "float8", seconds),
    "tenant_rate_limit": ("tenant_rate_limit", "text", rate),
    "tenant_burst": ("tenant_burst", "float8", seconds),
    "concurrency": ("concurrency", "int", integer),
    "key_concurrency": ("key_concurrency", "int", integer),
    "breaker_threshold": ("breaker_threshold", "float8", seconds),
    "breaker_window": ("breaker_window_seconds", "float8", seconds),
    "breaker_minimum": ("breaker_minimum", "int", integer),
    "breaker_cooldown": ("breaker_cooldown_seconds", "float8", seconds),
    "breaker_probes": ("breaker_probes", "int", integer),
}


def read_limits(given: Mapping[str, Any]) -> dict[str, tuple[str, Any]]:
    """Give the engine's names with types and values; None is left out.

    Raises:
        InvalidInput: A value has the wrong type.
        TypeError: No limit has that name.
    """
    arguments = {}
    for name, value in given.items():
        if name not in LIMITS:
            raise TypeError(f"{name!r} is no limit. Known: {', '.join(LIMITS)}.")
        known, cast, read = LIMITS[name]
        if value is not None:
            arguments[known] = (cast, read(name, value))
    return arguments

"""Who runs next: the calls that set, read and explain it."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, TypeVar, Unpack
from uuid import UUID

import msgspec

from .call import Call, Rows, call, id_argument, text
from .encode import encode_json
from .limits import TypeLimits, rate, read_limits
from .options import integer, seconds

T = TypeVar("T")


class QueueState(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a queue and how it stands.

    Attributes:
        priority_order: ``weighted`` (70 / 25 / 5) or ``strict``.
        concurrency: The most tasks that run at once over the fleet; None: no limit.
        running: How many do; None where no limit counts them.
        depth: Waiting tasks, as last counted.
    """

    queue: str
    paused: bool
    priority_order: str
    concurrency: int | None = None
    running: int | None = None
    depth: int = 0
    depth_by_priority: dict[str, int] = {}
    oldest_waiting: datetime | None = None
    changed_at: datetime | None = None
    changed_by: str | None = None


class Breaker(msgspec.Struct, frozen=True, kw_only=True):
    """A circuit breaker: ``state`` is closed, open or half_open."""

    state: str
    since: datetime | None = None
    until: datetime | None = None
    reason: str | None = None
    manual: bool = False
    threshold: float | None = None
    window_seconds: float | None = None
    minimum: int | None = None
    cooldown_seconds: float | None = None
    probes: int | None = None


class TaskTypeState(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a task type and how it stands; names as in set_task_type.

    Attributes:
        set_by_application: The settings come from an application's code.
    """

    task_type: str
    paused: bool
    breaker: Breaker
    rate_limit: str | None = None
    burst: float | None = None
    tenant_rate_limit: str | None = None
    tenant_burst: float | None = None
    concurrency: int | None = None
    key_concurrency: int = 1
    running: int | None = None
    depth: int = 0
    set_by_application: bool = False
    changed_at: datetime | None = None
    changed_by: str | None = None


class TenantState(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a tenant and how it stands.

    Attributes:
        weight: Its share of capacity against other tenants with work.
        rates: Its own rates by task type.
    """

    tenant_id: str
    weight: int
    paused: bool
    concurrency: int | None = None
    running: int | None = None
    rates: dict[str, Any] = {}
    depth: int = 0
    changed_at: datetime | None = None
    changed_by: str | None = None


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """Why a task has not started.

    Attributes:
        waiting: False when it has started or ended.
        summary: All reasons in words, with what would start it.
        reasons: Each with ``code``, ``message``, ``starts_when`` and its numbers.
    """

    task_id: UUID
    status: str
    waiting: bool
    summary: str
    reasons: list[dict[str, Any]]
    expires_at: datetime | None = None


def _reads(kind: type[T]) -> Callable[[Rows], T]:
    decoder = msgspec.json.Decoder(kind)
    return lambda rows: decoder.decode(rows[0][0])


def _reads_all(kind: type[T]) -> Callable[[Rows], list[T]]:
    decoder = msgspec.json.Decoder(kind)
    return lambda rows: [decoder.decode(row[0]) for row in rows]


def _count(name: str, value: int | None) -> tuple[str, int | None]:
    return "int", None if value is None else integer(name, value)


def get_queue(queue: str) -> Call[QueueState]:
    """Read one queue."""
    arguments = {"queue": text("queue", queue)}
    return call("get_queue", "get_queue::text", _reads(QueueState), arguments, repeatable=True)


def list_queues(limit: int = 1000, after: str = "") -> Call[list[QueueState]]:
    """Read queues that have settings or tasks, by name after ``after``."""
    arguments = {"limit": _count("limit", limit), "after": text("after", after)}
    read = _reads_all(QueueState)
    return call("list_queues", "list_queues::text", read, arguments, repeatable=True)


def set_queue(
    queue: str,
    *,
    priority_order: str | None = None,
    concurrency: int | None = None,
    paused: bool | None = None,
    actor: str | None = None,
) -> Call[QueueState]:
    """Set what is given of a queue; ``concurrency=-1`` takes the limit away."""
    arguments = {
        "queue": text("queue", queue),
        "priority_order": text("priority_order", priority_order),
        "concurrency": _count("concurrency", concurrency),
        "paused": ("boolean", paused),
        "actor": text("actor", actor),
    }
    return call("set_queue", "set_queue::text", _reads(QueueState), arguments)


def get_task_type(task_type: str) -> Call[TaskTypeState]:
    """Read one task type."""
    arguments = {"task_type": text("task_type", task_type)}
    read = _reads(TaskTypeState)
    return call("get_task_type", "get_task_type::text", read, arguments, repeatable=True)


def list_task_types(limit: int = 1000, after: str = "") -> Call[list[TaskTypeState]]:
    """Read task types that have settings or tasks, by name after ``after``."""
    arguments = {"limit": _count("limit", limit), "after": text("after", after)}
    read = _reads_all(TaskTypeState)
    return call("list_task_types", "list_task_types::text", read, arguments, repeatable=True)


def set_task_type(
    task_type: str,
    *,
    paused: bool | None = None,
    actor: str | None = None,
    **limits: Unpack[TypeLimits],
) -> Call[TaskTypeState]:
    """Set what is given of a task type.

    ``rate_limit="none"``, ``concurrency=-1`` and ``breaker_threshold=-1`` take a limit away.
    """
    arguments = {
        "task_type": text("task_type", task_type),
        **read_limits(limits),
        "paused": ("boolean", paused),
        "actor": text("actor", actor),
    }
    return call("set_task_type", "set_task_type::text", _reads(TaskTypeState), arguments)


def declare_task_type(task_type: str, limits: Mapping[str, Any]) -> Call[bool]:
    """Tell what an application's code says of a type; an operator's word stands above it."""
    settings = {name: value for name, (_, value) in read_limits(limits).items()}
    arguments = {
        "task_type": text("task_type", task_type),
        "settings": ("jsonb", encode_json(settings, "settings").decode()),
    }
    return call("declare_task_type", "declare_task_type", lambda rows: bool(rows[0][0]), arguments)


def open_breaker(
    task_type: str,
    *,
    duration: float | None = None,
    reason: str | None = None,
    actor: str | None = None,
) -> Call[TaskTypeState]:
    """Open the circuit breaker of a type by hand; with ``duration`` probes follow."""
    arguments = {
        "task_type": text("task_type", task_type),
        "seconds": ("float8", None if duration is None else seconds("duration", duration)),
        "reason": text("reason", reason),
        "actor": text("actor", actor),
    }
    return call("open_breaker", "open_breaker::text", _reads(TaskTypeState), arguments)


def close_breaker(task_type: str, *, actor: str | None = None) -> Call[TaskTypeState]:
    """Close the circuit breaker of a type at once."""
    arguments = {"task_type": text("task_type", task_type), "actor": text("actor", actor)}
    return call("close_breaker", "close_breaker::text", _reads(TaskTypeState), arguments)


def get_tenant(tenant: str) -> Call[TenantState]:
    """Read one tenant."""
    arguments = {"tenant_id": text("tenant", tenant)}
    return call("get_tenant", "get_tenant::text", _reads(TenantState), arguments, repeatable=True)


def list_tenants(limit: int = 1000, after: str = "") -> Call[list[TenantState]]:
    """Read tenants that have settings or tasks, by name after ``after``."""
    arguments = {"limit": _count("limit", limit), "after": text("after", after)}
    read = _reads_all(TenantState)
    return call("list_tenants", "list_tenants::text", read, arguments, repeatable=True)


def set_tenant(
    tenant: str,
    *,
    weight: int | None = None,
    concurrency: int | None = None,
    rates: Mapping[str, str] | None = None,
    paused: bool | None = None,
    actor: str | None = None,
) -> Call[TenantState]:
    """Set what is given of a tenant; ``rates`` are by task type, ``"none"`` takes one away."""
    told = None if rates is None else {key: rate("rates", value) for key, value in rates.items()}
    arguments = {
        "tenant_id": text("tenant", tenant),
        "weight": _count("weight", weight),
        "concurrency": _count("concurrency", concurrency),
        "rates": ("jsonb", None if told is None else encode_json(told, "rates").decode()),
        "paused": ("boolean", paused),
        "actor": text("actor", actor),
    }
    return call("set_tenant", "set_tenant::text", _reads(TenantState), arguments)


def explain_waiting(task_id: UUID | str) -> Call[Waiting]:
    """Tell why a task has not started, and what would start it."""
    arguments = {"task_id": id_argument(task_id)}
    read = _reads(Waiting)
    return call("explain_waiting", "explain_waiting::text", read, arguments, repeatable=True)

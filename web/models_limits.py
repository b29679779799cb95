"""The shapes of queues, task types and tenants: what is set, and how they stand.

What is left out of a change stays as it is; null takes a limit away.
"""

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from ..schema import flow_calls
from .models import Name

# -1 takes it away as well: so says SQL.
Count = Annotated[int, Meta(ge=-1, le=1_000_000_000)]
Burst = Annotated[float, Meta(ge=1, le=1_000_000)]
Rate = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=50,
        description="Starts per second, minute, hour or day, such as 100/s, 10/min or 1/hour",
        examples=["100/s"],
    ),
]
Span = Annotated[float, Meta(ge=0, le=86_400)]
Positive = Annotated[int, Meta(ge=1, le=1_000_000)]


class QueueSettings(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What is to change of a queue. ``concurrency``: most tasks at once over the fleet."""

    priority_order: Literal["weighted", "strict"] | UnsetType = UNSET
    concurrency: Count | UnsetType | None = UNSET
    paused: bool | UnsetType = UNSET


class TaskTypeSettings(
    msgspec.Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """What is to change of a task type."""

    rate_limit: Rate | UnsetType | None = UNSET
    burst: Burst | UnsetType | None = UNSET
    tenant_rate_limit: Rate | UnsetType | None = UNSET
    tenant_burst: Burst | UnsetType | None = UNSET
    concurrency: Count | UnsetType | None = UNSET
    key_concurrency: Annotated[int, Meta(ge=0, le=1_000_000_000)] | UnsetType = UNSET
    breaker_threshold: Annotated[float, Meta(ge=-1, le=1)] | UnsetType | None = UNSET
    breaker_window_seconds: Annotated[float, Meta(ge=1, le=86_400)] | UnsetType = UNSET
    breaker_minimum: Positive | UnsetType = UNSET
    breaker_cooldown_seconds: Span | UnsetType = UNSET
    breaker_probes: Positive | UnsetType = UNSET
    paused: bool | UnsetType = UNSET


class TenantSettings(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What is to change of a tenant. ``rates`` are its own, by task type."""

    weight: Annotated[int, Meta(ge=1, le=1000)] | UnsetType = UNSET
    concurrency: Count | UnsetType | None = UNSET
    rates: Annotated[dict[Name, Rate | None], Meta(max_length=1000)] | UnsetType = UNSET
    paused: bool | UnsetType = UNSET


class BreakerOpening(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Why a circuit breaker is opened; with ``seconds`` probes follow, without a hand closes it."""

    seconds: Annotated[float, Meta(ge=0, le=31_536_000)] | None = None
    reason: Annotated[str, Meta(max_length=1000)] | None = None


class QueueView(flow_calls.QueueState, kw_only=True, frozen=True):
    """Settings of a queue and how it stands; depth and age are as last counted.

    ``pressure`` tells whether it is over its soft cap (high) or its hard cap (full).
    """

    pressure: Literal["none", "high", "full"]


class QueueList(msgspec.Struct, kw_only=True):
    """One page, by name. ``next_cursor`` null: this was the last one."""

    queues: list[QueueView]
    next_cursor: str | None


class TaskTypeList(msgspec.Struct, kw_only=True):
    """One page, by name. ``next_cursor`` null: this was the last one."""

    task_types: list[flow_calls.TaskTypeState]
    next_cursor: str | None


class TenantList(msgspec.Struct, kw_only=True):
    """One page, by name. ``next_cursor`` null: this was the last one."""

    tenants: list[flow_calls.TenantState]
    next_cursor: str | None


class QueueNeed(msgspec.Struct, kw_only=True):
    """What a queue needs. ``slots``: tasks that should run at once, before rounding and bounds."""

    queue: str
    desired_workers: int
    slots: float
    slots_per_worker: float
    depth: int
    held: int
    running: int
    oldest_seconds: float
    ends_per_second: float
    seconds_per_task: float
    workers: int


class Autoscale(msgspec.Struct, kw_only=True):
    """What all these queues need together, and each; ``counted_at``: when depth was counted."""

    desired_workers: int
    slots: float
    target_seconds: float
    queues: list[QueueNeed]
    counted_at: datetime | None


def changes(wish: Any) -> dict[str, Any]:
    """Give what was sent, by the engine's names; a null as the engine's word for no limit."""
    words = {"rate_limit": "none", "tenant_rate_limit": "none", "burst": None, "tenant_burst": None}
    told: dict[str, Any] = {}
    for name in wish.__struct_fields__:
        value = getattr(wish, name)
        if name == "rates" and value is not UNSET:
            told[name] = {task_type: rate or "none" for task_type, rate in value.items()}
        elif value is not UNSET:
            told[name] = words.get(name, -1) if value is None else value
    return told

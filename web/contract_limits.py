"""The contract of queues, task types and tenants: limits, weights, pauses, breakers."""

from typing import Any

from ..schema.flow_calls import TaskTypeState, TenantState, Waiting
from . import models_limits as m
from .contract_parts import (
    CURSOR,
    LIMIT,
    ONE_QUEUE,
    ONE_TASK,
    ONE_TENANT,
    ONE_TYPE,
    QUEUES,
    TASK_ID,
    TENANTS,
    TYPES,
    Answer,
    Operation,
)

_CHANGED = {"changed_at": "2026-04-03T17:00:00Z", "changed_by": "api:sk_00c0ffee"}
_QUEUE: dict[str, Any] = {
    "queue": "email-queue",
    "paused": False,
    "priority_order": "weighted",
    "concurrency": 50,
    "running": 12,
    "depth": 1204,
    "depth_by_priority": {"high": 4, "medium": 1200, "low": 0},
    "oldest_waiting": "2026-04-04T08:59:56.8Z",
    "pressure": "none",
    **_CHANGED,
}
_TYPE: dict[str, Any] = {
    "task_type": "send_email",
    "paused": False,
    "rate_limit": "100/s",
    "burst": 100.0,
    "tenant_rate_limit": None,
    "tenant_burst": None,
    "concurrency": 20,
    "key_concurrency": 1,
    "running": 7,
    "depth": 1204,
    "set_by_application": False,
    "breaker": {
        "state": "closed",
        "since": None,
        "until": None,
        "reason": None,
        "manual": False,
        "threshold": 0.5,
        "window_seconds": 60.0,
        "minimum": 20,
        "cooldown_seconds": 30.0,
        "probes": 1,
    },
    **_CHANGED,
}
_OPENED = {
    **_TYPE,
    "breaker": {
        **_TYPE["breaker"],
        "state": "open",
        "since": "2026-04-04T09:00:00Z",
        "reason": "the mail server is down",
        "manual": True,
    },
}
_TENANT: dict[str, Any] = {
    "tenant_id": "acme-corp",
    "weight": 10,
    "paused": False,
    "concurrency": None,
    "running": None,
    "rates": {"send_email": {"rate_limit": "10/s", "burst": 10}},
    "depth": 310,
    **_CHANGED,
}
_WAITING = {
    "task_id": TASK_ID,
    "status": "PENDING",
    "waiting": True,
    "summary": "Queue email-queue is paused by ann since 2026-04-04T08:00:00Z."
    " It starts when it is resumed.",
    "reasons": [
        {
            "code": "queue_paused",
            "message": "queue email-queue is paused by ann since 2026-04-04T08:00:00Z",
            "starts_when": "it is resumed",
            "since": "2026-04-04T08:00:00Z",
            "by": "ann",
        }
    ],
    "expires_at": None,
}


def _group(
    what: str, word: str, whole: str, one: str, shape: Any, page: Any, example: Any, settings: Any
) -> dict[tuple[str, str], Operation]:
    """Give the routes that queues, task types and tenants have alike."""
    name = what.replace(" ", "_")
    answer = Answer(f"The {what}.", shape, example)
    body, sample = settings
    paused = Answer(f"The {what}, paused.", shape, {**example, "paused": True})
    listed = {f"{name}s": [example], "next_cursor": None}
    fleet = name != "tenant"
    return {
        ("GET", whole): Operation(
            f"list_{name}s",
            "reader",
            f"List {what}s that have settings or waiting tasks, by name; depth is as last counted."
            + ("" if fleet else " A key that is bound to a tenant is shown that one."),
            {200: Answer("One page.", page, listed)},
            parameters=(LIMIT, CURSOR),
            fleet=fleet,
        ),
        ("GET", one): Operation(
            f"get_{name}",
            "reader",
            f"Read the settings of a {what} and how it stands. One that nobody has set has the"
            " defaults.",
            {200: answer},
            errors=() if fleet else ("not_found",),
            fleet=fleet,
        ),
        ("PUT", one): Operation(
            f"set_{name}",
            "operator",
            f"Set what is given of a {what}: {word}. What is left out stays; null takes a limit"
            " away.",
            {200: answer},
            body=body,
            body_examples=(sample,),
            fleet=True,
        ),
        ("POST", one + "/pause"): Operation(
            f"pause_{name}",
            "operator",
            f"Let nothing of a {what} start; what runs goes on, submissions are taken.",
            {200: paused},
            fleet=True,
        ),
        ("POST", one + "/resume"): Operation(
            f"resume_{name}",
            "operator",
            f"Let tasks of a {what} start again.",
            {200: answer},
            fleet=True,
        ),
    }


OPERATIONS: dict[tuple[str, str], Operation] = {
    **_group(
        "queue",
        "order of priorities, concurrency, pause",
        QUEUES,
        ONE_QUEUE,
        m.QueueView,
        m.QueueList,
        _QUEUE,
        (m.QueueSettings, {"priority_order": "strict", "concurrency": 50}),
    ),
    **_group(
        "task type",
        "rates, concurrency, circuit breaker, pause; an application's own are ignored then",
        TYPES,
        ONE_TYPE,
        TaskTypeState,
        m.TaskTypeList,
        _TYPE,
        (m.TaskTypeSettings, {"rate_limit": "100/s", "concurrency": 20, "breaker_threshold": 0.5}),
    ),
    **_group(
        "tenant",
        "weight, concurrency, its own rates by task type, pause",
        TENANTS,
        ONE_TENANT,
        TenantState,
        m.TenantList,
        _TENANT,
        (m.TenantSettings, {"weight": 10, "rates": {"send_email": "10/s"}}),
    ),
    ("POST", ONE_TYPE + "/breaker/open"): Operation(
        "open_breaker",
        "operator",
        "Open the circuit breaker of a task type: nothing of it starts until it is closed, or with"
        " `seconds` until then, when probes decide.",
        {200: Answer("The task type.", TaskTypeState, _OPENED)},
        body=m.BreakerOpening,
        body_required=False,
        body_examples=({"reason": "the mail server is down"},),
        fleet=True,
    ),
    ("POST", ONE_TYPE + "/breaker/close"): Operation(
        "close_breaker",
        "operator",
        "Close the circuit breaker of a task type at once.",
        {200: Answer("The task type.", TaskTypeState, _TYPE)},
        errors=("conflict",),
        fleet=True,
    ),
    ("GET", ONE_TASK + "/waiting"): Operation(
        "explain_waiting",
        "reader",
        "Tell why a task has not started, every reason in words and as data, and what would start"
        " it.",
        {200: Answer("Why it waits, or that it does not.", Waiting, _WAITING)},
        errors=("not_found",),
    ),
}

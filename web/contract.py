"""The contract of the API: every route with its role, shapes, examples and errors.

Handlers are registered by what stands here, so a route cannot be without an entry;
OpenAPI is written from it, and tests walk it.
"""

from . import (
    contract_analytics,
    contract_fleet,
    contract_flows,
    contract_limits,
    contract_tasks,
    contract_webhooks,
)
from . import models_flows as f
from .contract_parts import (
    CRON,
    DLQ,
    FLOWS,
    ONE_CRON,
    ONE_FLOW,
    ONE_QUEUE,
    ONE_TASK,
    ONE_TENANT,
    ONE_TYPE,
    QUEUES,
    TASKS,
    TENANTS,
    TYPES,
    Answer,
    Operation,
    Parameter,
)

OPERATIONS: dict[tuple[str, str], Operation] = {
    **contract_tasks.OPERATIONS,
    **contract_flows.OPERATIONS,
    **contract_limits.OPERATIONS,
    **contract_fleet.OPERATIONS,
    **contract_webhooks.OPERATIONS,
    **contract_analytics.OPERATIONS,
}

_POST = OPERATIONS["POST", TASKS]
OPERATIONS["POST", TASKS] = _POST._replace(
    answers={
        **_POST.answers,
        201: Answer("With schedule_recurring: the schedule.", f.ScheduleMade, contract_flows.MADE),
    },
    other_body=f.RecurringTask,
    parameters=(
        *_POST.parameters,
        Parameter(
            "schedule_recurring",
            {"type": "boolean", "default": False},
            "Make a schedule instead: the body has `schedule`, a cron expression.",
        ),
    ),
    errors=(*_POST.errors, "conflict"),
)

__all__ = [
    "CRON",
    "DLQ",
    "FLOWS",
    "ONE_CRON",
    "ONE_FLOW",
    "ONE_QUEUE",
    "ONE_TASK",
    "ONE_TENANT",
    "ONE_TYPE",
    "OPERATIONS",
    "QUEUES",
    "TASKS",
    "TENANTS",
    "TYPES",
    "Answer",
    "Operation",
]

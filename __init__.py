"""Skiplane: a distributed task scheduler that lives in PostgreSQL."""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0.dev0"

if TYPE_CHECKING:
    from .app import Skiplane
    from .handle import Handle
    from .schema.errors import (
        Conflict,
        IdempotencyConflict,
        InvalidInput,
        LeaseLost,
        NotAllowed,
        NotFound,
        NotInstalled,
        PermanentError,
        Postpone,
        Retry,
        SkiplaneError,
        StaleVersion,
        TaskCancelled,
        TaskFailed,
        TooLarge,
        Unavailable,
        WorkflowFailed,
    )
    from .schema.records import Status, TaskRecord
    from .schema.workflow_records import WorkflowRecord, WorkflowStatus
    from .task import Task
    from .worker.context import Context, SyncContext
    from .workflows.builder import Workflow, workflow
    from .workflows.handle import WorkflowHandle
    from .workflows.steps import chain, group, step

# Loaded when first asked for: `skiplane --help` needs no database driver.
_HOMES = {
    "Skiplane": "app",
    "Task": "task",
    "Handle": "handle",
    "Context": "worker.context",
    "SyncContext": "worker.context",
    "Status": "schema.records",
    "TaskRecord": "schema.records",
    "SkiplaneError": "schema.errors",
    "InvalidInput": "schema.errors",
    "NotFound": "schema.errors",
    "Conflict": "schema.errors",
    "IdempotencyConflict": "schema.errors",
    "StaleVersion": "schema.errors",
    "LeaseLost": "schema.errors",
    "TooLarge": "schema.errors",
    "NotAllowed": "schema.errors",
    "Unavailable": "schema.errors",
    "NotInstalled": "schema.errors",
    "TaskFailed": "schema.errors",
    "TaskCancelled": "schema.errors",
    "Retry": "schema.errors",
    "Postpone": "schema.errors",
    "PermanentError": "schema.errors",
    "WorkflowFailed": "schema.errors",
    "WorkflowRecord": "schema.workflow_records",
    "WorkflowStatus": "schema.workflow_records",
    "Workflow": "workflows.builder",
    "WorkflowHandle": "workflows.handle",
    "workflow": "workflows.builder",
    "chain": "workflows.steps",
    "group": "workflows.steps",
    "step": "workflows.steps",
}

__all__ = [
    "Skiplane",
    "Task",
    "Handle",
    "Context",
    "SyncContext",
    "Status",
    "TaskRecord",
    "SkiplaneError",
    "InvalidInput",
    "NotFound",
    "Conflict",
    "IdempotencyConflict",
    "StaleVersion",
    "LeaseLost",
    "TooLarge",
    "NotAllowed",
    "Unavailable",
    "NotInstalled",
    "TaskFailed",
    "TaskCancelled",
    "Retry",
    "Postpone",
    "PermanentError",
    "WorkflowFailed",
    "WorkflowRecord",
    "WorkflowStatus",
    "Workflow",
    "WorkflowHandle",
    "workflow",
    "chain",
    "group",
    "step",
    "__version__",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

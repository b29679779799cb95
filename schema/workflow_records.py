"""What the engine says of workflows. Every time is an aware datetime in UTC."""

from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

import msgspec

from .records import Action, Status


class WorkflowStatus(StrEnum):
    """The states of a workflow."""

    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"

    @property
    def final(self) -> bool:
        """Whether nothing but a retry moves the workflow on."""
        return self is not WorkflowStatus.RUNNING


class SubmittedTask(msgspec.Struct, frozen=True):
    """One task of a workflow that was submitted."""

    name: str
    task_id: UUID
    status: Status


class SubmittedWorkflow(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a submission.

    Attributes:
        duplicate: An earlier submission with the same idempotency key made this
            workflow; this one added nothing.
    """

    workflow_id: UUID
    workflow_name: str = ""
    status: WorkflowStatus
    created_at: datetime | None = None
    duplicate: bool = False
    tasks: list[SubmittedTask] = []


class WorkflowRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A workflow as every door shows it.

    Attributes:
        pending: Tasks that have not ended.
        tasks: How many of its tasks are in which state. Empty in lists.
        dag_definition: Its tasks as submitted, without payloads. Empty in lists.
        cursor: The workflow's place in a list; pass it to get the rows after it.
    """

    workflow_id: UUID
    workflow_name: str
    status: WorkflowStatus
    tenant_id: str = "default"
    task_count: int
    pending: int
    created_at: datetime
    completed_at: datetime | None = None
    duration_ms: float | None = None
    idempotency_key: str | None = None
    metadata: Any = None
    tasks: dict[str, int] = {}
    dag_definition: list[dict[str, Any]] = []
    actions: list[Action] = []
    cursor: str | None = None


class GraphNode(msgspec.Struct, frozen=True, kw_only=True):
    """A task in the picture of its workflow."""

    name: str
    task_id: UUID
    task_type: str
    queue: str
    status: Status
    trigger: str = "all_success"
    attempt: int = 0
    started_at: datetime | None = None
    completed_at: datetime | None = None
    next_attempt_at: datetime | None = None
    error_type: str | None = None
    error_message: str | None = None


class GraphEdge(msgspec.Struct, frozen=True):
    """An arrow, by names: ``target`` depends on ``source``."""

    source: str
    target: str


class WorkflowGraph(WorkflowRecord, frozen=True, kw_only=True):
    """A workflow with all that its picture needs; the nodes in the order of submission."""

    nodes: list[GraphNode] = []
    edges: list[GraphEdge] = []

"""Workflows from an app, each verb async and sync.

Every verb takes ``connection``, as in submitting. ``reason`` and ``actor`` are
kept in the workflow's history; without an actor it is the database's user.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, cast
from uuid import UUID

from ..schema import workflow_calls as calls
from ..schema.call import Call, as_uuid
from ..schema.errors import InvalidInput
from ..schema.workflow_records import SubmittedWorkflow, WorkflowGraph, WorkflowRecord
from ..submitting import Submitting
from .builder import Workflow
from .handle import WorkflowHandle

if TYPE_CHECKING:
    from ..app import Skiplane


class WorkflowFilter(TypedDict, total=False):
    """Which workflows to list."""

    status: str | Sequence[str] | None
    name: str | None
    tenant: str | None
    created_after: datetime | None
    created_before: datetime | None
    limit: int
    cursor: str | None


class WorkflowVerbs(Submitting):
    """The verbs of workflows."""

    def workflow(self, name: str) -> Workflow:
        """Begin a workflow, see Workflow."""
        return Workflow(name, cast("Skiplane", self))

    def workflow_handle(self, workflow_id: UUID | str) -> WorkflowHandle:
        """Make a handle from a workflow's id. Nothing is looked up."""
        return WorkflowHandle(cast("Skiplane", self), as_uuid(workflow_id))

    async def submit_workflow(
        self,
        name: str,
        tasks: Sequence[Mapping[str, Any]],
        *,
        idempotency_key: str | None = None,
        tenant: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        connection: Any = None,
    ) -> WorkflowHandle:
        """Submit a workflow that is written down as dicts.

        Args:
            name: Its name.
            tasks: For each ``name``, ``task_type``, ``payload``, ``dependencies``,
                ``trigger`` and any options.
            idempotency_key: A second submission with it gives the first workflow.
            tenant: Tenant of the workflow and its tasks.
            metadata: Goes to every task.
            connection: Submit inside the transaction that is open there.

        Raises:
            InvalidInput: A cycle, an unknown name, or a refused option.
            IdempotencyConflict: The key was used with another body.
        """
        options = {"idempotency_key": idempotency_key, "tenant": tenant, "metadata": metadata}
        answer = await self.run(calls.submit_workflow(name, tasks, options), connection)
        app = cast("Skiplane", self)
        return WorkflowHandle(app, answer.workflow_id, answer, pending=connection is not None)

    def submit_workflow_sync(
        self,
        name: str,
        tasks: Sequence[Mapping[str, Any]],
        *,
        idempotency_key: str | None = None,
        tenant: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        connection: Any = None,
    ) -> WorkflowHandle:
        """Do what ``submit_workflow`` does, without an event loop."""
        options = {"idempotency_key": idempotency_key, "tenant": tenant, "metadata": metadata}
        answer = self.run_sync(calls.submit_workflow(name, tasks, options), connection)
        app = cast("Skiplane", self)
        return WorkflowHandle(app, answer.workflow_id, answer, pending=connection is not None)

    async def submit_workflows(
        self,
        flows: Iterable[Workflow],
        *,
        idempotency_keys: Sequence[str | None] | None = None,
        tenant: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        connection: Any = None,
    ) -> list[WorkflowHandle]:
        """Submit many workflows in one round trip: all or none.

        Several times as fast as one by one, most of all for workflows that follow
        each other and differ only in the arguments of their tasks.

        Args:
            flows: Up to 10,000 workflows, as the builder has made them.
            idempotency_keys: A key, or None, for each.
            tenant: Tenant of all of them.
            metadata: Goes to every task.
            connection: Submit inside the transaction that is open there.

        Returns:
            Their handles, in order.

        Raises:
            InvalidInput: One of them is refused; the field names its place.
            IdempotencyConflict: A key was used with another body.
        """
        call = _many(flows, idempotency_keys, tenant, metadata)
        return self._handles(await self.run(call, connection), connection)

    def submit_workflows_sync(
        self,
        flows: Iterable[Workflow],
        *,
        idempotency_keys: Sequence[str | None] | None = None,
        tenant: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        connection: Any = None,
    ) -> list[WorkflowHandle]:
        """Do what ``submit_workflows`` does, without an event loop."""
        call = _many(flows, idempotency_keys, tenant, metadata)
        return self._handles(self.run_sync(call, connection), connection)

    def _handles(self, answers: list[SubmittedWorkflow], connection: Any) -> list[WorkflowHandle]:
        app = cast("Skiplane", self)
        pending = connection is not None
        return [WorkflowHandle(app, one.workflow_id, one, pending=pending) for one in answers]

    async def get_workflow(
        self, workflow_id: UUID | str, *, connection: Any = None
    ) -> WorkflowRecord:
        """Read a workflow, with the number of its tasks in each state.

        Raises:
            NotFound: There is no such workflow.
        """
        return await self.run(calls.get_workflow(workflow_id), connection)

    def get_workflow_sync(
        self, workflow_id: UUID | str, *, connection: Any = None
    ) -> WorkflowRecord:
        """Do what ``get_workflow`` does, without an event loop."""
        return self.run_sync(calls.get_workflow(workflow_id), connection)

    async def workflow_graph(
        self, workflow_id: UUID | str, *, connection: Any = None
    ) -> WorkflowGraph:
        """Read a workflow with its nodes and edges."""
        return await self.run(calls.workflow_graph(workflow_id), connection)

    def workflow_graph_sync(
        self, workflow_id: UUID | str, *, connection: Any = None
    ) -> WorkflowGraph:
        """Do what ``workflow_graph`` does, without an event loop."""
        return self.run_sync(calls.workflow_graph(workflow_id), connection)

    async def list_workflows(
        self, *, connection: Any = None, **only: Unpack[WorkflowFilter]
    ) -> list[WorkflowRecord]:
        """Read workflows, the newest first; pass the last one's ``cursor`` for the next page."""
        return await self.run(calls.list_workflows(**only), connection)

    def list_workflows_sync(
        self, *, connection: Any = None, **only: Unpack[WorkflowFilter]
    ) -> list[WorkflowRecord]:
        """Do what ``list_workflows`` does, without an event loop."""
        return self.run_sync(calls.list_workflows(**only), connection)

    async def cancel_workflow(
        self,
        workflow_id: UUID | str,
        reason: str | None = None,
        *,
        actor: str | None = None,
        connection: Any = None,
    ) -> WorkflowRecord:
        """Cancel all tasks of a workflow that have not ended.

        Raises:
            NotFound: There is no such workflow.
            Conflict: It has ended.
        """
        return await self.run(calls.cancel_workflow(workflow_id, reason, actor), connection)

    def cancel_workflow_sync(
        self,
        workflow_id: UUID | str,
        reason: str | None = None,
        *,
        actor: str | None = None,
        connection: Any = None,
    ) -> WorkflowRecord:
        """Do what ``cancel_workflow`` does, without an event loop."""
        return self.run_sync(calls.cancel_workflow(workflow_id, reason, actor), connection)

    async def retry_workflow(
        self,
        workflow_id: UUID | str,
        reason: str | None = None,
        *,
        actor: str | None = None,
        connection: Any = None,
    ) -> WorkflowRecord:
        """Run again what failed in a workflow, and what did not run because of it.

        Raises:
            NotFound: There is no such workflow.
            Conflict: Nothing in it has failed.
        """
        return await self.run(calls.retry_workflow(workflow_id, reason, actor), connection)

    def retry_workflow_sync(
        self,
        workflow_id: UUID | str,
        reason: str | None = None,
        *,
        actor: str | None = None,
        connection: Any = None,
    ) -> WorkflowRecord:
        """Do what ``retry_workflow`` does, without an event loop."""
        return self.run_sync(calls.retry_workflow(workflow_id, reason, actor), connection)


def _many(
    flows: Iterable[Workflow],
    keys: Sequence[str | None] | None,
    tenant: str | None,
    metadata: Mapping[str, Any] | None,
) -> Call[list[SubmittedWorkflow]]:
    flows = list(flows)
    if keys is not None and len(keys) != len(flows):
        raise InvalidInput(
            f"There are {len(keys)} keys for {len(flows)} workflows.",
            "idempotency_keys",
            str(len(keys)),
            "Give one, or None, for each.",
        )
    shared = {"tenant": tenant, "metadata": metadata}
    return calls.submit_workflows(
        (flow.name, flow.documents(), {**shared, "idempotency_key": key})
        for flow, key in zip(flows, keys or [None] * len(flows), strict=True)
    )

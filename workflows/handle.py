"""A submitted workflow, as its submitter holds it."""

import asyncio
import time
from typing import TYPE_CHECKING, Any
from uuid import UUID

from ..handle import FIRST_POLL, LAST_POLL, Handle
from ..schema import workflow_calls as calls
from ..schema.errors import NotFound, WorkflowFailed
from ..schema.records import Result, Status
from ..schema.workflow_records import (
    SubmittedWorkflow,
    WorkflowGraph,
    WorkflowRecord,
    WorkflowStatus,
)

if TYPE_CHECKING:
    from ..app import Skiplane

_GROWTH = 1.5


class WorkflowHandle:
    """A workflow that was submitted.

    Args:
        app: The app that talks to its database.
        workflow_id: The workflow.
        submitted: The engine's answer to the submission, None when only the id is known.
        pending: The caller's transaction may not be committed yet, so that an
            unknown id is no error.
    """

    __slots__ = ("_app", "_pending", "id", "submitted")

    def __init__(
        self,
        app: "Skiplane",
        workflow_id: UUID,
        submitted: SubmittedWorkflow | None = None,
        *,
        pending: bool = False,
    ) -> None:
        self.id = workflow_id
        self.submitted = submitted
        self._app = app
        self._pending = pending

    def __repr__(self) -> str:
        return f"WorkflowHandle({str(self.id)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WorkflowHandle) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    @property
    def duplicate(self) -> bool:
        """Whether an earlier submission with the same idempotency key made the workflow."""
        return self.submitted is not None and self.submitted.duplicate

    @property
    def tasks(self) -> dict[str, Handle[Any]]:
        """Handles of its tasks, by name; empty for a handle that was made from an id."""
        found = self.submitted.tasks if self.submitted is not None else ()
        return {task.name: Handle(self._app, task.task_id, pending=self._pending) for task in found}

    async def wait(self, timeout: float | None = None) -> WorkflowRecord:  # noqa: ASYNC109 - the sync face has it too
        """Wait until the workflow has ended, whichever way, and read it.

        Args:
            timeout: Seconds to wait at most; None waits for ever.

        Raises:
            TimeoutError: It has not ended in time. It goes on.
            NotFound: There is no such workflow.
        """
        try:
            async with asyncio.timeout(timeout):
                pause = FIRST_POLL
                while not self._ended(await self._ask()):
                    await asyncio.sleep(pause)
                    pause = min(LAST_POLL, pause * _GROWTH)
        except TimeoutError:
            raise TimeoutError(_late(self.id, timeout)) from None
        return await self.get()

    def wait_sync(self, timeout: float | None = None) -> WorkflowRecord:
        """Do what ``wait`` does, without an event loop."""
        end = None if timeout is None else time.monotonic() + timeout
        pause = FIRST_POLL
        while not self._ended(self._ask_sync()):
            if end is not None and time.monotonic() >= end:
                raise TimeoutError(_late(self.id, timeout))
            time.sleep(pause if end is None else max(0.0, min(pause, end - time.monotonic())))
            pause = min(LAST_POLL, pause * _GROWTH)
        return self.get_sync()

    async def results(self, timeout: float | None = None) -> dict[str, Any]:  # noqa: ASYNC109
        """Wait for the workflow's success and give what its tasks returned, by name.

        Tasks that were skipped are left out.

        Raises:
            WorkflowFailed: It ended FAILED or CANCELLED; says which task was the cause.
            TimeoutError: It has not ended in time. It goes on.
        """
        record = await self.wait(timeout)
        return _results(record, await self._app.run(calls.workflow_results(self.id)))

    def results_sync(self, timeout: float | None = None) -> dict[str, Any]:
        """Do what ``results`` does, without an event loop."""
        record = self.wait_sync(timeout)
        return _results(record, self._app.run_sync(calls.workflow_results(self.id)))

    async def status(self) -> WorkflowStatus:
        """Read the workflow's state."""
        return await self._app.run(calls.workflow_status(self.id))

    def status_sync(self) -> WorkflowStatus:
        """Do what ``status`` does, without an event loop."""
        return self._app.run_sync(calls.workflow_status(self.id))

    async def get(self) -> WorkflowRecord:
        """Read the workflow, with the number of its tasks in each state."""
        return await self._app.run(calls.get_workflow(self.id))

    def get_sync(self) -> WorkflowRecord:
        """Do what ``get`` does, without an event loop."""
        return self._app.run_sync(calls.get_workflow(self.id))

    async def graph(self) -> WorkflowGraph:
        """Read the workflow with its nodes, edges, states and times."""
        return await self._app.run(calls.workflow_graph(self.id))

    def graph_sync(self) -> WorkflowGraph:
        """Do what ``graph`` does, without an event loop."""
        return self._app.run_sync(calls.workflow_graph(self.id))

    async def cancel(self, reason: str | None = None) -> WorkflowRecord:
        """Cancel all its tasks that have not ended.

        Raises:
            Conflict: It has ended.
        """
        return await self._app.run(calls.cancel_workflow(self.id, reason))

    def cancel_sync(self, reason: str | None = None) -> WorkflowRecord:
        """Do what ``cancel`` does, without an event loop."""
        return self._app.run_sync(calls.cancel_workflow(self.id, reason))

    async def retry(self, reason: str | None = None) -> WorkflowRecord:
        """Run again what failed, and what did not run because of it.

        Raises:
            Conflict: Nothing in it has failed.
        """
        return await self._app.run(calls.retry_workflow(self.id, reason))

    def retry_sync(self, reason: str | None = None) -> WorkflowRecord:
        """Do what ``retry`` does, without an event loop."""
        return self._app.run_sync(calls.retry_workflow(self.id, reason))

    async def _ask(self) -> WorkflowStatus | None:
        try:
            return await self.status()
        except NotFound:
            if not self._pending:
                raise
        return None

    def _ask_sync(self) -> WorkflowStatus | None:
        try:
            return self.status_sync()
        except NotFound:
            if not self._pending:
                raise
        return None

    @staticmethod
    def _ended(status: WorkflowStatus | None) -> bool:
        return status is not None and status.final


def _late(workflow_id: UUID, timeout: float | None) -> str:
    return f"Workflow {workflow_id} has not ended within {timeout:g} seconds."


def _results(record: WorkflowRecord, found: dict[str, Result]) -> dict[str, Any]:
    if record.status is WorkflowStatus.SUCCEEDED:
        return {name: one.result for name, one in found.items() if one.status is Status.SUCCEEDED}
    followers = ("UpstreamFailed", "Skipped")
    bad = {name: one for name, one in found.items() if one.done and one.status != "SUCCEEDED"}
    causes = [name for name, one in bad.items() if one.error_type not in followers]
    name = next(iter(causes or bad), None)
    cause = f": task {name!r} ended {bad[name].status}: {bad[name].error_message}" if name else ""
    raise WorkflowFailed(
        f"Workflow {record.workflow_id} ended {record.status}{cause}", str(record.status), name
    )

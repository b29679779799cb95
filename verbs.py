"""Looking at tasks and steering them from an app, each verb async and sync.

Every verb takes ``connection``, as in submitting. ``reason`` and ``actor`` are
kept in the task's history; without an actor it is the database's user.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, cast
from uuid import UUID

from .handle import Handle
from .schema import task_calls
from .schema.call import as_uuid
from .schema.options import SubmitOptions
from .schema.records import DeadLetter, TaskRecord
from .submitting import Submitting

if TYPE_CHECKING:
    from .app import Skiplane

Tasks = list[TaskRecord]  # inside the class, `list` is the verb
DeadLetters = list[DeadLetter]


class Filter(TypedDict, total=False):
    """Which tasks to list."""

    status: str | Sequence[str] | None
    task_type: str | None
    queue: str | None
    tenant: str | None
    created_after: datetime | None
    created_before: datetime | None
    limit: int
    cursor: str | None


class DeadFilter(TypedDict, total=False):
    """Which dead letters to take."""

    task_type: str | None
    queue: str | None
    tenant: str | None


class DeadPage(DeadFilter, total=False):
    """Which dead letters to list."""

    limit: int
    cursor: str | None


class Edit(SubmitOptions, total=False):
    """What can be changed while a task has not started."""

    payload: Any


class Verbs(Submitting):
    """The verbs that need a task's id, or a filter."""

    def handle(self, task_id: UUID | str) -> Handle[Any]:
        """Make a handle from a task's id. Nothing is looked up."""
        return Handle(cast("Skiplane", self), as_uuid(task_id))

    async def get(self, task_id: UUID | str, *, connection: Any = None) -> TaskRecord:
        """Read a task with its attempts.

        Raises:
            NotFound: There is no such task.
        """
        return await self.run(task_calls.get_task(task_id), connection)

    def get_sync(self, task_id: UUID | str, *, connection: Any = None) -> TaskRecord:
        """Do what ``get`` does, without an event loop."""
        return self.run_sync(task_calls.get_task(task_id), connection)

    async def list(self, *, connection: Any = None, **only: Unpack[Filter]) -> Tasks:
        """Read tasks, the newest first; pass the last one's ``cursor`` for the next page."""
        return await self.run(task_calls.list_tasks(**only), connection)

    def list_sync(self, *, connection: Any = None, **only: Unpack[Filter]) -> Tasks:
        """Do what ``list`` does, without an event loop."""
        return self.run_sync(task_calls.list_tasks(**only), connection)

    async def cancel(
        self,
        task_id: UUID | str,
        reason: str | None = None,
        *,
        actor: str | None = None,
        connection: Any = None,
    ) -> TaskRecord:
        """Cancel a task. A running one is told to stop.

        Raises:
            NotFound: There is no such task.
            Conflict: It has ended.
        """
        return await self.run(task_calls.cancel_task(task_id, reason, actor), connection)

    def cancel_sync(
        self,
        task_id: UUID | str,
        reason: str | None = None,
        *,
        actor: str | None = None,
        connection: Any = None,
    ) -> TaskRecord:
        """Do what ``cancel`` does, without an event loop."""
        return self.run_sync(task_calls.cancel_task(task_id, reason, actor), connection)

    async def retry(
        self,
        task_id: UUID | str,
        reason: str | None = None,
        *,
        actor: str | None = None,
        connection: Any = None,
    ) -> TaskRecord:
        """Run a FAILED, DEAD or CANCELLED task again, with a fresh budget of attempts.

        Raises:
            NotFound: There is no such task.
            Conflict: It is in another state.
        """
        return await self.run(task_calls.retry_task(task_id, reason, actor), connection)

    def retry_sync(
        self,
        task_id: UUID | str,
        reason: str | None = None,
        *,
        actor: str | None = None,
        connection: Any = None,
    ) -> TaskRecord:
        """Do what ``retry`` does, without an event loop."""
        return self.run_sync(task_calls.retry_task(task_id, reason, actor), connection)

    async def edit(
        self,
        task_id: UUID | str,
        version: int,
        *,
        actor: str | None = None,
        connection: Any = None,
        **fields: Unpack[Edit],
    ) -> TaskRecord:
        """Change a task that has not started.

        Args:
            task_id: The task.
            version: The version that was read; an edit in between is an error.
            actor: Who does it.
            connection: Edit inside the transaction that is open there.
            fields: What to change, named as in submit, and ``payload``.

        Raises:
            StaleVersion: Somebody edited it in between.
            Conflict: It has started.
        """
        return await self.run(task_calls.edit_task(task_id, version, fields, actor), connection)

    def edit_sync(
        self,
        task_id: UUID | str,
        version: int,
        *,
        actor: str | None = None,
        connection: Any = None,
        **fields: Unpack[Edit],
    ) -> TaskRecord:
        """Do what ``edit`` does, without an event loop."""
        return self.run_sync(task_calls.edit_task(task_id, version, fields, actor), connection)

    async def dead_letters(
        self, *, connection: Any = None, **only: Unpack[DeadPage]
    ) -> DeadLetters:
        """Read dead letters, the newest first; pass the last one's ``cursor`` for the next page."""
        return await self.run(task_calls.list_dead_letters(**only), connection)

    def dead_letters_sync(self, *, connection: Any = None, **only: Unpack[DeadPage]) -> DeadLetters:
        """Do what ``dead_letters`` does, without an event loop."""
        return self.run_sync(task_calls.list_dead_letters(**only), connection)

    async def retry_dead_letter(
        self,
        task_id: UUID | str,
        reason: str | None = None,
        *,
        actor: str | None = None,
        connection: Any = None,
    ) -> TaskRecord:
        """Run a dead letter again. Raises NotFound when it is none."""
        return await self.run(task_calls.retry_dead_letter(task_id, reason, actor), connection)

    def retry_dead_letter_sync(
        self,
        task_id: UUID | str,
        reason: str | None = None,
        *,
        actor: str | None = None,
        connection: Any = None,
    ) -> TaskRecord:
        """Do what ``retry_dead_letter`` does, without an event loop."""
        return self.run_sync(task_calls.retry_dead_letter(task_id, reason, actor), connection)

    async def discard_dead_letter(
        self,
        task_id: UUID | str,
        reason: str | None = None,
        *,
        actor: str | None = None,
        connection: Any = None,
    ) -> TaskRecord:
        """Take a dead letter out of the queue for good. Raises NotFound when it is none."""
        return await self.run(task_calls.discard_dead_letter(task_id, reason, actor), connection)

    def discard_dead_letter_sync(
        self,
        task_id: UUID | str,
        reason: str | None = None,
        *,
        actor: str | None = None,
        connection: Any = None,
    ) -> TaskRecord:
        """Do what ``discard_dead_letter`` does, without an event loop."""
        return self.run_sync(task_calls.discard_dead_letter(task_id, reason, actor), connection)

    async def retry_dead_letters(
        self, *, actor: str | None = None, connection: Any = None, **only: Unpack[DeadFilter]
    ) -> int:
        """Run all dead letters of a filter again, in batches, and give their number."""
        total = 0
        while count := await self.run(
            task_calls.retry_dead_letters(**only, actor=actor), connection
        ):
            total += count
        return total

    def retry_dead_letters_sync(
        self, *, actor: str | None = None, connection: Any = None, **only: Unpack[DeadFilter]
    ) -> int:
        """Do what ``retry_dead_letters`` does, without an event loop."""
        total = 0
        while count := self.run_sync(
            task_calls.retry_dead_letters(**only, actor=actor), connection
        ):
            total += count
        return total

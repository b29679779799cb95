"""What a task function can ask and say while it runs.

``Context`` is for ``async def`` functions, ``SyncContext`` for ``def``; both have
the same names.

A success inside the task's own transaction: everything that is written through
the connection of ``transaction()`` and the task's success commit together, or
neither does, which makes the task exactly once. The function's return value is
not known yet when that happens, so the result is what ``set_result`` was given
inside the block, else null; what the function returns or raises after the block
changes nothing any more. When the attempt has lost its lease meanwhile, the
block is rolled back and ends with LeaseLost.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from time import monotonic
from typing import Any, Protocol

import msgspec
import structlog

from ..schema import holder_calls as calls
from ..schema import workflow_calls
from ..schema.connect import AsyncConnection, SyncConnection
from ..schema.errors import LeaseLost, translating
from ..schema.holder_calls import Holder
from ..schema.pools import AsyncPool, SyncPool
from ..schema.records import Result, Status
from .document import ClaimedTask
from .outcome import encode_result


class Attempt(Protocol):
    """The running attempt behind a context."""

    task: ClaimedTask
    recorded: bool
    started: float

    @property
    def stop(self) -> Any: ...

    @property
    def lease_id(self) -> int: ...

    @property
    def shard(self) -> int: ...

    @property
    def deadline(self) -> float | None: ...


class _Common:
    """What both kinds of context share."""

    __slots__ = ("_attempt", "_result", "_worker_id")

    def __init__(self, attempt: Attempt, worker_id: str) -> None:
        self._attempt = attempt
        self._worker_id = worker_id
        self._result = "null"

    @property
    def task_id(self) -> str:
        """The task's id."""
        return self._attempt.task.task_id

    @property
    def task_type(self) -> str:
        """The task's type."""
        return self._attempt.task.task_type

    @property
    def queue(self) -> str:
        """The queue that it came from."""
        return self._attempt.task.queue

    @property
    def attempt(self) -> int:
        """Which try this is, from 1."""
        return self._attempt.task.attempt

    @property
    def fence(self) -> int:
        """A number that grows with every claim of this task.

        Pass it to systems that can refuse what an older attempt sends late.
        """
        return self._attempt.task.fence

    @property
    def tenant_id(self) -> str:
        """The tenant that the task belongs to."""
        return self._attempt.task.tenant_id

    @property
    def workflow_id(self) -> str | None:
        """The workflow that the task belongs to, None for a single task."""
        return self._attempt.task.workflow_id

    @property
    def metadata(self) -> dict[str, Any]:
        """What was submitted as metadata; empty when nothing was."""
        raw = self._attempt.task.metadata
        return dict(msgspec.json.decode(raw) or {}) if raw is not None else {}

    @property
    def last_checkpoint(self) -> Any:
        """What an earlier attempt saved last, None when nothing was saved."""
        raw = self._attempt.task.checkpoint
        return msgspec.json.decode(raw) if raw is not None else None

    @property
    def deadline(self) -> float | None:
        """When the time-out strikes, on the clock of time.monotonic(); None without one."""
        return self._attempt.deadline

    @property
    def cancelled(self) -> bool:
        """Whether the task should stop: cancelled, out of time, or the worker stops."""
        return self._attempt.stop is not None

    @property
    def log(self) -> structlog.stdlib.BoundLogger:
        """A structured logger that knows the task."""
        logger: structlog.stdlib.BoundLogger = structlog.get_logger("skiplane.task").bind(
            task_id=self.task_id,
            task_type=self.task_type,
            attempt=self.attempt,
            worker_id=self._worker_id,
        )
        return logger

    def set_result(self, value: Any) -> None:
        """Set the result that ``transaction()`` records with the success.

        Raises:
            ResultNotStorable: It has no JSON form that can be stored.
        """
        self._result = encode_result(value)

    def _holder(self) -> Holder:
        return Holder(self._worker_id, self._attempt.lease_id, self.task_id, self._attempt.shard)

    def _lost(self) -> LeaseLost:
        return LeaseLost(
            "This attempt does not hold its task any more: cancelled, or taken after its lease"
            " ran out. Nothing of the transaction was kept."
        )


class Context(_Common):
    """The context of an ``async def`` task function."""

    __slots__ = ("_pool",)

    def __init__(self, attempt: Attempt, worker_id: str, pool: AsyncPool) -> None:
        super().__init__(attempt, worker_id)
        self._pool = pool

    async def checkpoint(self, value: Any) -> None:
        """Save progress, a small JSON value; a retry finds it in ``last_checkpoint``.

        Raises:
            LeaseLost: The attempt does not hold its task any more.
            ResultNotStorable: The value has no JSON form that can be stored.
        """
        text = encode_result(value)
        with translating:
            async with self._pool.connection() as conn:
                await calls.checkpoint_task(conn, self._holder(), text)

    async def progress(self, share: float, message: str | None = None) -> None:
        """Show how far the task is.

        Args:
            share: From 0 to 1.
            message: One line for people.

        Raises:
            LeaseLost: The attempt does not hold its task any more.
        """
        with translating:
            async with self._pool.connection() as conn:
                await calls.report_progress(conn, self._holder(), share, message)

    async def dependencies(self) -> dict[str, Result]:
        """Read how the tasks ended that this one waited for in its workflow, by name."""
        return await self._pool.run(workflow_calls.dependency_results(self.task_id))

    async def dependency_results(self) -> dict[str, Any]:
        """Read what those of them that SUCCEEDED returned, by name."""
        return _succeeded(await self.dependencies())

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncConnection]:
        """Commit the task's own writes and its success together; see this module.

        Raises:
            LeaseLost: The attempt does not hold its task any more; rolled back.
        """
        async with self._pool.connection() as conn:
            try:
                async with conn.transaction():
                    yield conn
                    # From here on a heartbeat may find the task gone.
                    self._attempt.recorded = True
                    seconds = monotonic() - self._attempt.started
                    if not await calls.finish_task(conn, self._holder(), self._result, seconds):
                        raise self._lost()
            except BaseException:
                self._attempt.recorded = False
                raise


class SyncContext(_Common):
    """The context of a ``def`` task function; see Context for what each verb does."""

    __slots__ = ("_pool",)

    def __init__(self, attempt: Attempt, worker_id: str, pool: SyncPool) -> None:
        super().__init__(attempt, worker_id)
        self._pool = pool

    def checkpoint(self, value: Any) -> None:
        """See Context.checkpoint."""
        text = encode_result(value)
        with translating, self._pool.connection() as conn:
            calls.checkpoint_task_sync(conn, self._holder(), text)

    def progress(self, share: float, message: str | None = None) -> None:
        """See Context.progress."""
        with translating, self._pool.connection() as conn:
            calls.report_progress_sync(conn, self._holder(), share, message)

    def dependencies(self) -> dict[str, Result]:
        """See Context.dependencies."""
        return self._pool.run(workflow_calls.dependency_results(self.task_id))

    def dependency_results(self) -> dict[str, Any]:
        """See Context.dependency_results."""
        return _succeeded(self.dependencies())

    @contextmanager
    def transaction(self) -> Iterator[SyncConnection]:
        """See Context.transaction."""
        with self._pool.connection() as conn:
            try:
                with conn.transaction():
                    yield conn
                    self._attempt.recorded = True
                    seconds = monotonic() - self._attempt.started
                    if not calls.finish_task_sync(conn, self._holder(), self._result, seconds):
                        raise self._lost()
            except BaseException:
                self._attempt.recorded = False
                raise


def _succeeded(found: dict[str, Result]) -> dict[str, Any]:
    return {name: one.result for name, one in found.items() if one.status is Status.SUCCEEDED}

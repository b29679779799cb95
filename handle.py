"""A submitted task, as its submitter holds it."""

import asyncio
import time
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from uuid import UUID

import msgspec

from .schema.errors import NotFound, SkiplaneError, TaskCancelled, TaskFailed, Unavailable
from .schema.records import Result, Status, Submitted, TaskRecord
from .schema.task_calls import get_results

if TYPE_CHECKING:
    from .app import Skiplane

R = TypeVar("R")

# Somebody who waits asks soon, then less and less often.
FIRST_POLL = 0.005
LAST_POLL = 0.25
_GROWTH = 1.5


class Handle(Generic[R]):
    """A task that was submitted.

    Args:
        app: The app that talks to the task's database.
        task_id: The task.
        submitted: The engine's answer to the submission, None when only the id is known.
        kind: Type that results are converted to.
        pending: The caller's transaction may not be committed yet, so that an
            unknown id is no error.
    """

    __slots__ = ("_app", "_kind", "_pending", "id", "submitted")

    def __init__(
        self,
        app: "Skiplane",
        task_id: UUID,
        submitted: Submitted | None = None,
        *,
        kind: Any = Any,
        pending: bool = False,
    ) -> None:
        self.id = task_id
        self.submitted = submitted
        self._app = app
        self._kind = kind
        self._pending = pending

    def __repr__(self) -> str:
        return f"Handle({str(self.id)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Handle) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    @property
    def duplicate(self) -> bool:
        """Whether an earlier submission with the same idempotency key made the task."""
        return self.submitted is not None and self.submitted.duplicate

    async def result(self, timeout: float | None = None) -> R:  # noqa: ASYNC109 - the sync face has it too
        """Wait until the task has ended and give what it returned.

        Args:
            timeout: Seconds to wait at most; None waits for ever.

        Raises:
            TaskFailed: It ended FAILED or DEAD.
            TaskCancelled: It ended CANCELLED.
            TimeoutError: It has not ended in time. It goes on.
            NotFound: There is no such task.
        """
        waiter = self._app.waiter().wait(self.id, unknown_is_error=not self._pending)
        try:
            async with asyncio.timeout(timeout):
                return self._read(await waiter)
        except TimeoutError:
            raise TimeoutError(_late(self.id, timeout)) from None

    def result_sync(self, timeout: float | None = None) -> R:
        """Do what ``result`` does, without an event loop."""
        end = None if timeout is None else time.monotonic() + timeout
        pause = FIRST_POLL
        while True:
            found = self._app.run_sync(get_results([self.id]))
            if found and found[0].done:
                return self._read(found[0])
            if not found and not self._pending:
                raise unknown(self.id)
            if end is not None and time.monotonic() + pause > end:
                time.sleep(max(0.0, end - time.monotonic()))
                raise TimeoutError(_late(self.id, timeout))
            time.sleep(pause)
            pause = min(LAST_POLL, pause * _GROWTH)

    async def get(self) -> TaskRecord:
        """Read the whole task."""
        return await self._app.get(self.id)

    def get_sync(self) -> TaskRecord:
        """Do what ``get`` does, without an event loop."""
        return self._app.get_sync(self.id)

    async def status(self) -> Status:
        """Read the task's state."""
        return _status(await self._app.run(get_results([self.id])), self.id)

    def status_sync(self) -> Status:
        """Do what ``status`` does, without an event loop."""
        return _status(self._app.run_sync(get_results([self.id])), self.id)

    async def cancel(self, reason: str | None = None) -> TaskRecord:
        """Cancel the task.

        Raises:
            Conflict: It has ended.
        """
        return await self._app.cancel(self.id, reason)

    def cancel_sync(self, reason: str | None = None) -> TaskRecord:
        """Do what ``cancel`` does, without an event loop."""
        return self._app.cancel_sync(self.id, reason)

    async def retry(self, reason: str | None = None) -> TaskRecord:
        """Run the task again, with a fresh budget of attempts.

        Raises:
            Conflict: It is not FAILED, DEAD or CANCELLED.
        """
        return await self._app.retry(self.id, reason)

    def retry_sync(self, reason: str | None = None) -> TaskRecord:
        """Do what ``retry`` does, without an event loop."""
        return self._app.retry_sync(self.id, reason)

    def _read(self, result: Result) -> R:
        if result.status is Status.SUCCEEDED:
            try:
                value: R = msgspec.convert(result.result, self._kind)
            except msgspec.ValidationError as error:
                raise SkiplaneError(
                    f"The result of task {self.id} is not what the function declares: {error}."
                ) from error
            return value
        if result.status is Status.CANCELLED:
            raise TaskCancelled(f"Task {self.id} was cancelled.")
        raise TaskFailed(
            f"Task {self.id} ended {result.status}: {result.error_type}: {result.error_message}",
            str(result.status),
            result.error_type,
            result.error_message,
        )


def unknown(task_id: UUID) -> NotFound:
    """Give the error for an id that no task has."""
    return NotFound(f"There is no task {task_id}.", "task_id", str(task_id))


def _status(found: list[Result], task_id: UUID) -> Status:
    if not found:
        raise unknown(task_id)
    return found[0].status


def _late(task_id: UUID, timeout: float | None) -> str:
    return f"Task {task_id} has not ended within {timeout:g} seconds."


class ResultWaiter:
    """Waits for any number of tasks with one query at a time.

    Each wait has its own rhythm, from 5 ms to 250 ms, and a query asks for all
    whose pause is at least half over: they fall into step, so that a thousand
    who wait cost about as many queries as one.
    """

    MOST = 1000  # ids in one query
    PATIENCE = 30.0  # seconds without a database before those who wait are told

    def __init__(self, app: "Skiplane") -> None:
        self._app = app
        self._waits: dict[UUID, _Wait] = {}
        self._loop: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._answered = 0.0

    async def wait(self, task_id: UUID, *, unknown_is_error: bool) -> Result:
        """Wait until a task has ended."""
        wait = self._waits.get(task_id)
        if wait is None:
            wait = self._waits[task_id] = _Wait(time.monotonic() + FIRST_POLL)
        wait.strict = wait.strict and unknown_is_error
        wait.waiting += 1
        self._changed.set()
        if self._loop is None or self._loop.done():
            self._answered = time.monotonic()
            self._loop = asyncio.create_task(self._poll())
        try:
            # Shielded: several may wait for the same task.
            return await asyncio.shield(wait.future)
        finally:
            wait.waiting -= 1
            if not wait.waiting and self._waits.get(task_id) is wait:
                del self._waits[task_id]

    def close(self) -> None:
        """Stop asking."""
        if self._loop is not None:
            self._loop.cancel()

    async def _poll(self) -> None:
        while self._waits:
            self._changed.clear()
            due = min(wait.due for wait in self._waits.values())
            pause = due - time.monotonic()
            if pause > 0:
                try:
                    async with asyncio.timeout(pause):
                        await self._changed.wait()
                    continue
                except TimeoutError:
                    pass
            await self._ask()

    async def _ask(self) -> None:
        now = time.monotonic()
        due = [key for key, wait in self._waits.items() if wait.due <= now + wait.pause / 2]
        asked = {task_id: self._waits[task_id] for task_id in due[: self.MOST]}
        found: list[Result] | None = None
        try:
            found = await self._app.run(get_results(list(asked)))
            self._answered = time.monotonic()
        except Exception as error:
            if not isinstance(error, Unavailable) or now - self._answered > self.PATIENCE:
                for wait in asked.values():
                    wait.fail(error)
        results = {result.task_id: result for result in found or ()}
        for task_id, wait in asked.items():
            if found is not None:
                wait.answer(task_id, results.get(task_id))
            wait.later()


class _Wait:
    def __init__(self, due: float) -> None:
        self.future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self.due = due
        self.pause = FIRST_POLL
        self.waiting = 0
        self.strict = True

    def answer(self, task_id: UUID, result: Result | None) -> None:
        if result is not None and result.done:
            if not self.future.done():
                self.future.set_result(result)
        elif result is None and self.strict:
            self.fail(unknown(task_id))

    def later(self) -> None:
        self.pause = min(LAST_POLL, self.pause * _GROWTH)
        self.due = time.monotonic() + self.pause

    def fail(self, error: Exception) -> None:
        if not self.future.done():
            self.future.set_exception(error)
            self.future.exception()  # seen: whoever waited may just have given up

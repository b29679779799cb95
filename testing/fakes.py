"""Running one task function without a database."""

import asyncio
import contextlib
import inspect
from collections.abc import AsyncIterator, Iterator, Mapping
from time import monotonic
from typing import Any, cast
from uuid import uuid4

import msgspec

from ..schema.encode import encode_json
from ..schema.errors import SkiplaneError
from ..schema.records import Result, Status
from ..task import Task
from ..worker.context import Context, SyncContext
from ..worker.document import ClaimedTask
from ..worker.outcome import encode_result


class FakeAttempt:
    """An attempt that no database knows of.

    Attributes:
        checkpoints: What the task saved, in order.
        reports: The (share, message) of each progress report.
        result: What ``set_result`` was given, None without.
        stop: Set it to ``"cancelled"``, and the task sees ``ctx.cancelled``.
    """

    def __init__(
        self,
        *,
        attempt: int = 1,
        checkpoint: Any = None,
        metadata: dict[str, Any] | None = None,
        tenant_id: str = "default",
        timeout: float | None = None,
        cancelled: bool = False,
        connection: Any = None,
        dependencies: Mapping[str, Any] | None = None,
    ) -> None:
        """Describe the attempt.

        Args:
            attempt: Which try it is.
            checkpoint: What an earlier attempt saved.
            metadata: The submission's.
            tenant_id: The task's tenant.
            timeout: Seconds until its deadline.
            cancelled: Whether the task is told to stop from the start.
            connection: What ``ctx.transaction()`` lends, inside a transaction of
                its own: a psycopg connection, async for an async task.
            dependencies: What the task's dependencies in its workflow returned, by
                name; a Result for one that did not succeed.
        """
        self.task = ClaimedTask(
            task_id=str(uuid4()),
            task_type="",
            attempt=attempt,
            fence=attempt,
            tenant_id=tenant_id,
            timeout_seconds=timeout,
            metadata=None if metadata is None else msgspec.Raw(encode_json(metadata, "metadata")),
            checkpoint=None if checkpoint is None else msgspec.Raw(encode_json(checkpoint)),
        )
        self.started = monotonic()
        self.deadline = None if timeout is None else self.started + timeout
        self.stop = "cancelled" if cancelled else None
        self.lease_id = 0
        self.shard = 0
        self.recorded = False
        self.connection = connection
        self.dependencies = {
            name: value
            if isinstance(value, Result)
            else Result(uuid4(), Status.SUCCEEDED, True, value)
            for name, value in (dependencies or {}).items()
        }
        self.checkpoints: list[Any] = []
        self.reports: list[tuple[float, str | None]] = []
        self.result: Any = None

    def save(self, value: Any) -> None:
        """Note a checkpoint as it would come back."""
        self.checkpoints.append(msgspec.json.decode(encode_result(value)))

    def lend(self) -> Any:
        """Give the connection for ``ctx.transaction()``."""
        if self.connection is None:
            raise SkiplaneError(
                "The task asks for a transaction, and this test has no database.",
                remedy="Give FakeAttempt(connection=...).",
            )
        return self.connection


class _Fake:
    """What both kinds of fake context share."""

    _attempt: FakeAttempt

    def set_result(self, value: Any) -> None:
        """Note the result."""
        encode_result(value)
        self._attempt.result = value


class FakeContext(_Fake, Context):
    """The context of an async task in a test."""

    _attempt: FakeAttempt

    def __init__(self, attempt: FakeAttempt) -> None:
        super().__init__(attempt, "test", cast(Any, None))

    async def checkpoint(self, value: Any) -> None:
        """Note a checkpoint."""
        self._attempt.save(value)

    async def progress(self, share: float, message: str | None = None) -> None:
        """Note a report."""
        self._attempt.reports.append((share, message))

    async def dependencies(self) -> dict[str, Result]:
        """Give those of the test."""
        return dict(self._attempt.dependencies)

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[Any]:
        """Lend the test's connection, in a transaction."""
        connection = self._attempt.lend()
        async with connection.transaction():
            yield connection
        self._attempt.recorded = True


class FakeSyncContext(_Fake, SyncContext):
    """The context of a plain ``def`` task in a test."""

    _attempt: FakeAttempt

    def __init__(self, attempt: FakeAttempt) -> None:
        super().__init__(attempt, "test", cast(Any, None))

    def checkpoint(self, value: Any) -> None:
        """Note a checkpoint."""
        self._attempt.save(value)

    def progress(self, share: float, message: str | None = None) -> None:
        """Note a report."""
        self._attempt.reports.append((share, message))

    def dependencies(self) -> dict[str, Result]:
        """Give those of the test."""
        return dict(self._attempt.dependencies)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Any]:
        """Lend the test's connection, in a transaction."""
        connection = self._attempt.lend()
        with connection.transaction():
            yield connection
        self._attempt.recorded = True


async def run_task(
    task: Task[..., Any], /, *args: Any, ctx: FakeAttempt | None = None, **kwargs: Any
) -> Any:
    """Run a task function here, as a worker would, without a database.

    The arguments make the way through JSON and the function's annotations, and
    the result must be one that can be stored.

    Args:
        task: The task.
        args: Its positional arguments, without the context.
        ctx: The attempt to play; by default a first one.
        kwargs: Its keyword arguments.

    Raises:
        InvalidInput: An argument does not fit.
        ResultNotStorable: The result has no JSON form.
        Exception: What the function raises, Retry and Postpone included.
    """
    value = _start(task, args, kwargs, ctx or FakeAttempt())
    if inspect.isawaitable(value):
        value = await value
    encode_result(value)
    return value


def run_task_sync(
    task: Task[..., Any], /, *args: Any, ctx: FakeAttempt | None = None, **kwargs: Any
) -> Any:
    """Do what ``run_task`` does, without an event loop."""
    return asyncio.run(run_task(task, *args, ctx=ctx, **kwargs))


def _start(task: Task[..., Any], args: Any, kwargs: Any, attempt: FakeAttempt) -> Any:
    definition = task.definition
    arguments = task.app.registry.arguments(definition)
    positional, keywords = arguments.bind_json(task.payload(*args, **kwargs))
    if not definition.takes_context:
        return definition.function(*positional, **keywords)
    attempt.task.task_type = definition.name
    kind = FakeContext if definition.mode == "async" else FakeSyncContext
    return definition.function(kind(attempt), *positional, **keywords)

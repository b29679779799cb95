"""Running what is ready in a database, in this process."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Any
from uuid import UUID, uuid4

from ..app import Skiplane
from ..schema import scheduler_calls, worker_calls
from ..schema.callers import run_async
from ..schema.connect import AsyncConnection, connect_async
from ..schema.errors import SkiplaneError, translating
from ..schema.records import TaskRecord
from ..schema.session_clock import set_clock
from ..worker.context import Context, SyncContext
from ..worker.document import decode_tasks
from ..worker.leases import Item, Lease
from ..worker.outcome import Failure, encode_result, failure_from


async def drain(
    app: Skiplane,
    queues: Sequence[str] | None = None,
    *,
    ahead: float | timedelta = 0,
    limit: int = 10_000,
) -> list[TaskRecord]:
    """Run everything that is ready, and what that makes ready, one after the other.

    Tasks of every mode run in this process. No worker or scheduler is needed,
    nor disturbed.

    Args:
        app: Whose tasks to run.
        queues: Where to take them from; by default the queues of the app's tasks.
        ahead: Also run what is due within this time (seconds or a timedelta):
            delayed tasks, and the retries of what fails.
        limit: Attempts after which it is certain that this never ends.

    Returns:
        Every task that was run, as it is afterwards, in the order of the first runs.

    Raises:
        SkiplaneError: There were more attempts than ``limit``.
    """
    names = [app.registry.get(name) for name in app.registry.names()]
    wanted = queues or sorted({"default", *(d.queue for d in names if d is not None)})
    with translating:
        conn, _ = await connect_async(app.dsn, "drain")
        async with conn:
            if ahead:
                span = ahead if isinstance(ahead, timedelta) else timedelta(seconds=ahead)
                await run_async(conn, set_clock(datetime.now(UTC) + span))
            ran = await _Drain(app, conn, list(wanted), limit).run()
    return [await app.get(task_id) for task_id in ran]


class _Drain:
    """A worker that runs one task after the other."""

    def __init__(self, app: Skiplane, conn: AsyncConnection, queues: list[str], limit: int) -> None:
        self._app = app
        self._conn = conn
        self._limit = limit
        self._claim = worker_calls.Claim(
            str(uuid4()),
            worker_calls.text_array(queues),
            worker_calls.text_array(app.registry.names()),
            60.0,
        )
        self._queues = queues
        self._ran: dict[UUID, None] = {}

    async def run(self) -> list[UUID]:
        """Run until nothing is ready."""
        worker_calls.prepare_claiming(self._conn)
        await self._register()
        try:
            shards = await worker_calls.shard_labels(self._conn)
            while sum([await self._round(shard) for shard in shards]):
                pass
        finally:
            await worker_calls.unregister_worker(self._conn, self._claim.worker_id)
        return list(self._ran)

    async def _register(self) -> None:
        registration = worker_calls.Registration(
            self._claim.worker_id, "drain", self._queues, None, 1, "", 0, 60.0, None
        )
        await worker_calls.register_worker(self._conn, registration)

    async def _round(self, shard: int) -> int:
        await scheduler_calls.promote_tasks(self._conn, 1000, None, shard)
        answer = await worker_calls.finish_and_claim(self._conn, self._claim, None, 50, None, shard)
        if answer.lease_id is None or answer.tasks is None:
            return 0
        lease = Lease(answer.lease_id, shard, monotonic() + 60)
        tasks, broken = decode_tasks(answer.tasks)
        for task_id, reason in broken:
            failure = Failure("permanent", "InvalidPayload", reason)
            lease.add_failure(task_id, failure, 0.0, 0.0)
        for task in tasks:
            self._ran[UUID(task.task_id)] = None
            self._limit -= 1
            if self._limit < 0:
                raise SkiplaneError("There is no end of tasks.", remedy="Raise drain's limit.")
            await self._attempt(Item(task, lease, monotonic()))
        finish = lease.take().finish(lease.lease_id)
        await worker_calls.finish_and_claim(self._conn, self._claim, finish, 0, None, shard)
        return len(tasks) + len(broken)

    async def _attempt(self, item: Item) -> None:
        item.started = began = monotonic()
        definition = self._app.registry.get(item.task.task_type)
        try:
            result = encode_result(await self._call(item))
        except Exception as error:
            failure = failure_from(error, definition)
            if not item.recorded:
                item.lease.add_failure(item.task.task_id, failure, began, monotonic() - began)
        else:
            if not item.recorded:
                took = monotonic() - began
                item.lease.add_success(item.task.task_id, result, began, took)

    async def _call(self, item: Item) -> Any:
        definition = self._app.registry.get(item.task.task_type)
        assert definition is not None  # only known types are claimed
        args, kwargs = self._app.registry.arguments(definition).bind_json(item.task.payload)
        worker_id = self._claim.worker_id
        if definition.mode == "async":
            async with asyncio.timeout(item.task.timeout_seconds):
                if definition.takes_context:
                    args = (Context(item, worker_id, self._app.pool()), *args)
                return await definition.function(*args, **kwargs)
        if definition.takes_context:
            args = (SyncContext(item, worker_id, self._app.pool_sync()), *args)
        return await asyncio.to_thread(definition.function, *args, **kwargs)

"""Submitting tasks from an app, async and sync.

Every verb takes ``connection``: a psycopg, SQLAlchemy or Django connection whose
transaction it becomes part of. Without one it runs in a transaction of its own.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, cast
from uuid import UUID

from .handle import Handle
from .schema.call import Call
from .schema.callers import nested, nested_async, run, run_async
from .schema.encode import encode_json
from .schema.errors import translating
from .schema.options import SubmitOptions, read_options
from .schema.pools import AsyncPool, SyncPool
from .schema.producer import batches, submit_task, submit_tasks
from .schema.records import Submitted
from .schema.tracing import span

if TYPE_CHECKING:
    from .app import Skiplane

T = TypeVar("T")


class Submitting:
    """The verbs that submit. Skiplane adds where the database is."""

    def pool(self) -> AsyncPool:
        """Give the connections of the running event loop."""
        raise NotImplementedError

    def pool_sync(self) -> SyncPool:
        """Give the connections for threads."""
        raise NotImplementedError

    async def run(self, call: Call[T], connection: Any = None) -> T:
        """Run one of the engine's calls, see skiplane.schema."""
        if connection is None:
            return await self.pool().run(call)
        return await run_async(connection, call)

    def run_sync(self, call: Call[T], connection: Any = None) -> T:
        """Do what ``run`` does, without an event loop."""
        if connection is None:
            return self.pool_sync().run(call)
        return run(connection, call)

    async def submit(
        self,
        task_type: str,
        payload: Any = None,
        *,
        connection: Any = None,
        **options: Unpack[SubmitOptions],
    ) -> Handle[Any]:
        """Submit a task of a type that may be defined elsewhere.

        Args:
            task_type: Its name.
            payload: Any JSON value. A dict becomes the keyword arguments of a
                Python task, None an empty dict.
            connection: Submit inside the transaction that is open there.
            options: See SubmitOptions.

        Raises:
            InvalidInput: An option or the payload is refused.
            IdempotencyConflict: The key was used with another body.
        """
        with span("skiplane.receive", **{"skiplane.task_type": task_type}):
            call = _submission(task_type, payload, options)
            with span("skiplane.persist"):
                answer = await self.run(call, connection)
        return self._handle(answer, connection)

    def submit_sync(
        self,
        task_type: str,
        payload: Any = None,
        *,
        connection: Any = None,
        **options: Unpack[SubmitOptions],
    ) -> Handle[Any]:
        """Do what ``submit`` does, without an event loop."""
        with span("skiplane.receive", **{"skiplane.task_type": task_type}):
            call = _submission(task_type, payload, options)
            with span("skiplane.persist"):
                answer = self.run_sync(call, connection)
        return self._handle(answer, connection)

    async def submit_many(
        self,
        task_type: str,
        payloads: Iterable[Any],
        *,
        idempotency_keys: Sequence[str | None] | None = None,
        connection: Any = None,
        **options: Unpack[SubmitOptions],
    ) -> list[UUID]:
        """Submit many tasks of one type with the same options: all or none.

        Args:
            task_type: Their type.
            payloads: A JSON value for each, taken in chunks.
            idempotency_keys: A key, or None, for each.
            connection: Submit inside the transaction that is open there.
            options: See SubmitOptions.

        Returns:
            Their ids, in order.

        Raises:
            InvalidInput: An option or a payload is refused; nothing is stored.
            IdempotencyConflict: A key was used with another body.
        """
        documents = (encode_json(value, f"payloads[{i}]") for i, value in enumerate(payloads))
        calls = batches(task_type, documents, read_options(options), idempotency_keys)
        return await self.send_batches(calls, connection)

    def submit_many_sync(
        self,
        task_type: str,
        payloads: Iterable[Any],
        *,
        idempotency_keys: Sequence[str | None] | None = None,
        connection: Any = None,
        **options: Unpack[SubmitOptions],
    ) -> list[UUID]:
        """Do what ``submit_many`` does, without an event loop."""
        documents = (encode_json(value, f"payloads[{i}]") for i, value in enumerate(payloads))
        calls = batches(task_type, documents, read_options(options), idempotency_keys)
        return self.send_batches_sync(calls, connection)

    async def submit_tasks(
        self, tasks: Sequence[Mapping[str, Any]], *, connection: Any = None
    ) -> list[Submitted]:
        """Submit tasks of several types, each with its own options: all or none.

        Args:
            tasks: For each a dict of ``task_type``, ``payload`` and options.
            connection: Submit inside the transaction that is open there.
        """
        return await self.run(submit_tasks(tasks), connection)

    def submit_tasks_sync(
        self, tasks: Sequence[Mapping[str, Any]], *, connection: Any = None
    ) -> list[Submitted]:
        """Do what ``submit_tasks`` does, without an event loop."""
        return self.run_sync(submit_tasks(tasks), connection)

    async def send_batches(
        self, calls: Iterable[Call[list[UUID]]], connection: Any = None
    ) -> list[UUID]:
        """Run what producer.batches gave, in one transaction."""
        if connection is None:
            with translating:
                async with self.pool().connection() as own:
                    return await self.send_batches(calls, own)
        ids: list[UUID] = []
        sent: asyncio.Task[list[UUID]] | None = None
        async with nested_async(connection):
            try:
                for call in calls:
                    if sent is not None:
                        ids += await sent
                    # Under way while the next chunk is being encoded.
                    sent = asyncio.create_task(run_async(connection, call))
                    await asyncio.sleep(0)
            except BaseException:
                if sent is not None:  # the connection must be idle before it rolls back
                    await asyncio.wait([sent])
                    _ = sent.cancelled() or sent.exception()  # seen: the first error counts
                raise
            return ids + await sent if sent is not None else ids

    def send_batches_sync(
        self, calls: Iterable[Call[list[UUID]]], connection: Any = None
    ) -> list[UUID]:
        """Do what ``send_batches`` does, without an event loop."""
        if connection is None:
            with translating, self.pool_sync().connection() as own:
                return self.send_batches_sync(calls, own)
        ids: list[UUID] = []
        with nested(connection):
            for call in calls:
                ids += run(connection, call)
        return ids

    def _handle(self, answer: Submitted, connection: Any) -> Handle[Any]:
        app = cast("Skiplane", self)
        return Handle(app, answer.task_id, answer, pending=connection is not None)


def _submission(task_type: str, payload: Any, options: Mapping[str, Any]) -> Call[Submitted]:
    document = encode_json({} if payload is None else payload)
    return submit_task(task_type, document, read_options(options))

"""A worker inside this process, without a supervisor: for tests and for draining a queue."""

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Protocol
from uuid import uuid4

from .registry import Registry
from .settings import WorkerSettings
from .tracing import WorkerTracing
from .worker import Worker

_LOOK_SECONDS = 0.005


class HasRegistry(Protocol):
    """A Skiplane app, as far as a worker cares."""

    registry: Registry


async def run_until_idle(
    app: HasRegistry,
    dsn: str,
    *,
    queues: Sequence[str] | None = None,
    task_types: Sequence[str] = (),
    concurrency: int = 10,
    grace_seconds: float = 30.0,
    lease_seconds: float = 10.0,
    traces: bool = False,
) -> None:
    """Run tasks concurrently until a claim finds none and none runs.

    ``async def`` tasks run on this event loop, all others in threads, so that
    test doubles and coverage work, but a task that does not return cannot be
    killed. Nothing is promoted: retries and delayed tasks stay where they are.

    Args:
        app: Whose tasks to run.
        dsn: The database.
        queues: Where to take them from; by default the queues of the app's tasks.
        task_types: What to take; empty means all that the app has.
        concurrency: Tasks that run at once.
        grace_seconds: How long running tasks may go on when this is cancelled.
        lease_seconds: How long a claim holds without a heartbeat.
        traces: Whether to make spans, with the process's own OpenTelemetry.

    Raises:
        psycopg.ProgrammingError: The database has no Skiplane.
    """
    registry = app.registry
    definitions = [registry.get(name) for name in registry.names()]
    wanted = queues or sorted({"default", *(d.queue for d in definitions if d is not None)})
    settings = WorkerSettings(
        app="",
        dsn=dsn,
        queues=tuple(wanted),
        types=tuple(task_types),
        concurrency=concurrency,
        grace_seconds=grace_seconds,
        lease_seconds=lease_seconds,
        name="inline",
    )
    tracing = WorkerTracing() if traces else None
    worker = Worker(settings, registry, str(uuid4()), processes=False, tracing=tracing)
    running: asyncio.Future[object] = asyncio.ensure_future(worker.run())
    try:
        done: set[asyncio.Future[object]] = set()
        while not worker.idle and not done:
            done, _ = await asyncio.wait({running}, timeout=_LOOK_SECONDS)
    finally:
        worker.stop()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.shield(running)

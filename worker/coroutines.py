"""Running ``async def`` tasks in a pool process: one after the other, on one event loop.

They come here when their last attempt was lost with the process that ran it.
"""

import asyncio
from typing import Any

from ..schema.pools import AsyncPool
from .context import Attempt, Context
from .eventloop import new_loop
from .registry import TaskDefinition
from .settings import WorkerSettings

# At most; a task may use several at once.
_CONNECTIONS = 4


class Coroutines:
    """The event loop of a pool process. It is the same for all, as in a worker."""

    def __init__(self, settings: WorkerSettings, worker_id: str, cancels: int) -> None:
        """Prepare; the loop is made when the first one comes.

        Args:
            settings: What contexts need.
            worker_id: The worker that the process belongs to.
            cancels: A descriptor that can be read when an attempt may have to stop.
        """
        self._settings = settings
        self._worker_id = worker_id
        self._cancels = cancels
        self._runner = asyncio.Runner(loop_factory=new_loop)
        self._pool: AsyncPool | None = None

    def run(
        self,
        attempt: Attempt,
        definition: TaskDefinition,
        arguments: tuple[Any, ...],
        keywords: dict[str, Any],
    ) -> Any:
        """Run a task's function until it returns, raises, or ends because it was cancelled."""
        return self._runner.run(self._run(attempt, definition, arguments, keywords))

    async def _run(
        self,
        attempt: Attempt,
        definition: TaskDefinition,
        arguments: tuple[Any, ...],
        keywords: dict[str, Any],
    ) -> Any:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None

        def look() -> None:
            if attempt.stop is not None:
                loop.remove_reader(self._cancels)
                task.cancel()

        if definition.takes_context:
            arguments = (Context(attempt, self._worker_id, self._contexts()), *arguments)
        loop.add_reader(self._cancels, look)
        try:
            return await definition.function(*arguments, **keywords)
        finally:
            loop.remove_reader(self._cancels)

    def _contexts(self) -> AsyncPool:
        if self._pool is None:
            dsn, prepare = self._settings.dsn, self._settings.prepare
            self._pool = AsyncPool(dsn, _CONNECTIONS, role="task", prepare=prepare)
        return self._pool

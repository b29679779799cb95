"""What the parts of a measurement share: the database, the queues, the processes."""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

from ... import Skiplane
from ...schema import bench_calls as calls
from ...schema.connect import SyncConnection, connect_sync
from ...schema.task_calls import get_results
from ..children import Child

# An empty object with text of this length has the size that the figure names.
FRAME_BYTES = len('{"data":""}')
WORKER_SECONDS = 60
CANCELLED_AT_ONCE = 1000


class BenchError(Exception):
    """A measurement that cannot be had; the message says why."""


class Bench:
    """One run of `skiplane bench` against one database.

    Attributes:
        tasks: Tasks of a full drain; other parts take shares of it.
        app: Submits, from this process.
        conn: For looking, outside of what is measured.
        throw_away: Whether the database goes when the measurement ends.
    """

    def __init__(
        self,
        dsn: str,
        tasks: int,
        seconds: float | None,
        folder: Path,
        say: Callable[[str], None],
        throw_away: bool,
    ) -> None:
        self.dsn = dsn
        self.tasks = tasks
        self.app = Skiplane(dsn)
        self.conn: SyncConnection = connect_sync(dsn, "bench")
        self.name = f"bench_{secrets.token_hex(4)}"
        self.say = say
        self.throw_away = throw_away
        self._seconds = seconds
        self._folder = folder
        self._queues: list[str] = []
        self._since = calls.first_id_now(self.conn)

    def seconds(self, default: float) -> float:
        """Give how long a part that works by the clock lasts."""
        return default if self._seconds is None else self._seconds

    def queue(self) -> str:
        """Give a queue that nobody else uses."""
        self._queues.append(f"{self.name}_{len(self._queues)}")
        return self._queues[-1]

    async def submit(
        self,
        queue: str,
        count: int,
        size: int = 300,
        task_type: str = "bench.noop",
        connection: Any = None,
    ) -> list[UUID]:
        """Submit tasks that do nothing, in bulk; ``size`` is that of a payload in bytes."""
        payload = make_payload(size)
        payloads = (payload for _ in range(count))
        return await self.app.submit_many(task_type, payloads, queue=queue, connection=connection)

    @contextmanager
    def scheduler(self) -> Iterator[None]:
        """Keep a scheduler process."""
        with self._child("scheduler", ["scheduler"]):
            yield

    @contextmanager
    def worker(self, queues: list[str], processes: int = 1) -> Iterator[Child]:
        """Keep a worker process, or a supervisor with several."""
        arguments = ["worker", "--app", "skiplane.commands.bench.tasks:app"]
        arguments += ["--queues", ",".join(queues), "--processes", str(processes)]
        with self._child("worker", [*arguments, "--concurrency", "100"]) as child:
            yield child

    @contextmanager
    def _child(self, name: str, arguments: list[str]) -> Iterator[Child]:
        log = self._folder / f"{name}.log"
        child = Child(name, arguments, log, {"SKIPLANE_DSN": self.dsn})
        try:
            yield child
            _check(child)
        finally:
            child.stop(WORKER_SECONDS)

    async def wait_for_workers(self, queue: str, processes: int, worker: Child) -> None:
        """Wait until so many worker processes serve a queue."""
        while calls.registered_workers(self.conn, queue) < processes:
            _check(worker)
            await asyncio.sleep(0.05)

    async def wait_for(self, ids: list[UUID], worker: Child, pause: float = 0.1) -> None:
        """Wait until these tasks have ended."""
        left = set(ids)
        while left:
            _check(worker)
            results = await self.app.run(get_results(list(left)[:1000]))
            left -= {result.task_id for result in results if result.done}
            if left:
                await asyncio.sleep(pause)

    async def wait_for_all(self, queue: str, ids: list[UUID], worker: Child) -> calls.Finished:
        """Wait until all tasks of a bulk have ended, the last of them first: it is cheap."""
        await self.wait_for(ids[-1:], worker)
        while True:
            done = calls.finished(self.conn, queue, min(ids), max(ids))
            if done.succeeded + done.other >= len(ids):
                break
            _check(worker)
            await asyncio.sleep(0.5)
        if done.other:
            raise BenchError(f"{done.other} of {len(ids)} tasks did not succeed.")
        return done

    async def wait_until_empty(self, queue: str, worker: Child) -> None:
        """Wait until a queue has nothing left, submitted by whomever."""
        while await asyncio.to_thread(calls.open_tasks, self.conn, queue, self._since):
            _check(worker)
            await asyncio.sleep(0.2)

    @asynccontextmanager
    async def tidy(self) -> AsyncIterator[None]:
        """Leave no task behind that somebody could still run."""
        try:
            yield
        finally:
            try:
                if not self.throw_away:
                    self._clear()
            finally:
                await self.app.close()
                self.conn.close()

    def _clear(self) -> None:
        for queue in self._queues:
            left = calls.open_tasks(self.conn, queue, self._since)
            if left:
                self.say(f"cancelling {len(left)} tasks that are left in {queue}")
            for at in range(0, len(left), CANCELLED_AT_ONCE):
                calls.cancel_tasks(self.conn, left[at : at + CANCELLED_AT_ONCE])


def make_payload(size: int) -> dict[str, Any]:
    """Give a payload whose JSON has that many bytes."""
    return {"data": "x" * (size - FRAME_BYTES)}


def _check(child: Child) -> None:
    if child.exit_code() is not None:
        raise BenchError(f"The {child.name} ended by itself:\n{child.last_words()}")


class Stopwatch:
    """Seconds since it was made, by the monotonic clock."""

    def __init__(self) -> None:
        self._start = time.perf_counter()

    def seconds(self) -> float:
        """Give them."""
        return time.perf_counter() - self._start

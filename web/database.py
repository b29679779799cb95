"""The database as web handlers see it: it answers in time, or is away.

While it is away every call is refused at once, but for one in half a second that
looks whether it is back.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from ..schema.call import Call
from ..schema.callers import psycopg_rows_async
from ..schema.errors import NotInstalled, SkiplaneError, Unavailable, translating
from ..schema.pools import AsyncPool

T = TypeVar("T")

ANSWER_SECONDS = 5.0
BATCH_SECONDS = 30.0
_AWAY_SECONDS = 0.5
_TRIES = 3
_ROLLED_BACK = ("40001", "40P01")


class Refused(SkiplaneError):
    """The engine refused one of several calls; nothing was done.

    Attributes:
        number: Which of the calls.
        error: What the engine said.
    """

    def __init__(self, number: int, error: SkiplaneError) -> None:
        super().__init__(error.message, error.field, error.value, error.remedy)
        self.number = number
        self.error = error


class Database:
    """A pool with time limits."""

    def __init__(self, dsn: str, size: int, prepare: bool | None) -> None:
        """Prepare it; nothing is opened before the first call."""
        # libpq takes no less than two seconds.
        own = conninfo_to_dict(dsn)
        limited = dsn if own.get("connect_timeout") else make_conninfo(dsn, connect_timeout=2)
        self.pool = AsyncPool(limited, size, role="web", prepare=prepare)
        self.answer_seconds = ANSWER_SECONDS
        self._away_until = 0.0
        self._running: set[asyncio.Task[Any]] = set()

    async def run(self, call: Call[T], seconds: float | None = None) -> T:
        """Run a call in a transaction of its own.

        Raises:
            Unavailable: The database is away or does not answer in ``seconds`` (5 by default).
            SkiplaneError: What the engine refused.
        """
        answer: T = await self._in_time(lambda: self.pool.run(call), seconds)
        return answer

    async def run_all(self, calls: Sequence[Call[Any]], seconds: float | None = None) -> list[Any]:
        """Run calls in one transaction, all or none.

        Raises:
            Refused: The engine refused one of them.
            Unavailable: The database is away or does not answer in time.
        """
        if len(calls) == 1:
            try:
                return [await self.run(calls[0], seconds)]
            except (Unavailable, NotInstalled):
                raise
            except SkiplaneError as error:
                raise Refused(0, error) from error
        answers: list[Any] = await self._in_time(lambda: self._transaction(calls), seconds)
        return answers

    async def _transaction(self, calls: Sequence[Call[Any]]) -> list[Any]:
        for left in reversed(range(_TRIES)):
            try:
                with translating:
                    async with self.pool.connection() as conn, conn.transaction():
                        return [await _one(conn, number, call) for number, call in enumerate(calls)]
            except psycopg.Error as error:
                if not left or error.sqlstate not in _ROLLED_BACK:
                    raise
        raise AssertionError("unreachable")

    async def _in_time(self, work: Callable[[], Any], given: float | None) -> Any:
        seconds = self.answer_seconds if given is None else given
        if time.monotonic() < self._away_until:
            raise _away("PostgreSQL cannot be reached")
        # In a task of its own: a statement that is cancelled may take seconds to end,
        # and the caller must not wait for that.
        task = asyncio.ensure_future(work())
        self._running.add(task)
        task.add_done_callback(self._forget)
        try:
            done, _ = await asyncio.wait({task}, timeout=seconds)
        except asyncio.CancelledError:
            task.cancel()
            raise
        if not done:
            task.cancel()
            self._away_until = time.monotonic() + _AWAY_SECONDS
            raise _away(f"PostgreSQL has not answered within {seconds:g} s")
        try:
            return task.result()
        except Unavailable:
            self._away_until = time.monotonic() + _AWAY_SECONDS
            raise

    def _forget(self, task: "asyncio.Task[Any]") -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # seen, whether anybody still waits for it or not

    def close(self) -> None:
        """Close all connections."""
        self.pool.close()


async def _one(conn: Any, number: int, call: Call[T]) -> T:
    try:
        with translating:
            return call.read(await psycopg_rows_async(conn, call))
    except (Unavailable, NotInstalled):
        raise
    except SkiplaneError as error:
        raise Refused(number, error) from error


def _away(message: str) -> Unavailable:
    return Unavailable(
        message, remedy="Repeat the request; a submission with an idempotency key is never doubled."
    )

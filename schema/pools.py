"""The connections of a Skiplane app: opened when needed, kept, and never shared through fork.

Leaner than psycopg_pool on purpose: no threads and no background tasks, so that
an app may be made at import time, used from several event loops and inherited
by forked workers; a connection is made in the task that needs it, so that its
error is the one that the caller sees.
"""

import asyncio
import contextlib
import os
import threading
import time
import weakref
from collections.abc import AsyncIterator, Iterator
from typing import Any, Generic, TypeVar

import psycopg
from psycopg.pq import TransactionStatus

from .call import Call
from .callers import psycopg_rows, psycopg_rows_async
from .connect import connect_async, connect_sync
from .errors import Unavailable, translating

T = TypeVar("T")
C = TypeVar("C", bound=psycopg.Connection[Any] | psycopg.AsyncConnection[Any])

_TRIES = 3
_ROLLED_BACK = ("40001", "40P01")  # serialization failure, deadlock: nothing was done


class _Idle(Generic[C]):
    """The idle connections, the last used on top so that the rest can time out."""

    def __init__(self, max_idle: float) -> None:
        self.made: weakref.WeakSet[C] = weakref.WeakSet()
        self._stack: list[tuple[float, C]] = []
        self._max_idle = max_idle
        self._pid = os.getpid()

    def take(self) -> C | None:
        while self._stack:
            _, connection = self._stack.pop()
            if _alive(connection):
                return connection
            connection.pgconn.finish()
        return None

    def give(self, connection: C) -> None:
        # Somebody cancelled in the middle of a statement leaves it unusable.
        if connection.pgconn.transaction_status != TransactionStatus.IDLE:
            connection.pgconn.finish()
            return
        now = time.monotonic()
        self._stack.append((now, connection))
        if now - self._stack[0][0] > self._max_idle:
            self._stack.pop(0)[1].pgconn.finish()

    def finish(self) -> None:
        if self._pid != os.getpid():
            return  # a fork's copy: to say goodbye here would hang up on the parent
        for connection in list(self.made):
            connection.pgconn.finish()
        self._stack.clear()


def _alive(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> bool:
    # A server that went away has closed the socket, which a read without
    # waiting shows; a round trip per call would halve the rate of submissions.
    # Twice, because the first read may find the server's parting message.
    try:
        connection.pgconn.consume_input()
        connection.pgconn.consume_input()
    except psycopg.Error:
        return False
    return True


class SyncPool:
    """Connections for threads. Thread-safe.

    Args:
        dsn: The database.
        size: How many at most; who finds none waits.
        role: What pg_stat_activity shows after "skiplane".
        prepare: Whether to use prepared statements. None: unless a pooler is in between.
        max_idle: Seconds after which an unused one may be closed.
    """

    def __init__(
        self,
        dsn: str,
        size: int = 10,
        *,
        role: str = "app",
        prepare: bool | None = None,
        max_idle: float = 300,
    ) -> None:
        self._dsn, self._role, self._prepare = dsn, role, prepare
        self._slots = threading.BoundedSemaphore(size)
        self._lock = threading.Lock()
        self._idle: _Idle[psycopg.Connection[Any]] = _Idle(max_idle)
        self.pid = os.getpid()

    @contextlib.contextmanager
    def connection(self) -> Iterator[psycopg.Connection[Any]]:
        """Lend a connection in autocommit."""
        with self._slots:
            with self._lock:
                connection = self._idle.take()
            if connection is None:
                connection = connect_sync(self._dsn, self._role, prepare=self._prepare)
                self._idle.made.add(connection)
            try:
                yield connection
            finally:
                with self._lock:
                    self._idle.give(connection)

    def open(self) -> None:
        """Make a connection now, to see an error early."""
        with translating, self.connection():
            pass

    def run(self, call: Call[T]) -> T:
        """Run a call in a transaction of its own."""
        for left in reversed(range(_TRIES)):
            try:
                with translating, self.connection() as connection:
                    return call.read(psycopg_rows(connection, call))
            except (psycopg.Error, Unavailable) as error:
                if not left or not _again(error, call):
                    raise
        raise AssertionError("unreachable")

    def close(self) -> None:
        """Close all connections. A later call opens new ones."""
        with self._lock:
            self._idle.finish()


class AsyncPool:
    """Connections for the tasks of one event loop. Arguments as for SyncPool."""

    def __init__(
        self,
        dsn: str,
        size: int = 10,
        *,
        role: str = "app",
        prepare: bool | None = None,
        max_idle: float = 300,
    ) -> None:
        self._dsn, self._role, self._prepare = dsn, role, prepare
        self._slots = asyncio.Semaphore(size)
        self._idle: _Idle[psycopg.AsyncConnection[Any]] = _Idle(max_idle)
        self.pid = os.getpid()
        # A loop that ends without close() leaves nobody to await one.
        weakref.finalize(self, self._idle.finish)

    @contextlib.asynccontextmanager
    async def connection(self) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
        """Lend a connection in autocommit."""
        async with self._slots:
            connection = self._idle.take()
            if connection is None:
                connection, _ = await connect_async(self._dsn, self._role, prepare=self._prepare)
                self._idle.made.add(connection)
            try:
                yield connection
            finally:
                self._idle.give(connection)

    async def open(self) -> None:
        """Make a connection now, to see an error early."""
        with translating:
            async with self.connection():
                pass

    async def run(self, call: Call[T]) -> T:
        """Run a call in a transaction of its own."""
        for left in reversed(range(_TRIES)):
            try:
                with translating:
                    async with self.connection() as connection:
                        return call.read(await psycopg_rows_async(connection, call))
            except (psycopg.Error, Unavailable) as error:
                if not left or not _again(error, call):
                    raise
        raise AssertionError("unreachable")

    def close(self) -> None:
        """Close all connections. A later call opens new ones."""
        self._idle.finish()


def _again(error: Exception, call: Call[Any]) -> bool:
    if isinstance(error, psycopg.Error):
        return error.sqlstate in _ROLLED_BACK
    return call.repeatable

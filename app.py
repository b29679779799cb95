"""The face of Skiplane in Python: where the database is, and which tasks there are."""

import asyncio
import json
import os
import threading
import weakref
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from .config import load_config
from .declare import Declaring
from .declare_schedules import DeclaringSchedules
from .handle import ResultWaiter
from .schedules import Cron
from .schema.errors import Unavailable
from .schema.pools import AsyncPool, SyncPool
from .steering import Steering
from .verbs import Verbs
from .workflows.verbs import WorkflowVerbs


class Skiplane(Declaring, DeclaringSchedules, Verbs, WorkflowVerbs, Steering):
    """An app: its tasks, and the database in which they wait.

    Nothing is opened before it is needed, so an app may be made at import time.
    It may be used from any number of threads, event loops and forked processes.

    Args:
        dsn: A libpq connection string or URI. Without one it is SKIPLANE_DSN or
            the settings file's, else the database of a running ``skiplane up``.
        pool_size: Connections at most, for each event loop and for all threads together.
        prepare: Whether to use prepared statements. None: unless a pooler is in between.
    """

    def __init__(
        self, dsn: str | None = None, *, pool_size: int = 10, prepare: bool | None = None
    ) -> None:
        Declaring.__init__(self)
        DeclaringSchedules.__init__(self)
        self._given_dsn = dsn
        self._size = pool_size
        self._prepare = prepare
        self._lock = threading.Lock()
        self._loops: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _OfLoop]
        self._loops = weakref.WeakKeyDictionary()
        self._threads: SyncPool | None = None
        self._inherited: list[Any] = []

    def __repr__(self) -> str:
        return f"<Skiplane with {len(self.registry.names())} tasks>"

    @property
    def cron(self) -> Cron:
        """The verbs of schedules."""
        return Cron(self)

    @property
    def dsn(self) -> str:
        """Where the database is.

        Raises:
            ConfigError: The settings cannot be used.
            Unavailable: No database is configured and none runs here.
        """
        return self._given_dsn or find_dsn()

    async def open(self) -> None:
        """Connect now instead of at the first call, to see an error early.

        Raises:
            Unavailable: The database cannot be reached.
        """
        await self.pool().open()

    async def close(self) -> None:
        """Close the connections of this event loop. A later call opens new ones."""
        with self._lock:
            mine = self._loops.pop(asyncio.get_running_loop(), None)
        if mine is not None:
            mine.waiter.close()
            mine.pool.close()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        await self.close()

    def open_sync(self) -> None:
        """Do what ``open`` does, for threads."""
        self.pool_sync().open()

    def close_sync(self) -> None:
        """Close the connections of the sync calls. A later call opens new ones."""
        with self._lock:
            mine, self._threads = self._threads, None
        if mine is not None:
            mine.close()

    def __enter__(self) -> Self:
        self.open_sync()
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self.close_sync()

    def pool(self) -> AsyncPool:
        """Give the connections of the running event loop."""
        return self._of_loop().pool

    def waiter(self) -> ResultWaiter:
        """Give what waits for results in the running event loop."""
        return self._of_loop().waiter

    def pool_sync(self) -> SyncPool:
        """Give the connections for threads."""
        pool = self._threads
        if pool is not None and pool.pid == os.getpid():
            return pool
        with self._lock:
            self._leave_to_parent(self._threads)
            self._threads = SyncPool(self.dsn, self._size, prepare=self._prepare)
            return self._threads

    def _of_loop(self) -> "_OfLoop":
        loop = asyncio.get_running_loop()
        mine = self._loops.get(loop)
        if mine is None or mine.pool.pid != os.getpid():
            with self._lock:
                self._leave_to_parent(mine)
                mine = _OfLoop(self, AsyncPool(self.dsn, self._size, prepare=self._prepare))
                self._loops[loop] = mine
        return mine

    def _leave_to_parent(self, inherited: Any) -> None:
        # After a fork the sockets are still the parent's: never used, and never
        # closed, which would say goodbye in its name.
        if inherited is not None:
            self._inherited.append(inherited)


class _OfLoop:
    def __init__(self, app: Skiplane, pool: AsyncPool) -> None:
        self.pool = pool
        self.waiter = ResultWaiter(app)


def find_dsn() -> str:
    """Give the configured database, else that of a running ``skiplane up``.

    Raises:
        ConfigError: The settings cannot be used.
        Unavailable: No database is configured and none runs here.
    """
    config = load_config()
    found = config.dsn or _running(config.data_dir / "endpoint.json")
    if found is None:
        raise Unavailable(
            f"No database is configured, and no `skiplane up` runs on {config.data_dir}.",
            "dsn",
            None,
            "Set SKIPLANE_DSN, write Skiplane(dsn), or start `skiplane up`.",
        )
    return found


def _running(endpoint: Path) -> str | None:
    try:
        said = json.loads(endpoint.read_text(encoding="utf-8"))
        os.kill(int(said["pid"]), 0)  # a crash leaves the file behind
        return str(said["dsn"])
    except PermissionError:
        return None
    except (OSError, ValueError, KeyError, TypeError):
        return None

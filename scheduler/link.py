"""Connections that come back by themselves, and say so once."""

import asyncio
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psycopg
import structlog

from ..schema import scheduler_calls as calls
from ..schema.connect import AsyncConnection, connect_async

log = structlog.get_logger(__name__)

LONGEST_PAUSE = 5.0


class Outage:
    """What a process says about a database that is away: one line, and one when it is back."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._over_at = 0.0

    def began(self, error: Exception) -> None:
        """Note that the database cannot be reached."""
        if self._since is None:
            self._since = time.monotonic()
            log.warning("the database is away; trying until it is back", cause=one_line(error))

    def connected(self, well_at: float, lost_by: Exception | None) -> None:
        """Note a new connection.

        Args:
            well_at: When its predecessor was last seen well (time.monotonic).
            lost_by: What the predecessor ended with, if it did.
        """
        now = time.monotonic()
        if self._since is not None:
            log.info("the database is back", away_seconds=round(now - self._since, 1))
            self._since, self._over_at = None, now
        elif lost_by is not None and well_at > self._over_at:
            log.info("a lost connection was replaced", cause=one_line(lost_by))
            self._over_at = now


class LinkLost(Exception):
    """The connection ended during a turn; the link has said so, or will."""


class Link:
    """One connection, shared by loops that take turns on it.

    Attributes:
        away: Whether the database cannot be reached.
        back_at: When it could be reached again after that (time.monotonic).
    """

    def __init__(self, dsn: str, outage: Outage, role: str, settings: dict[str, str]) -> None:
        """Prepare a link; it connects when it is first used.

        Args:
            dsn: Where PostgreSQL, or a pooler in front of it, is.
            outage: Shared by the links of one process.
            role: What it is for, as pg_stat_activity shows it.
            settings: Settings of the server for its statements.
        """
        self._settings = settings
        self._dsn, self._role = dsn, role
        self._outage = outage
        self._turn = asyncio.Lock()
        self._conn: AsyncConnection | None = None
        self._pooled = False
        self._well_at = time.monotonic()
        self._lost_by: Exception | None = None
        self.away = False
        self.back_at = time.monotonic()

    @asynccontextmanager
    async def session(self) -> AsyncIterator[AsyncConnection]:
        """Give the connection, waiting for the database as long as it takes.

        An error inside ends the connection: its cause may sit in the session
        (a stale plan after a migration, a standby after a failover).

        Raises:
            LinkLost: The connection broke.
        """
        async with self._turn:
            conn = self._conn or await self._connect()
            try:
                if self._pooled:
                    async with conn.transaction():
                        await calls.apply_settings(conn, self._settings, for_transaction=True)
                        yield conn
                else:
                    yield conn
            except BaseException as error:
                broken = conn.broken
                self.abort()
                if broken and isinstance(error, psycopg.Error):
                    self._lost_by = error
                    raise LinkLost(one_line(error)) from error
                raise
            self._well_at = time.monotonic()

    def abort(self) -> None:
        """Close at once, without a word to a server that may not answer."""
        if self._conn is not None:
            self._conn.pgconn.finish()
        self._conn = None

    async def _connect(self) -> AsyncConnection:
        pause = 0.1
        while True:
            try:
                conn = await self._open()
            except psycopg.Error as error:
                self.away = True
                self._outage.began(error)
                # Many schedulers must not come back to a starting server as one.
                await asyncio.sleep(pause * random.uniform(0.5, 1))
                pause = min(LONGEST_PAUSE, pause * 2)
            else:
                self._outage.connected(self._well_at, self._lost_by)
                if self.away:
                    self.away, self.back_at = False, time.monotonic()
                self._conn, self._lost_by = conn, None
                return conn

    async def _open(self) -> AsyncConnection:
        conn, self._pooled = await connect_async(self._dsn, self._role)
        try:
            if self._pooled:
                await conn.set_isolation_level(psycopg.IsolationLevel.READ_COMMITTED)
            else:
                await calls.apply_settings(conn, self._settings, for_transaction=False)
        except BaseException:
            conn.pgconn.finish()
            raise
        return conn


def one_line(error: BaseException) -> str:
    """Give an error's first sentence; the driver puts hints on further lines."""
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__

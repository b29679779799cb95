"""Connections that come back by themselves, and say so once."""

import asyncio
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psycopg
import structlog
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from ..schema import scheduler_calls as calls

log = structlog.get_logger(__name__)

CONNECT_SECONDS = 5
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
        up_since: When it was connected (time.monotonic), None while it is not.
    """

    def __init__(self, dsn: str, outage: Outage, name: str) -> None:
        """Prepare a link; it connects when it is first used.

        Args:
            dsn: Where PostgreSQL, or a pooler in front of it, is.
            outage: Shared by the links of one process.
            name: The connection's application_name.
        """
        self._dsn = make_conninfo(dsn, application_name=name)
        self._outage = outage
        self._turn = asyncio.Lock()
        self._conn: calls.Connection | None = None
        self._settings_hold = True
        self._well_at = time.monotonic()
        self._lost_by: Exception | None = None
        self.up_since: float | None = None

    @asynccontextmanager
    async def session(self) -> AsyncIterator[calls.Connection]:
        """Give the connection, waiting for the database as long as it takes.

        An error inside ends the connection: its cause may sit in the session
        (a stale plan after a migration, a standby after a failover).

        Raises:
            LinkLost: The connection broke.
        """
        async with self._turn:
            conn = self._conn or await self._connect()
            try:
                if self._settings_hold:
                    yield conn
                else:
                    async with conn.transaction():
                        await calls.set_for_transaction(conn)
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
        self._conn = self.up_since = None

    async def _connect(self) -> calls.Connection:
        pause = 0.1
        while True:
            try:
                conn = await self._open()
            except psycopg.OperationalError as error:
                self._outage.began(error)
                # Many schedulers must not come back to a starting server as one.
                await asyncio.sleep(pause * random.uniform(0.5, 1))
                pause = min(LONGEST_PAUSE, pause * 2)
            else:
                self._outage.connected(self._well_at, self._lost_by)
                self._conn, self._lost_by, self.up_since = conn, None, time.monotonic()
                return conn

    async def _open(self) -> calls.Connection:
        try:
            conn = await _connect(_with_settings(self._dsn))
        except psycopg.OperationalError:
            # pgbouncer refuses start-up options that it has not been told of.
            conn = await _connect(self._dsn)
        try:
            self._settings_hold = await calls.settings_hold(conn)
        except psycopg.Error as error:
            conn.pgconn.finish()
            raise psycopg.OperationalError(str(error)) from error
        if not self._settings_hold:
            # A pooler gives each transaction another session: nothing that
            # lives in one may be relied on.
            conn.prepare_threshold = None
            await conn.set_isolation_level(psycopg.IsolationLevel.READ_COMMITTED)
        return conn


def one_line(error: BaseException) -> str:
    """Give an error's first sentence; the driver puts hints on further lines."""
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__


async def _connect(dsn: str) -> calls.Connection:
    return await psycopg.AsyncConnection.connect(
        dsn,
        autocommit=True,
        connect_timeout=CONNECT_SECONDS,
        keepalives_idle=10,
        keepalives_interval=5,
        keepalives_count=3,
    )


def _with_settings(dsn: str) -> str:
    own = str(conninfo_to_dict(dsn).get("options") or "")
    ours = [f"-c {name}={value}".replace("d c", r"d\ c") for name, value in calls.SETTINGS.items()]
    return make_conninfo(dsn, options=" ".join([own, *ours]).strip())

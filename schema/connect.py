"""How a worker's connections are opened: autocommit, with time limits, and never through luck.

A role, a database or a pooler may bring settings that were made for web
requests. Ours are sent as start-up options; a pooler that refuses those is asked
again without them, and is then known to be one. Where its sessions are not READ
COMMITTED by themselves, each statement says so in a transaction of its own.
"""

from typing import Any, NamedTuple, Self

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import TransactionStatus

AsyncConnection = psycopg.AsyncConnection[tuple[Any, ...]]
SyncConnection = psycopg.Connection[tuple[Any, ...]]

CONNECT_SECONDS = 5

# A dead peer must show within the shortest useful lease, not after the two
# hours of the kernel's defaults.
_NETWORK = {
    "connect_timeout": CONNECT_SECONDS,
    "keepalives": 1,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
}

_ISOLATION = "read committed"
_PROBE = "select pg_backend_pid(), current_setting('default_transaction_isolation')"

# Under serializable a claim would fail with 40001 whenever another worker had
# the same lane in hand; an idle listener is idle on purpose.
_SETTINGS = {
    "default_transaction_isolation": r"read\ committed",
    "default_transaction_read_only": "off",
    "default_transaction_deferrable": "off",
    "idle_in_transaction_session_timeout": "0",
    "idle_session_timeout": "0",
}


class Opened(NamedTuple):
    """A connection, and whether a pooler stands between it and the server.

    Behind one, nothing that lives in a session (LISTEN, session locks, SET) may
    be relied on.
    """

    conn: AsyncConnection
    pooled: bool


def conninfo(dsn: str, role: str, *, settings: bool = True) -> str:
    """Give the DSN with our defaults; what it says itself comes first.

    Args:
        dsn: A libpq connection string or URI.
        role: What the connection is for; pg_stat_activity shows ``skiplane <role>``.
        settings: Whether to add start-up options.
    """
    own: dict[str, Any] = dict(conninfo_to_dict(dsn))
    merged = {**_NETWORK, "application_name": f"skiplane {role}", **own}
    if settings:
        ours = " ".join(f"-c {name}={value}" for name, value in _SETTINGS.items())
        merged["options"] = f"{ours} {own.get('options') or ''}".strip()
    return make_conninfo("", **merged)


async def connect_async(dsn: str, role: str, *, prepare: bool | None = None) -> Opened:
    """Open an asynchronous connection in autocommit.

    Args:
        dsn: Where PostgreSQL, or a pooler in front of it, is.
        role: See conninfo.
        prepare: Whether to use prepared statements. None: unless pooled.

    Raises:
        psycopg.OperationalError: The server cannot be reached or refuses.
    """
    try:
        conn = await _open_async(conninfo(dsn, role))
    except psycopg.OperationalError as error:
        if not _refuses_settings(error):
            raise
        conn = await _open_async(conninfo(dsn, role, settings=False))
    try:
        row = await (await conn.execute(_PROBE)).fetchone()
        assert row is not None
        pooled = row[0] != conn.info.backend_pid
        if pooled and row[1] != _ISOLATION:
            await conn.set_isolation_level(psycopg.IsolationLevel.READ_COMMITTED)
            conn.cursor_factory = _AsyncCursor
    except BaseException:
        await conn.close()
        raise
    conn.prepare_threshold = _threshold(prepare, pooled)
    return Opened(conn, pooled)


def connect_sync(dsn: str, role: str, *, prepare: bool | None = None) -> SyncConnection:
    """Open a synchronous connection in autocommit; see connect_async."""
    try:
        conn = _open_sync(conninfo(dsn, role))
    except psycopg.OperationalError as error:
        if not _refuses_settings(error):
            raise
        conn = _open_sync(conninfo(dsn, role, settings=False))
    try:
        row = conn.execute(_PROBE).fetchone()
        assert row is not None
        pooled = row[0] != conn.info.backend_pid
        if pooled and row[1] != _ISOLATION:
            conn.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
            conn.cursor_factory = _Cursor
    except BaseException:
        conn.close()
        raise
    conn.prepare_threshold = _threshold(prepare, pooled)
    return conn


class _AsyncCursor(psycopg.AsyncCursor[Any]):
    async def execute(self, *args: Any, **kwargs: Any) -> Self:
        if self.connection.info.transaction_status != TransactionStatus.IDLE:
            return await super().execute(*args, **kwargs)
        async with self.connection.transaction():
            return await super().execute(*args, **kwargs)


class _Cursor(psycopg.Cursor[Any]):
    def execute(self, *args: Any, **kwargs: Any) -> Self:
        if self.connection.info.transaction_status != TransactionStatus.IDLE:
            return super().execute(*args, **kwargs)
        with self.connection.transaction():
            return super().execute(*args, **kwargs)


def _refuses_settings(error: psycopg.OperationalError) -> bool:
    # Only a pooler's own words: a server that was away for a moment must not be
    # asked without our settings, since the connection would then live on with
    # those of the role.
    return "startup parameter" in str(error)


def _threshold(prepare: bool | None, pooled: bool) -> int | None:
    return 0 if (not pooled if prepare is None else prepare) else None


async def _open_async(info: str) -> AsyncConnection:
    return await psycopg.AsyncConnection.connect(info, autocommit=True, prepare_threshold=None)


def _open_sync(info: str) -> SyncConnection:
    return psycopg.Connection.connect(info, autocommit=True, prepare_threshold=None)

"""How a worker's connections are opened: autocommit, with time limits, and never through luck.

A role, a database or a pooler may bring settings that were made for web
requests. Ours are sent as start-up options; a pooler that refuses those is asked
again without them, and is then known to be one.
"""

from typing import Any, NamedTuple

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

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
        row = await (await conn.execute("select pg_backend_pid()")).fetchone()
    except BaseException:
        await conn.close()
        raise
    pooled = row is None or row[0] != conn.info.backend_pid
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
        row = conn.execute("select pg_backend_pid()").fetchone()
    except BaseException:
        conn.close()
        raise
    conn.prepare_threshold = _threshold(prepare, row is None or row[0] != conn.info.backend_pid)
    return conn


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

"""The session that migrates: whatever its role, database or pooler have set does not matter."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any, LiteralString

import psycopg

from .errors import LockTimeout, MigrationError, ServerTooOld

Connection = psycopg.Connection[tuple[Any, ...]]

OLDEST_SERVER = 150000
# One number per database; any other application's lock with it would only make us wait.
LOCK = 0x736B69706C616E65 & 0x7FFFFFFFFFFFFFFF
LONGEST_WAIT = "10min"

# For this transaction only: behind a pooler a session setting would stay with
# somebody else's session.
SETTINGS = {
    "search_path": "pg_catalog, pg_temp",
    "statement_timeout": "30min",
    "idle_in_transaction_session_timeout": "0",
    "transaction_timeout": "0",
    "client_min_messages": "warning",
    "datestyle": "ISO, YMD",
    "intervalstyle": "postgres",
    "timezone": "UTC",
    "standard_conforming_strings": "on",
    "backslash_quote": "safe_encoding",
    "transform_null_equals": "off",
    "array_nulls": "on",
    "bytea_output": "hex",
    "extra_float_digits": "1",
    "quote_all_identifiers": "off",
    "row_security": "on",
    "synchronous_commit": "on",
    "default_table_access_method": "heap",
    # Functions may name what a later file makes; all are checked at the end.
    "check_function_bodies": "off",
}

WHO_BLOCKS: LiteralString = """
select string_agg(format('process %%s (user %%s, application %%s, %%s%%s)', a.pid, a.usename,
        coalesce(nullif(a.application_name, ''), 'unknown'), coalesce(a.state, 'state unknown'),
        ', in a transaction since ' || a.xact_start), ' and ')
from pg_stat_activity a where a.pid = any (pg_blocking_pids(%s))
"""


def connect(dsn: str) -> Connection:
    """Connect for a migration.

    Raises:
        MigrationError: The server does not let us in, or is not there.
    """
    try:
        connection = psycopg.connect(
            dsn,
            # Prepared statements break behind a pooler.
            prepare_threshold=None,
            client_encoding="utf8",
            application_name="skiplane migrate",
        )
    except (psycopg.OperationalError, psycopg.ProgrammingError) as error:
        raise MigrationError(f"Cannot connect to the database: {str(error).strip()}") from error
    # A second migrator must see, after waiting, what the first one committed.
    connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
    connection.read_only = False
    return connection


def prepare(connection: Connection, lock_timeout: str) -> None:
    """Begin the transaction and give it known settings.

    Args:
        connection: Not in a transaction.
        lock_timeout: Longest wait for one lock, as PostgreSQL writes it: "5s".

    Raises:
        ServerTooOld: Before PostgreSQL 15.
        MigrationError: The time is not one.
    """
    server = connection.info.server_version
    if server < OLDEST_SERVER:
        raise ServerTooOld(
            f"This server is PostgreSQL {server // 10000}, and Skiplane needs 15 or newer."
        )
    # A setting that this version does not know has no row, and is left out.
    connection.execute(
        "select pg_catalog.set_config(s.name, v.value, true) from pg_catalog.pg_settings s"
        " join rows from (pg_catalog.unnest(%s::text[]), pg_catalog.unnest(%s::text[]))"
        " v(name, value)"
        " on pg_catalog.lower(s.name) operator(pg_catalog.=) v.name",
        [list(SETTINGS), list(SETTINGS.values())],
    )
    set_lock_timeout(connection, lock_timeout)


def set_lock_timeout(connection: Connection, lock_timeout: str) -> None:
    """Bound the wait for one lock in this transaction."""
    try:
        connection.execute("select pg_catalog.set_config('lock_timeout', %s, true)", [lock_timeout])
    except psycopg.errors.InvalidParameterValue as error:
        raise MigrationError(
            f"The lock time-out {lock_timeout!r} is no time; give one such as 5s or 500ms."
        ) from error


def take_turn(connection: Connection, lock_timeout: str, report: Callable[[str], None]) -> None:
    """Wait until no other migration of this database runs. The lock ends with the transaction.

    Raises:
        LockTimeout: The other one has not ended for ten minutes.
    """
    query = "select pg_try_advisory_xact_lock(%s)"
    if one(connection, query, LOCK):
        return
    report(f"another migration of this database runs ({_holder(connection)}); waiting")
    set_lock_timeout(connection, LONGEST_WAIT)
    try:
        connection.execute("select pg_advisory_xact_lock(%s)", [LOCK])
    except psycopg.errors.LockNotAvailable as error:
        raise LockTimeout(
            f"Another migration of this database has been running for {LONGEST_WAIT}; "
            "nothing was changed."
        ) from error
    set_lock_timeout(connection, lock_timeout)


def _holder(connection: Connection) -> str:
    row = connection.execute(
        "select pid from pg_locks where locktype = 'advisory' and granted"
        " and database = (select oid from pg_database where datname = current_database())"
        " and (classid::bigint << 32) | objid::bigint = %s and objsubid = 1",
        [LOCK],
    ).fetchone()
    return f"process {row[0]}" if row else "just ending"


def one(connection: Connection, query: LiteralString, *values: Any) -> Any:
    """Give the first value of the first row, None when there is none."""
    row = connection.execute(query, values).fetchone()
    return row and row[0]


class Blockers:
    """Sees, from a second session, who blocks the migration: afterwards it is too late to ask."""

    def __init__(self, dsn: str) -> None:
        self.seen = ""
        self._dsn = dsn
        self._pid: int | None = None
        self._over = threading.Event()

    def of(self, connection: Connection) -> None:
        """Name the session that is watched; call inside its transaction.

        Behind a pooler, the process that serves a transaction is not the one
        that the driver was told when it connected.
        """
        self._pid = one(connection, "select pg_backend_pid()")

    def watch(self) -> None:
        """Look five times a second until told to stop."""
        # No connection to spare, or no right: the message will say less.
        with contextlib.suppress(psycopg.Error), psycopg.connect(self._dsn, autocommit=True) as own:
            own.prepare_threshold = None
            while not self._over.wait(0.2):
                with own.transaction():
                    own.execute("set local search_path = pg_catalog, pg_temp")
                    self.seen = one(own, WHO_BLOCKS, self._pid) or self.seen

    def stop(self) -> None:
        """End the watch."""
        self._over.set()


@contextlib.contextmanager
def naming_blockers(dsn: str, lock_timeout: str) -> Iterator[Blockers]:
    """Turn a lock time-out inside the block into LockTimeout, which names who held the lock."""
    blockers = Blockers(dsn)
    thread = threading.Thread(target=blockers.watch, name="skiplane-migrate-watch", daemon=True)
    thread.start()
    try:
        yield blockers
    except Exception as error:
        cause: BaseException | None = error
        while cause and not isinstance(cause, psycopg.errors.LockNotAvailable):
            cause = cause.__cause__
        if cause is None or isinstance(error, LockTimeout):
            raise
        raise LockTimeout(
            f"Gave up after waiting {lock_timeout} for a lock held by "
            f"{blockers.seen or 'another session'}; nothing was changed."
        ) from error
    finally:
        blockers.stop()
        thread.join(5)

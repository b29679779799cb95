"""The statements behind `skiplane bench`: what to compare with, and what was reached."""

from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

import psycopg
from psycopg import sql

from .connect import SyncConnection

BATCH = 50


class Finished(NamedTuple):
    """How a range of tasks ended.

    Attributes:
        succeeded: Tasks that SUCCEEDED.
        other: Tasks that have ended otherwise.
        last_end: When the last one ended, in seconds since the epoch by the server's
            clock; None when none has.
    """

    succeeded: int
    other: int
    last_end: float | None


def wal_position(conn: SyncConnection) -> int:
    """Give the number of bytes of WAL since the server was made."""
    return int(_row(conn, "select pg_current_wal_insert_lsn() - '0/0'::pg_lsn")[0])


def server_version(conn: SyncConnection) -> str:
    """Give the server's version, like 15.20."""
    return str(_row(conn, "select split_part(current_setting('server_version'), ' ', 1)")[0])


def clock(conn: SyncConnection) -> float:
    """Give the server's time in seconds since the epoch."""
    return float(_row(conn, "select extract(epoch from clock_timestamp())::float8")[0])


def registered_workers(conn: SyncConnection, queue: str) -> int:
    """Count the worker processes that serve a queue."""
    row = _row(conn, "select count(*) from skiplane.workers where %s = any (queues)", (queue,))
    return int(row[0])


def finished(conn: SyncConnection, queue: str, first: UUID, last: UUID) -> Finished:
    """Say how the tasks of a queue between two ids ended.

    The ids are ordered by time, so that the range is read from an index.
    """
    row = _row(
        conn,
        """
        select count(*) filter (where status = 'SUCCEEDED'),
            count(*) filter (where status <> 'SUCCEEDED'),
            extract(epoch from max(completed_at))::float8
        from skiplane.tasks
        where task_id between %(first)s and %(last)s and queue = %(queue)s
            and completed_at is not null
        """,
        {"first": first, "last": last, "queue": queue},
    )
    return Finished(*row)


def finished_between(
    conn: SyncConnection, queue: str, first: UUID, last: UUID, start: datetime, end: datetime
) -> int:
    """Count the tasks of a queue and range that SUCCEEDED in a stretch of time."""
    row = _row(
        conn,
        """
        select count(*) from skiplane.tasks
        where task_id between %s and %s and queue = %s and status = 'SUCCEEDED'
            and completed_at >= %s and completed_at < %s
        """,
        (first, last, queue, start, end),
    )
    return int(row[0])


def first_id_now(conn: SyncConnection) -> UUID:
    """Give an id below all that will be given out from now on (UUIDv7, RFC 9562)."""
    return UUID(int=int(clock(conn) * 1000) << 80)


def open_tasks(conn: SyncConnection, queue: str, since: UUID) -> list[UUID]:
    """Give the tasks of a queue from that id on that have not ended."""
    cursor = conn.execute(
        """
        select task_id from skiplane.tasks
        where task_id >= %s and queue = %s and completed_at is null
        """,
        (since, queue),
    )
    return [row[0] for row in cursor]


def cancel_tasks(conn: SyncConnection, ids: list[UUID]) -> None:
    """Cancel tasks that nobody runs any more."""
    conn.execute(
        "select skiplane.cancel_task(id, %s) from unnest(%s::uuid[]) id",
        ("left over from a measurement", ids),
    )


def hold_snapshot(conn: SyncConnection) -> None:
    """Take a snapshot that lasts as long as the connection."""
    conn.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    conn.autocommit = False
    conn.execute("select count(*) from pg_class")


class Floor:
    """A bare cycle in SQL: delete 50 rows with SKIP LOCKED, insert 50 results.

    No queue can be faster on the server; the schema is dropped at the end.
    """

    def __init__(self, name: str) -> None:
        """Prepare statements for a schema of that name."""
        self._name = sql.Identifier(name)

    def make(self, conn: SyncConnection, rows: int, payload: str) -> None:
        """Make the tables and fill them."""
        for statement in (
            "create schema {0}",
            "create table {0}.wish (id bigint primary key, payload json not null)",
            "create table {0}.result (id bigint primary key, result json not null)",
        ):
            conn.execute(sql.SQL(statement).format(self._name))
        conn.execute(
            sql.SQL("insert into {}.wish select i, %s::json from generate_series(1, %s) i").format(
                self._name
            ),
            (payload, rows),
        )
        conn.execute(sql.SQL("vacuum analyze {}.wish").format(self._name))

    def cycle(self, conn: SyncConnection) -> int:
        """Do one round in one statement; give the number of rows."""
        statement = sql.SQL(
            """
            with taken as (
                delete from {0}.wish where id = any(array(
                    select id from {0}.wish order by id limit {1} for update skip locked))
                returning id, payload
            ), stored as (
                insert into {0}.result select id, '{{"ok": true}}' from taken
            )
            select count(*), max(payload::text) from taken
            """
        ).format(self._name, sql.Literal(BATCH))
        row = conn.execute(statement).fetchone()
        return int(row[0]) if row else 0

    def drop(self, conn: SyncConnection) -> None:
        """Leave nothing behind."""
        conn.execute(sql.SQL("drop schema if exists {} cascade").format(self._name))


def _row(conn: SyncConnection, query: Any, arguments: Any = None) -> tuple[Any, ...]:
    row = conn.execute(query, arguments).fetchone()
    if row is None:
        raise psycopg.DataError("a statement that always answers gave no row")
    return row

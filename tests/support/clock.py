"""The engine's clock, which tests set."""

import datetime

import psycopg


def set_clock(conn: psycopg.Connection, instant: datetime.datetime | str) -> None:
    """Stop the engine's clock of this session at an instant.

    Args:
        conn: In autocommit, so that a rollback does not undo it.
        instant: An aware datetime, or text such as ``2030-03-31 02:30+00``.
    """
    conn.execute("select set_config('skiplane.now', %s::timestamptz::text, false)", [str(instant)])


def reset_clock(conn: psycopg.Connection) -> None:
    """Let the engine's clock of this session run again."""
    conn.execute("select set_config('skiplane.now', '', false)")

"""Setting the engine's clock of a connection."""

from datetime import UTC, datetime, timedelta
from typing import Any

from ..schema.callers import run, run_async
from ..schema.session_clock import set_clock


def travel(connection: Any, to: datetime | timedelta | None) -> None:
    """Stop the engine's clock of one connection.

    Args:
        connection: A psycopg, SQLAlchemy or Django connection.
        to: An instant, a distance from now, or None to let the clock run again.
    """
    run(connection, set_clock(_instant(to)))


async def travel_async(connection: Any, to: datetime | timedelta | None) -> None:
    """Do what ``travel`` does on an async connection."""
    await run_async(connection, set_clock(_instant(to)))


def _instant(to: datetime | timedelta | None) -> datetime | None:
    return datetime.now(UTC) + to if isinstance(to, timedelta) else to

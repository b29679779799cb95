"""One row from a function that always answers."""

from collections.abc import Sequence
from typing import Any, LiteralString

import psycopg

from .connect import AsyncConnection, SyncConnection


async def one_row(
    conn: AsyncConnection, query: LiteralString, arguments: Sequence[Any] = ()
) -> tuple[Any, ...]:
    """Run a query and give its first row; psycopg.DataError when there is none."""
    return _checked(await (await conn.execute(query, arguments)).fetchone())


def one_row_sync(
    conn: SyncConnection, query: LiteralString, arguments: Sequence[Any] = ()
) -> tuple[Any, ...]:
    """See one_row."""
    return _checked(conn.execute(query, arguments).fetchone())


def _checked(row: tuple[Any, ...] | None) -> tuple[Any, ...]:
    if row is None:
        raise psycopg.DataError("a function that always answers gave no row")
    return row

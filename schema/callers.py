"""Running calls on a connection of the caller's, inside the transaction that is open there.

The connection is the caller's in every respect: nothing is committed, rolled
back, reconfigured or left behind on it. Driver errors that are none of ours
(a deadlock, an aborted transaction) pass through unchanged.
"""

import contextlib
import sys
from collections.abc import AsyncIterator, Iterator
from typing import Any, TypeVar

import psycopg
from psycopg.adapt import Buffer, Dumper
from psycopg.pq import Format
from psycopg.rows import tuple_row

from .call import Call, JsonTexts, Rows
from .encode import shown
from .errors import InvalidInput, translating

T = TypeVar("T")

_ACCEPTED = (
    "Give a psycopg 3 connection, a SQLAlchemy Connection or Session (also async), "
    "or django.db.connection."
)


class JsonTextsDumper(Dumper):
    """JSON documents as a binary text[]: several times faster than a list of str."""

    format = Format.BINARY
    oid = 1009  # text[]

    def dump(self, obj: JsonTexts) -> Buffer:
        """Write the array as array_recv() reads it: dimensions, nulls, type, then each element."""
        head = (1, 0, 25, len(obj), 1)
        parts = [b"".join(number.to_bytes(4, "big") for number in head)]
        for text in obj:
            parts.append(len(text).to_bytes(4, "big"))
            parts.append(text)
        return b"".join(parts)


def run(connection: Any, call: Call[T]) -> T:
    """Run a call on a caller's connection.

    Raises:
        InvalidInput: It is an async connection, or none that is known.
        SkiplaneError: What the engine refused.
    """
    with translating:
        return call.read(_rows(connection, call))


async def run_async(connection: Any, call: Call[T]) -> T:
    """Run a call on a caller's connection, async or not.

    A sync connection blocks the event loop for one round trip, as every other
    statement on it does.

    Raises:
        InvalidInput: No connection of that kind is known.
        SkiplaneError: What the engine refused.
    """
    with translating:
        if isinstance(connection, psycopg.AsyncConnection):
            return call.read(await psycopg_rows_async(connection, call))
        if _is_sqlalchemy(connection, asynchronous=True):
            result = await connection.execute(*_sqlalchemy_arguments(call))
            return call.read(result.fetchall())
        return call.read(_rows(connection, call))


@contextlib.contextmanager
def nested(connection: Any) -> Iterator[None]:
    """Make several calls all or nothing, inside a transaction or without one."""
    with translating:
        if isinstance(connection, psycopg.Connection):
            context: Any = connection.transaction()
        elif _is_sqlalchemy(connection):
            context = connection.begin_nested()
        elif _is_django(connection):
            context = sys.modules["django.db.transaction"].atomic(using=connection.alias)
        else:
            raise _refused(connection)
        with context:
            yield


@contextlib.asynccontextmanager
async def nested_async(connection: Any) -> AsyncIterator[None]:
    """Make several calls all or nothing, inside a transaction or without one."""
    with translating:
        if isinstance(connection, psycopg.AsyncConnection):
            async with connection.transaction():
                yield
        elif _is_sqlalchemy(connection, asynchronous=True):
            async with connection.begin_nested():
                yield
        else:
            with nested(connection):
                yield


def _rows(connection: Any, call: Call[Any]) -> Rows:
    if isinstance(connection, psycopg.Connection):
        return psycopg_rows(connection, call)
    if _is_sqlalchemy(connection):
        rows: Rows = connection.execute(*_sqlalchemy_arguments(call)).fetchall()
        return rows
    if _is_django(connection):
        # Its own cursor, so that query logs and assertNumQueries see it.
        with connection.cursor() as cursor:
            cursor.execute(call.sql, _plain(call))
            return list(cursor.fetchall())
    raise _refused(connection)


# The cursor classes are named: the connection may have been set to give rows as
# dicts, or to take another style of placeholders.
def psycopg_rows(connection: psycopg.Connection[Any], call: Call[Any]) -> Rows:
    """Run a call on a psycopg connection and give its rows."""
    with psycopg.Cursor(connection, row_factory=tuple_row) as cursor:
        if _is_bulk(call):
            cursor.adapters.register_dumper(JsonTexts, JsonTextsDumper)
        return cursor.execute(call.sql, call.parameters, binary=_is_bulk(call)).fetchall()


async def psycopg_rows_async(connection: psycopg.AsyncConnection[Any], call: Call[Any]) -> Rows:
    """Run a call on an async psycopg connection and give its rows."""
    async with psycopg.AsyncCursor(connection, row_factory=tuple_row) as cursor:
        if _is_bulk(call):
            cursor.adapters.register_dumper(JsonTexts, JsonTextsDumper)
        await cursor.execute(call.sql, call.parameters, binary=_is_bulk(call))
        return await cursor.fetchall()


def _is_bulk(call: Call[Any]) -> bool:
    return len(call.parameters) > 1 and isinstance(call.parameters[1], JsonTexts)


def _plain(call: Call[Any]) -> list[Any]:
    return [
        [text.decode() for text in value] if isinstance(value, JsonTexts) else value
        for value in call.parameters
    ]


def _sqlalchemy_arguments(call: Call[Any]) -> tuple[Any, dict[str, Any]]:
    # Through SQLAlchemy itself and not its driver: that begins the session's
    # transaction, is logged, and works with each of its drivers.
    names = [f"p{index}" for index in range(len(call.parameters))]
    statement = call.sql % tuple(f":{name}" for name in names)
    text = sys.modules["sqlalchemy"].text
    return text(statement), dict(zip(names, _plain(call), strict=True))


def _is_sqlalchemy(connection: Any, *, asynchronous: bool = False) -> bool:
    # Whoever has such an object has imported its module: nothing is imported here.
    if asynchronous:
        module = sys.modules.get("sqlalchemy.ext.asyncio")
        names = ("AsyncConnection", "AsyncSession", "async_scoped_session")
    else:
        module = sys.modules.get("sqlalchemy.orm") or sys.modules.get("sqlalchemy")
        names = ("Session", "Connection", "scoped_session")
    kinds = tuple(getattr(module, name) for name in names if hasattr(module, name))
    if not asynchronous and "sqlalchemy" in sys.modules:
        kinds += (sys.modules["sqlalchemy"].Connection,)
    return bool(kinds) and isinstance(connection, kinds)


def _is_django(connection: Any) -> bool:
    if "django.db" not in sys.modules or not hasattr(connection, "in_atomic_block"):
        return False
    if connection.vendor != "postgresql":
        raise InvalidInput(
            f"connection is Django's for {connection.vendor}.",
            "connection",
            shown(connection),
            "Tasks live in PostgreSQL: give that alias, django.db.connections[...].",
        )
    return True


def _refused(connection: Any) -> InvalidInput:
    if isinstance(connection, psycopg.AsyncConnection) or _is_sqlalchemy(
        connection, asynchronous=True
    ):
        return InvalidInput(
            "connection is an async one, and this is a sync call.",
            "connection",
            shown(connection),
            "Use `await ...submit(...)`, or give a sync connection.",
        )
    return InvalidInput(
        "connection is of no kind that is known.", "connection", shown(connection), _ACCEPTED
    )

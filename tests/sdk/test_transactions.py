"""Submitting inside the caller's transaction: a commit keeps the task, a rollback drops it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any
from uuid import UUID

import psycopg
import pytest
import sqlalchemy
from psycopg.rows import dict_row
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from skiplane import InvalidInput, NotFound, Skiplane
from skiplane.schema import producer


class Abort(Exception):
    """Rolls a transaction back."""


def sqlalchemy_url(dsn: str) -> sqlalchemy.URL:
    given = psycopg.conninfo.conninfo_to_dict(dsn)
    return sqlalchemy.URL.create("postgresql+psycopg", query={k: str(v) for k, v in given.items()})


@contextmanager
def psycopg_transaction(dsn: str) -> Iterator[Any]:
    with psycopg.connect(dsn) as connection:
        yield connection


@contextmanager
def psycopg_dict_rows(dsn: str) -> Iterator[Any]:
    with psycopg.connect(dsn, row_factory=dict_row) as connection:
        yield connection


@contextmanager
def psycopg_client_cursor(dsn: str) -> Iterator[Any]:
    with psycopg.connect(dsn, cursor_factory=psycopg.ClientCursor) as connection:
        yield connection


@contextmanager
def sqlalchemy_session(dsn: str) -> Iterator[Any]:
    engine = sqlalchemy.create_engine(sqlalchemy_url(dsn))
    try:
        with Session(engine) as session, session.begin():
            yield session
    finally:
        engine.dispose()


@contextmanager
def sqlalchemy_connection(dsn: str) -> Iterator[Any]:
    engine = sqlalchemy.create_engine(sqlalchemy_url(dsn))
    try:
        with engine.begin() as connection:
            yield connection
    finally:
        engine.dispose()


@contextmanager
def django_atomic(dsn: str) -> Iterator[Any]:
    import django  # type: ignore[import-untyped]
    from django.conf import settings  # type: ignore[import-untyped]

    given = psycopg.conninfo.conninfo_to_dict(dsn)
    alias = {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": given["dbname"],
        "HOST": given.get("host", ""),
        "PORT": given.get("port", ""),
        "USER": given.get("user", ""),
        "PASSWORD": given.get("password", ""),
    }
    if not settings.configured:
        settings.configure(DATABASES={"default": alias}, USE_TZ=True)
        django.setup()
    from django.db import connections, transaction  # type: ignore[import-untyped]

    connections["default"].settings_dict.update(alias)
    try:
        with transaction.atomic():
            yield connections["default"]
    finally:
        connections["default"].close()


SYNC: list[Callable[[str], Any]] = [
    psycopg_transaction,
    psycopg_dict_rows,
    psycopg_client_cursor,
    sqlalchemy_session,
    sqlalchemy_connection,
    django_atomic,
]


@asynccontextmanager
async def psycopg_async(dsn: str) -> AsyncIterator[Any]:
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        yield connection


@asynccontextmanager
async def sqlalchemy_async_session(dsn: str) -> AsyncIterator[Any]:
    engine = create_async_engine(sqlalchemy_url(dsn))
    try:
        async with AsyncSession(engine) as session, session.begin():
            yield session
    finally:
        await engine.dispose()


@asynccontextmanager
async def sqlalchemy_async_connection(dsn: str) -> AsyncIterator[Any]:
    engine = create_async_engine(sqlalchemy_url(dsn))
    try:
        async with engine.begin() as connection:
            yield connection
    finally:
        await engine.dispose()


ASYNC: list[Callable[[str], Any]] = [
    psycopg_async,
    sqlalchemy_async_session,
    sqlalchemy_async_connection,
]


@pytest.fixture
def few_in_a_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer, "CHUNK_TASKS", 2)


def submit_some(app: Skiplane, connection: Any) -> list[UUID]:
    one = app.submit_sync("one", {"a": 1}, connection=connection, metadata={"x": 1}, delay=5)
    many = app.submit_many_sync("many", range(5), connection=connection, queue="bulk")
    return [one.id, *many]


@pytest.mark.usefixtures("few_in_a_chunk")
@pytest.mark.parametrize("begin", SYNC)
def test_a_commit_keeps_the_tasks(dsn: str, begin: Callable[[str], Any]) -> None:
    with Skiplane(dsn) as app:
        with begin(dsn) as connection:
            ids = submit_some(app, connection)
            with pytest.raises(NotFound):
                app.get_sync(ids[0])  # nobody else sees it yet
            assert app.get_sync(ids[0], connection=connection).task_type == "one"
        assert [app.get_sync(task_id).payload for task_id in ids] == [{"a": 1}, 0, 1, 2, 3, 4]


@pytest.mark.usefixtures("few_in_a_chunk")
@pytest.mark.parametrize("begin", SYNC)
def test_a_rollback_drops_the_tasks(dsn: str, begin: Callable[[str], Any]) -> None:
    ids: list[UUID] = []
    with Skiplane(dsn) as app:
        with pytest.raises(Abort), begin(dsn) as connection:  # noqa: PT012
            ids = submit_some(app, connection)
            raise Abort
        assert len(ids) == 6
        assert app.list_sync() == []


@pytest.mark.parametrize("begin", SYNC)
def test_a_refusal_is_the_same_error_on_every_connection(
    dsn: str, begin: Callable[[str], Any]
) -> None:
    app = Skiplane(dsn)
    with pytest.raises(InvalidInput) as refusal, begin(dsn) as connection:
        app.submit_sync("one", connection=connection, priority="urgent")  # type: ignore[arg-type]
    assert (refusal.value.field, refusal.value.value) == ("priority", "urgent")
    assert refusal.value.remedy


@pytest.mark.usefixtures("few_in_a_chunk")
@pytest.mark.parametrize("begin", ASYNC)
async def test_an_async_commit_keeps_the_tasks(
    app: Skiplane, dsn: str, begin: Callable[[str], Any]
) -> None:
    @app.task("one")
    async def one(n: int) -> None: ...

    async with begin(dsn) as connection:
        handle = await one.submit(1, connection=connection)
        other = await one.options(connection=connection, delay=5).submit(n=2)
        ids = [handle.id, other.id, *await one.submit_many(range(5), connection=connection)]
        with pytest.raises(NotFound):
            await app.get(ids[0])
    assert [(await app.get(task_id)).payload["n"] for task_id in ids] == [1, 2, 0, 1, 2, 3, 4]


@pytest.mark.usefixtures("few_in_a_chunk")
@pytest.mark.parametrize("begin", ASYNC)
async def test_an_async_rollback_drops_the_tasks(
    app: Skiplane, dsn: str, begin: Callable[[str], Any]
) -> None:
    with pytest.raises(Abort):  # noqa: PT012
        async with begin(dsn) as connection:
            await app.submit("one", connection=connection)
            assert len(await app.submit_many("many", range(5), connection=connection)) == 5
            raise Abort
    assert await app.list() == []


@pytest.mark.parametrize("begin", ASYNC)
async def test_an_async_refusal_is_the_same_error(
    app: Skiplane, dsn: str, begin: Callable[[str], Any]
) -> None:
    with pytest.raises(InvalidInput) as refusal:
        async with begin(dsn) as connection:
            await app.submit("one", connection=connection, priority="urgent")  # type: ignore[arg-type]
    assert refusal.value.field == "priority"


async def test_an_async_call_takes_a_sync_connection(app: Skiplane, dsn: str) -> None:
    with psycopg.connect(dsn) as connection:
        handle = await app.submit("one", connection=connection)
        await app.submit_many("many", range(5), connection=connection)
    assert (await handle.get()).task_type == "one"


async def test_a_sync_call_refuses_an_async_connection(app: Skiplane, dsn: str) -> None:
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        with pytest.raises(InvalidInput, match="async"):
            app.submit_sync("one", connection=connection)


@pytest.mark.parametrize("connection", ["postgresql://", object()])
async def test_what_is_no_connection_is_refused(app: Skiplane, connection: Any) -> None:
    with pytest.raises(InvalidInput, match=r"no kind that is known.*SQLAlchemy"):
        await app.submit("one", connection=connection)
    with pytest.raises(InvalidInput, match="no kind that is known"):
        app.submit_many_sync("one", [1], connection=connection)


async def test_a_bulk_refusal_leaves_the_callers_transaction_usable(
    app: Skiplane, dsn: str
) -> None:
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        await app.submit("kept", connection=connection)
        with pytest.raises(InvalidInput):
            await app.submit_many("x", [1], connection=connection, queue="")
    assert [task.task_type for task in await app.list()] == ["kept"]


async def test_waiting_for_a_result_waits_for_the_commit(app: Skiplane, dsn: str) -> None:
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        handle = await app.submit("one", connection=connection)
        with pytest.raises(TimeoutError):
            await handle.result(timeout=0.05)
        await connection.commit()
    assert await handle.status() == "PENDING"


async def test_a_connection_is_left_as_it_was(app: Skiplane, dsn: str) -> None:
    async with await psycopg.AsyncConnection.connect(dsn, row_factory=dict_row) as connection:
        await app.submit_many("many", range(3), connection=connection)
        cursor = await connection.execute("select 1 as one, '{a}'::text[] as texts")
        assert await cursor.fetchone() == {"one": 1, "texts": ["a"]}
        assert connection.row_factory is dict_row


def test_the_event_loop_is_not_needed(dsn: str) -> None:
    with Skiplane(dsn) as app:
        handle = app.submit_sync("one")
        assert handle.status_sync() == "PENDING"
    with pytest.raises(RuntimeError):
        asyncio.get_running_loop()

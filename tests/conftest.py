"""Fixtures for every test: a server, and a fresh database with the schema."""

from collections.abc import AsyncIterator, Generator, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import pytest_asyncio

from skiplane.tests.support import Databases
from skiplane.tests.support.state import state

Connection = psycopg.Connection[tuple[Any, ...]]
_LOG_CHARACTERS = 4000


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show with a failure what its processes have logged last and what its database holds."""
    report = yield
    if not report.failed:
        return report
    given = getattr(item, "funcargs", {})
    if isinstance(folder := given.get("tmp_path"), Path):
        for log in sorted(folder.rglob("*.log")):
            text = log.read_text(errors="replace")[-_LOG_CHARACTERS:]
            report.sections.append((f"end of {log.name}", text))
    if call.when == "call" and isinstance(dsn := given.get("dsn"), str):
        report.sections.append(("the database", state(dsn)))
    return report


@pytest.fixture(scope="session")
def databases() -> Iterator[Databases]:
    """The server of this session; see Databases."""
    made = Databases()
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def dsn(databases: Databases) -> Iterator[str]:
    """DSN of a fresh database with the schema, as the schema's owner."""
    with databases.fresh(template=databases.migrated_template()) as name:
        yield databases.dsn(name)


@pytest.fixture
def empty_dsn(databases: Databases) -> Iterator[str]:
    """DSN of a fresh database with nothing in it, as its owner."""
    with databases.fresh() as name:
        yield databases.dsn(name)


@pytest.fixture
def conn(dsn: str) -> Iterator[Connection]:
    """A connection to the fresh database, in autocommit."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        yield connection


@pytest_asyncio.fixture
async def aconn(dsn: str) -> AsyncIterator[psycopg.AsyncConnection[tuple[Any, ...]]]:
    """The same for asyncio."""
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        yield connection


@pytest.fixture
def two(dsn: str) -> Iterator[tuple[Connection, Connection]]:
    """Two connections for a race, in autocommit: begin with ``with first.transaction()``.

    Each closes on its own at the end, so an open transaction is rolled back.
    """
    first = psycopg.connect(dsn, autocommit=True)
    second = psycopg.connect(dsn, autocommit=True)
    try:
        yield first, second
    finally:
        first.close()
        second.close()

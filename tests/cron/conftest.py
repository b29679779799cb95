"""Fixtures of the tests of schedules."""

from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest
import pytest_asyncio

from skiplane import Skiplane
from skiplane.tests.support.engine import Engine


@pytest.fixture
def engine(conn: psycopg.Connection[tuple[Any, ...]]) -> Engine:
    """The verbs on the fresh database."""
    return Engine(conn)


@pytest_asyncio.fixture
async def app(dsn: str) -> AsyncIterator[Skiplane]:
    """An app without tasks, closed at the end."""
    made = Skiplane(dsn)
    yield made
    await made.close()
    made.close_sync()

"""Three sessions on one fresh database: two that race, one that watches."""

from collections.abc import Iterator

import psycopg
import pytest

from skiplane.tests.support.engine import Connection, Engine


@pytest.fixture
def first(two: tuple[Connection, Connection]) -> Engine:
    """The session that comes first and keeps its transaction open."""
    return Engine(two[0])


@pytest.fixture
def second(two: tuple[Connection, Connection]) -> Engine:
    """The session that comes second."""
    return Engine(two[1])


@pytest.fixture
def watcher(dsn: str) -> Iterator[Engine]:
    """A third session, in autocommit."""
    with psycopg.connect(dsn, autocommit=True) as conn:
        yield Engine(conn)

"""Engines for tests of workflows: one whose transaction is rolled back, and three that race."""

from collections.abc import Iterator

import psycopg
import pytest

from skiplane.tests.support import Databases
from skiplane.tests.support.engine import Connection, Engine


@pytest.fixture(scope="session")
def kept(databases: Databases) -> Iterator[Connection]:
    """A connection to a database of the schema that keeps nothing of any test."""
    with (
        databases.fresh(template=databases.migrated_template()) as name,
        psycopg.connect(databases.dsn(name), autocommit=True) as connection,
    ):
        yield connection


@pytest.fixture
def engine(kept: Connection) -> Iterator[Engine]:
    """The verbs, in a transaction that is rolled back."""
    with kept.transaction(force_rollback=True):
        yield Engine(kept)


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

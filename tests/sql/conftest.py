"""One database for all tests of verbs: each test runs in a transaction that is rolled back."""

from collections.abc import Iterator

import psycopg
import pytest

from skiplane.tests.support import Databases
from skiplane.tests.support.engine import Connection, Engine


@pytest.fixture(scope="session")
def shared_conn(databases: Databases) -> Iterator[Connection]:
    """A connection to a database of the schema that keeps nothing of any test."""
    with (
        databases.fresh(template=databases.migrated_template()) as name,
        psycopg.connect(databases.dsn(name), autocommit=True) as connection,
    ):
        yield connection


@pytest.fixture
def engine(shared_conn: Connection) -> Iterator[Engine]:
    """The verbs, in a transaction that is rolled back; the clock is set within it only."""
    with shared_conn.transaction(force_rollback=True):
        yield Engine(shared_conn)


@pytest.fixture
def live(conn: Connection) -> Engine:
    """The verbs on a fresh database, each call a transaction of its own."""
    return Engine(conn)


@pytest.fixture
def admin_live(databases: Databases) -> Iterator[Engine]:
    """The verbs as a superuser, who may look at plans, on a fresh database."""
    with (
        databases.fresh(template=databases.migrated_template()) as name,
        databases.admin(name) as conn,
    ):
        yield Engine(conn)

"""Verbs on a fresh database whose clock stands still until a test moves it."""

import pytest

from skiplane.tests.support.engine import Connection, Engine


@pytest.fixture
def engine(conn: Connection) -> Engine:
    """The verbs, each call a transaction of its own."""
    conn.execute("select set_config('skiplane.now', skiplane.clock()::text, false)")
    return Engine(conn)

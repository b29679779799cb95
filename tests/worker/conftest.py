"""Fixtures of the worker's tests."""

from typing import Any

import psycopg
import pytest

from skiplane.tests.worker.helpers import Tasks


@pytest.fixture
def tasks(conn: psycopg.Connection[tuple[Any, ...]]) -> Tasks:
    """The tasks of the fresh database."""
    return Tasks(conn)

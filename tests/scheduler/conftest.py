"""Fixtures of the scheduler's tests."""

from typing import Any

import psycopg
import pytest

from skiplane.tests.support.engine import Engine
from skiplane.tests.worker.test_pooler import pooled

__all__ = ["pooled"]


@pytest.fixture
def engine(conn: psycopg.Connection[tuple[Any, ...]]) -> Engine:
    """The verbs on the fresh database."""
    return Engine(conn)

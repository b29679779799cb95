"""Fixtures of the built-in tasks' tests."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from skiplane.tests.builtin.receiver import Receiver
from skiplane.tests.worker.helpers import Tasks


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A server on 127.0.0.1."""
    with Receiver().serving() as made:
        yield made


@pytest.fixture
def tasks(conn: psycopg.Connection[tuple[Any, ...]]) -> Tasks:
    """The tasks of the fresh database."""
    return Tasks(conn)

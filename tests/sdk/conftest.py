"""An app on the fresh database of each test."""

from collections.abc import AsyncIterator

import pytest_asyncio

from skiplane import Skiplane


@pytest_asyncio.fixture
async def app(dsn: str) -> AsyncIterator[Skiplane]:
    """An app without tasks, closed at the end."""
    made = Skiplane(dsn)
    yield made
    await made.close()
    made.close_sync()

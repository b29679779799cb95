"""The database as the commands see it."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from ..config import Config
from ..schema.call import Call
from ..schema.pools import SyncPool
from .output import find_dsn, refusals

T = TypeVar("T")


class Database:
    """One connection, on which calls run one after the other."""

    def __init__(self, pool: SyncPool) -> None:
        self._pool = pool

    def run(self, call: Call[T]) -> T:
        """Run a call and give its records."""
        return self._pool.run(call)

    def document(self, call: Call[Any]) -> dict[str, Any]:
        """Run a call that gives one document, and give that as the engine wrote it."""
        return self.documents(call)[0]

    def documents(self, call: Call[Any]) -> list[dict[str, Any]]:
        """Run a call that gives documents, and give them as the engine wrote them."""
        return self._pool.run(call._replace(read=lambda rows: [json.loads(row[0]) for row in rows]))


@contextmanager
def database(config: Config) -> Iterator[Database]:
    """Give the database of the settings; what it refuses ends the command with a sentence."""
    with refusals():
        pool = SyncPool(find_dsn(config), size=1, role="cli")
        try:
            yield Database(pool)
        finally:
            pool.close()

"""What handlers share in one process, and what it takes to start and stop it."""

import asyncio
from typing import Any

from litestar import Request

from .access import Keys, Principal
from .budgets import Budgets
from .database import Database
from .events import Stream
from .metrics import Metrics
from .pressure import Pressure
from .settings import WebSettings
from .submissions import Submitter
from .tasks_reader import TaskReader
from .waiting import Waiting


class Services:
    """Everything behind the handlers.

    Order of a stop: streams and waits end, so that the server has no open request
    left; then the loops; then the connections.
    """

    def __init__(self, settings: WebSettings) -> None:
        self.settings = settings
        self.database = Database(settings.dsn, settings.connections, settings.prepare)
        self.keys = Keys(self.database)
        self.metrics = Metrics()
        self.budgets = Budgets(self.database)
        self.pressure = Pressure(self.database)
        self.submitter = Submitter(self.database)
        self.tasks = TaskReader(self.database)
        self.waiting = Waiting(self.database)
        self.stream = Stream(self.database)
        self._loops: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Start the loops; the database may be away."""
        for loop in (
            self.pressure.keep_looking,
            self.waiting.keep_looking,
            self.stream.keep_reading,
        ):
            self._loops.append(asyncio.create_task(loop()))

    def end_waits(self) -> None:
        """End streams and waits; nobody can begin one afterwards."""
        self.stream.close()
        self.waiting.close()

    async def stop(self) -> None:
        """Stop everything."""
        self.end_waits()
        for task in self._loops:
            task.cancel()
        await asyncio.gather(*self._loops, return_exceptions=True)
        self.database.close()


def services(request: "Request[Any, Any, Any]") -> Services:
    """Give the services of the process."""
    found: Services = request.app.state.services
    return found


def principal(request: "Request[Any, Any, Any]") -> Principal:
    """Give who makes the request."""
    found: Principal = request.scope["state"]["principal"]
    return found

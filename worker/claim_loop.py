"""The connections that take a claimer's turns."""

import asyncio

import psycopg

from ..schema import worker_calls as calls
from ..schema.connect import connect_async
from .claimer import Claimer
from .loops import Loops
from .outage import Outage, pause_seconds
from .settings import WorkerSettings

# No call takes so long unless it is stuck, behind a lock say; it is then made anew.
_CALL_SECONDS = 60.0


def serve(claimer: Claimer, loops: Loops, outage: Outage, settings: WorkerSettings) -> None:
    """Start as many connections as the settings say."""
    for number in range(settings.connections):
        loop = _ClaimLoop(claimer, number, outage, settings)
        loops.start(loop.name, loop.run)


class _ClaimLoop:
    """One connection and its loop."""

    def __init__(
        self, claimer: Claimer, number: int, outage: Outage, settings: WorkerSettings
    ) -> None:
        self.name = f"claim {number}"
        self._claimer = claimer
        self._number = number
        self._outage = outage
        self._settings = settings
        self._conn: psycopg.AsyncConnection | None = None
        self._failures = 0

    async def run(self) -> None:
        """Take turns until cancelled."""
        try:
            while True:
                await self._once()
        finally:
            self._close()

    async def _once(self) -> None:
        claimer = self._claimer
        try:
            conn = self._conn or await self._connect()
            turn = claimer.next_turn()
            if turn is None:
                await claimer.rest()
                return
            async with asyncio.timeout(_CALL_SECONDS):
                await claimer.take_turn(conn, self._number, turn)
        except Exception as error:
            await self._failed(error)
        else:
            self._failures = 0
            self._outage.worked(self.name)

    async def _connect(self) -> psycopg.AsyncConnection:
        conn, _ = await connect_async(self._settings.dsn, "worker", prepare=self._settings.prepare)
        calls.prepare_claiming(conn)
        self._conn = conn
        return conn

    async def _failed(self, error: Exception) -> None:
        self._outage.failed(self.name, error)
        if self._conn is None or self._conn.closed or not isinstance(error, psycopg.Error):
            self._close()
        pause = pause_seconds(self._failures)
        self._failures += 1
        await asyncio.sleep(pause)

    def _close(self) -> None:
        # finish() and not close(): a server that is away does not answer.
        if self._conn is not None:
            self._conn.pgconn.finish()
            self._conn = None

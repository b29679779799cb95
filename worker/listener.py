"""Hearing of work: a connection of its own that LISTENs and reconnects by itself.

After every (re)connection it listens first and then has the worker claim once:
what was submitted in between is found that way.
"""

import asyncio
from collections.abc import Awaitable, Callable

import psycopg
import structlog

from ..schema import worker_calls as calls
from ..schema.connect import connect_async
from .outage import Outage, pause_seconds

log = structlog.get_logger(__name__)

PING_SECONDS = 15.0


class Listener:
    """The listening connection.

    Attributes:
        on_work: Called when there may be work.
        on_lost: Called when a task of this worker may have been cancelled or taken.
        armed: Whether notifications come for every submission.
    """

    def __init__(self, dsn: str, worker_id: str, queues: list[str], outage: Outage) -> None:
        """Prepare a listener.

        Args:
            dsn: A direct address of the server, past any pooler.
            worker_id: Whose own channel to hear.
            queues: Whose channels to hear.
            outage: Where trouble is told.
        """
        self.on_work: Callable[[], None] = lambda: None
        self.on_lost: Callable[[], None] = lambda: None
        self.armed = False
        self._dsn = dsn
        self._worker_id = worker_id
        self._queues = queues
        self._outage = outage
        self._own = ""
        self._conn: psycopg.AsyncConnection | None = None
        self._turn = asyncio.Lock()
        self._broken = asyncio.Event()
        self._locked = False
        self._watched: int | None = None
        self._failures = 0
        self._told_pooled = False
        self._loop = asyncio.get_running_loop()
        self._disarming: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Keep the connection up until cancelled."""
        try:
            while True:
                try:
                    await self._listen()
                    await self._stay()
                except Exception as error:
                    self._outage.failed("listener", error)
                self._hang_up()
                pause = pause_seconds(self._failures)
                self._failures += 1
                await asyncio.sleep(pause)
        finally:
            self._hang_up()

    async def _listen(self) -> None:
        conn, pooled = await connect_async(self._dsn, "worker listener", prepare=False)
        if pooled:
            conn.pgconn.finish()
            await self._without()
        try:
            self._own = await calls.listen(conn, self._worker_id, self._queues)
        except BaseException:
            conn.pgconn.finish()
            raise
        conn.add_notify_handler(self._heard)
        self._broken.clear()
        self._conn = conn
        self._watch(conn)
        self._failures = 0
        self._outage.worked("listener")
        self.on_work()

    async def _without(self) -> None:
        """Stay deaf: behind a pooler LISTEN would hear nothing, and locks would leak."""
        if not self._told_pooled:
            self._told_pooled = True
            log.warning(
                "no notifications: a pooler stands before the database, so the worker polls."
                " Set SKIPLANE_LISTEN_DSN to a direct address for quick pick-up."
            )
        await asyncio.Event().wait()

    async def _stay(self) -> None:
        while True:
            try:
                async with asyncio.timeout(PING_SECONDS):
                    await self._broken.wait()
                raise psycopg.OperationalError("the listening connection was closed")
            except TimeoutError:
                # A peer that vanished without a word is found this way.
                async with self._turn, asyncio.timeout(PING_SECONDS):
                    await self._talk(calls.ping)

    def _watch(self, conn: psycopg.AsyncConnection | None) -> None:
        """Look for notifications on a connection, or on none."""
        # By number: a connection that broke does not tell its own any more.
        if self._watched is not None:
            self._loop.remove_reader(self._watched)
            self._watched = None
        if conn is not None:
            self._watched = conn.fileno()
            self._loop.add_reader(self._watched, self._readable)

    def _readable(self) -> None:
        conn = self._conn
        if conn is None:
            return
        try:
            conn.pgconn.consume_input()
            while notify := conn.pgconn.notifies():
                self._route(notify.relname.decode(), notify.extra.decode())
        except psycopg.Error:
            self._watch(None)
            self._broken.set()

    def _heard(self, notify: psycopg.Notify) -> None:
        # Those that come while a statement runs.
        self._route(notify.channel, notify.payload)

    def _route(self, channel: str, payload: str) -> None:
        if channel == self._own:
            self.on_lost()
        else:
            self.on_work()

    async def arm(self) -> bool:
        """Ask for a notification of every submission.

        Returns:
            Whether they come; False while there is no connection.
        """
        await self._lock(True)
        return self.armed

    def disarm(self) -> None:
        """Take that wish back, some time soon."""
        # At once for whoever looks: a claim that finds nothing from now on must
        # ask again before it sleeps.
        self.armed = False
        self._disarming = self._loop.create_task(self._lock(False))

    async def _lock(self, wanted: bool) -> None:
        try:
            async with self._turn:
                if wanted and self._conn is not None:
                    if not self._locked:
                        await self._talk(lambda conn: calls.wait_for_work(conn, self._queues))
                    self._locked = self.armed = True
                elif self._locked and not self.armed and self._conn is not None:
                    await self._talk(lambda conn: calls.stop_waiting(conn, self._queues))
                    self._locked = False
        except Exception as error:
            self._outage.failed("listener", error)
            self._broken.set()

    async def _talk(self, call: Callable[[psycopg.AsyncConnection], Awaitable[None]]) -> None:
        """Make a call; the driver watches the connection meanwhile."""
        conn = self._conn
        if conn is None:
            raise psycopg.OperationalError("the listener has no connection")
        self._watch(None)
        await call(conn)
        self._watch(conn)
        self._readable()

    def _hang_up(self) -> None:
        self._watch(None)
        self.armed = self._locked = False
        if self._conn is not None:
            self._conn.pgconn.finish()
            self._conn = None

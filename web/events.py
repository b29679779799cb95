"""The stream of state changes: one reader of the database for all connections of a process.

A place in the stream is what the engine calls one: a snapshot. The id of an event is
the place after its batch, so a client that comes back with Last-Event-ID gets
everything that it may have missed, also what was committed late; of the last batch
something may come twice.
"""

import asyncio
import base64
import zlib
from collections import OrderedDict
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import msgspec
import structlog

from ..schema.errors import SkiplaneError
from ..schema.web_calls import read_events
from .database import BATCH_SECONDS, Database
from .problems import invalid

log = structlog.get_logger(__name__)

LOOK_SECONDS = 0.5
BEAT_SECONDS = 15.0
MOST_BATCHES = 100  # a client that is further behind is let go, and comes back by itself
REMEMBERED = 100_000
PATCH_SECONDS = 1000


class Change(msgspec.Struct, frozen=True):
    """One change of a task's state."""

    task_id: UUID
    status: str
    at: str
    task_type: str
    queue: str
    tenant_id: str
    workflow_id: UUID | None = None


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What a connection asked for; None: all."""

    tenant: str | None = None
    queue: str | None = None
    task_type: str | None = None
    statuses: frozenset[str] | None = None
    task_id: UUID | None = None
    workflow_id: UUID | None = None

    def takes(self, change: Change) -> bool:
        """Whether a change is asked for."""
        return (
            (self.tenant is None or change.tenant_id == self.tenant)
            and (self.queue is None or change.queue == self.queue)
            and (self.task_type is None or change.task_type == self.task_type)
            and (self.statuses is None or change.status in self.statuses)
            and (self.task_id is None or change.task_id == self.task_id)
            and (self.workflow_id is None or change.workflow_id == self.workflow_id)
        )


class Batch(msgspec.Struct, frozen=True):
    """What one look found, and the place after it."""

    changes: list[Change]
    place: Any


_changes = msgspec.json.Decoder(list[Change])
_encode = msgspec.json.Encoder().encode


class Stream:
    """Reads changes while somebody listens, and hands them out."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._listeners: set[asyncio.Queue[Batch | None]] = set()
        self._somebody = asyncio.Event()
        self._place: Any = None
        self._told: OrderedDict[tuple[UUID, str, str], None] = OrderedDict()
        self._closed = False

    async def open(self, wanted: Wanted, last_event_id: str | None) -> AsyncIterator[bytes]:
        """Give the stream of one connection, as server-sent events.

        Raises:
            Problem: last_event_id is none of ours.
            Unavailable: The database is away.
        """
        place = None if last_event_id is None else read_place(last_event_id)
        queue: asyncio.Queue[Batch | None] = asyncio.Queue(MOST_BATCHES)
        self._listeners.add(queue)
        try:
            # Where the shared reader stands is where the rest comes from by itself.
            first = Batch([], place if place is not None else await self._start())
            if place is not None:
                first = await self._read(place)
                if self._place is None:
                    self._place = first.place
        except BaseException:
            self._leave(queue)
            raise
        self._somebody.set()
        return self._told_to(queue, wanted, first)

    async def _told_to(
        self, queue: "asyncio.Queue[Batch | None]", wanted: Wanted, first: Batch
    ) -> AsyncIterator[bytes]:
        try:
            yield b"retry: %d\n\n" % PATCH_SECONDS + _events(first, wanted)
            while not self._closed:
                try:
                    async with asyncio.timeout(BEAT_SECONDS):
                        batch = await queue.get()
                except TimeoutError:
                    yield b": still here\n\n"
                    continue
                if batch is None:
                    return
                if told := _events(batch, wanted):
                    yield told
        finally:
            self._leave(queue)

    def _leave(self, queue: "asyncio.Queue[Batch | None]") -> None:
        self._listeners.discard(queue)
        if not self._listeners:
            self._somebody.clear()
            self._place = None

    async def _start(self) -> Any:
        if self._place is None:
            found = await self._database.run(read_events(None))
            if self._place is None:
                self._place = found.place
        return self._place

    async def _read(self, place: Any) -> Batch:
        found = await self._database.run(read_events(place), BATCH_SECONDS)
        return Batch(_changes.decode(found.changes), found.place)

    async def keep_reading(self) -> None:
        """Read until cancelled."""
        while True:
            await self._somebody.wait()
            try:
                batch = await self._read(await self._start())
            except SkiplaneError as error:
                log.warning("cannot read events", error=error.message)
            else:
                self._place = batch.place
                self._hand_out(Batch(self._new(batch.changes), batch.place))
            await asyncio.sleep(LOOK_SECONDS)

    def _new(self, changes: list[Change]) -> list[Change]:
        fresh = []
        for change in changes:
            name = (change.task_id, change.status, change.at)
            if name not in self._told:
                self._told[name] = None
                fresh.append(change)
        while len(self._told) > REMEMBERED:
            self._told.popitem(last=False)
        return fresh

    def _hand_out(self, batch: Batch) -> None:
        for queue in list(self._listeners):
            try:
                queue.put_nowait(batch)
            except asyncio.QueueFull:
                self._listeners.discard(queue)
                queue.get_nowait()
                queue.put_nowait(None)

    def close(self) -> None:
        """End every stream: an open one would keep the server from stopping."""
        self._closed = True
        for queue in list(self._listeners):
            if queue.full():
                queue.get_nowait()
            queue.put_nowait(None)


def _events(batch: Batch, wanted: Wanted) -> bytes:
    parts = [
        b"event: task\ndata: %b\n\n" % _encode(change)
        for change in batch.changes
        if wanted.takes(change)
    ]
    if batch.place.get("gap"):
        parts.append(b'event: gap\ndata: {"detail": "There were more; read the tasks."}\n\n')
    # With nothing to tell, too, so that a client which comes back later skips what it has seen.
    parts.append(b"id: %b\nevent: place\ndata: {}\n\n" % write_place(batch.place))
    return b"".join(parts)


def write_place(place: Any) -> bytes:
    """Give a place as an event's id."""
    kept = {name: value for name, value in place.items() if name != "gap"}
    return base64.urlsafe_b64encode(zlib.compress(_encode(kept)))


def read_place(text: str) -> Any:
    """Read an event's id.

    Raises:
        Problem: It is none of ours.
    """
    try:
        inflater = zlib.decompressobj()
        raw = inflater.decompress(base64.urlsafe_b64decode(text.encode("ascii")), 65536)
        place = msgspec.json.decode(raw, type=_Place)
    except (ValueError, zlib.error, msgspec.MsgspecError):
        raise invalid(
            "Last-Event-ID is none of ours.",
            "Last-Event-ID",
            text[:200],
            "Give the id of the last event unchanged, or none to begin with what comes.",
        ) from None
    return msgspec.to_builtins(place)


class _Place(msgspec.Struct):
    snapshot: str
    at: str
    writers: dict[str, str]

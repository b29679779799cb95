"""A worker's end of one pool process."""

import asyncio
import contextlib
import os
import socket
from collections import deque
from collections.abc import Callable

from .leases import Item
from .wire import (
    Frames,
    Order,
    Reply,
    decode_reply,
    frame,
    number_bytes,
    numbers,
    socket_pair,
)

_READ_BYTES = 1 << 18


class Link:
    """The connections to one pool process, and what it has been given.

    Attributes:
        number: The process's number.
        ready: Whether it has said that it can work.
        killed: Whether it has been told to be killed.
        assigned: Tasks that it has, the one that runs first.
        head_since: When the first of them became the first (monotonic).
        their_ends: Descriptors for the process.
    """

    def __init__(self, number: int, on_reply: Callable[["Link", Reply], None]) -> None:
        self.number = number
        self.ready = False
        self.killed = False
        self.assigned: deque[Item] = deque()
        self.head_since = 0.0
        self._numbers: dict[int, Item] = {}
        self._last = 0
        self._on_reply = on_reply
        self._frames = Frames()
        self._unsent = bytearray()
        self._loop = asyncio.get_running_loop()
        self._stream, self._their_stream = socket_pair()
        # Their end of the tokens stays open here, to take tokens back.
        self._tokens, self._their_tokens = socket_pair()
        self._their_cancels, self._cancels = os.pipe()
        self._stream.setblocking(False)
        self._tokens.setblocking(False)
        os.set_blocking(self._cancels, False)
        self.their_ends = [
            self._their_stream.fileno(),
            self._their_tokens.fileno(),
            self._their_cancels,
        ]

    def started(self) -> None:
        """Note that the descriptors are on their way to the process."""
        self._their_stream.close()
        os.close(self._their_cancels)
        self._loop.add_reader(self._stream.fileno(), self.read)

    def assign(self, item: Item) -> None:
        """Give the process a task."""
        self._last += 1
        number = self._last
        self.assigned.append(item)
        self._numbers[number] = item
        order = Order.of(number, item.lease.lease_id, item.lease.shard, item.task)
        self._write(frame(order))
        self._tokens.send(number_bytes(number))

    def take_back(self) -> list[Item]:
        """Take back the tasks that have not begun, oldest first."""
        try:
            data = self._their_tokens.recv(_READ_BYTES, socket.MSG_DONTWAIT)
        except (BlockingIOError, OSError):
            return []
        items = [self._numbers.pop(number) for number in numbers(data)]
        for item in items:
            self.assigned.remove(item)
        return items

    def ask(self, item: Item) -> None:
        """Tell the process that a task of it should stop."""
        for number, other in self._numbers.items():
            if other is item:
                with contextlib.suppress(OSError):
                    os.write(self._cancels, number_bytes(number))

    def read(self) -> None:
        """Take what the process has said."""
        while True:
            try:
                data = self._stream.recv(_READ_BYTES)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                data = b""
            if not data:
                self._stop_watching()
                return
            for message in self._frames.feed(data):
                reply = decode_reply(message)
                self._numbers.pop(reply.number, None)
                self._on_reply(self, reply)
            if len(data) < _READ_BYTES:
                return

    def _write(self, data: bytes) -> None:
        if self._unsent:
            self._unsent += data
            return
        try:
            sent = self._stream.send(data)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError:
            return  # it has ended; its host says so
        if sent < len(data):
            self._unsent += data[sent:]
            self._loop.add_writer(self._stream.fileno(), self._writable)

    def _writable(self) -> None:
        try:
            sent = self._stream.send(self._unsent)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            sent = len(self._unsent)
        del self._unsent[:sent]
        if not self._unsent:
            self._loop.remove_writer(self._stream.fileno())

    def _stop_watching(self) -> None:
        if self._stream.fileno() >= 0:
            self._loop.remove_reader(self._stream.fileno())
            self._loop.remove_writer(self._stream.fileno())

    def close(self) -> None:
        """Close this end; a process that still runs ends by itself."""
        self._stop_watching()
        for end in (self._stream, self._tokens, self._their_tokens):
            end.close()
        with contextlib.suppress(OSError):
            os.close(self._cancels)

"""What goes between a worker and its pool processes: length-prefixed msgpack.

Each pool process has a stream (orders one way, replies the other), tokens and
cancels. An order may be begun only by whoever reads its token, 4 bytes from a
socket that both the process and the worker can read: so the worker takes back
orders that have not begun by reading their tokens itself, and no order is ever
begun after that.
"""

import socket
from collections.abc import Iterator
from typing import Any

import msgspec

from .document import ClaimedTask
from .outcome import Failure

NUMBER_BYTES = 4


class Order(msgspec.Struct, array_like=True, gc=False):
    """A task to run. JSON values travel as the bytes that they came as."""

    number: int
    lease_id: int
    shard: int
    task_id: str
    task_type: str
    attempt: int
    fence: int
    queue: str
    payload: bytes
    timeout_seconds: float | None
    tenant_id: str
    metadata: bytes | None
    checkpoint: bytes | None
    workflow_id: str | None

    @classmethod
    def of(cls, number: int, lease_id: int, shard: int, task: ClaimedTask) -> "Order":
        """Make the order for a claimed task."""
        return cls(
            number,
            lease_id,
            shard,
            task.task_id,
            task.task_type,
            task.attempt,
            task.fence,
            task.queue,
            bytes(task.payload),
            task.timeout_seconds,
            task.tenant_id,
            None if task.metadata is None else bytes(task.metadata),
            None if task.checkpoint is None else bytes(task.checkpoint),
            task.workflow_id,
        )

    def task(self) -> ClaimedTask:
        """Give the claimed task back."""
        return ClaimedTask(
            self.task_id,
            self.task_type,
            self.attempt,
            self.fence,
            self.queue,
            msgspec.Raw(self.payload),
            self.timeout_seconds,
            self.tenant_id,
            None if self.metadata is None else msgspec.Raw(self.metadata),
            None if self.checkpoint is None else msgspec.Raw(self.checkpoint),
            self.workflow_id,
        )


class Reply(msgspec.Struct, array_like=True, gc=False):
    """How an order ended: a result, a failure, or neither when it recorded its own success.

    Number 0 says that the process is ready.
    """

    number: int
    result: str | None = None
    failure: Failure | None = None
    took: float = 0.0


_encode = msgspec.msgpack.Encoder().encode
decode_order = msgspec.msgpack.Decoder(Order).decode
decode_reply = msgspec.msgpack.Decoder(Reply).decode


def frame(message: Order | Reply) -> bytes:
    """Give a message with its length in front."""
    data = _encode(message)
    return len(data).to_bytes(NUMBER_BYTES, "little") + data


class Frames:
    """Cuts a stream of bytes into messages."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Add bytes; yield the messages that are complete now."""
        buffer = self._buffer
        buffer += data
        at = 0
        while len(buffer) - at >= NUMBER_BYTES:
            end = at + NUMBER_BYTES + int.from_bytes(buffer[at : at + NUMBER_BYTES], "little")
            if len(buffer) < end:
                break
            yield bytes(buffer[at + NUMBER_BYTES : end])
            at = end
        del buffer[:at]


def number_bytes(number: int) -> bytes:
    """Give an order's number as a token."""
    return number.to_bytes(NUMBER_BYTES, "little")


def numbers(data: bytes) -> list[int]:
    """Read tokens."""
    return [
        int.from_bytes(data[at : at + NUMBER_BYTES], "little")
        for at in range(0, len(data), NUMBER_BYTES)
    ]


def socket_pair(*, packets: bool = False) -> tuple[socket.socket, socket.socket]:
    """Make two connected local sockets; ``packets`` keeps messages apart."""
    kind: Any = socket.SOCK_STREAM
    if packets:  # macOS has no SEQPACKET for local sockets
        kind = getattr(socket, "SOCK_SEQPACKET", None) or socket.SOCK_DGRAM
        if not hasattr(socket, "SO_PEERCRED"):
            kind = socket.SOCK_DGRAM
    return socket.socketpair(socket.AF_UNIX, kind)

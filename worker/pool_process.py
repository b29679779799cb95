"""A pool process: runs tasks one after the other, in a session of its own.

It is forked from the pool's host, which has no threads, no connections and no
user code; the app is imported here, after the fork.
"""

import asyncio
import inspect
import os
import socket
import sys
import traceback
from collections import deque
from time import monotonic
from typing import Any

from ..schema.pools import SyncPool
from .builtin import register
from .context import SyncContext
from .coroutines import Coroutines
from .document import ClaimedTask
from .loading import load_registry
from .outcome import Failure, encode_result, failure_from
from .registry import Registry, TaskDefinition
from .settings import WorkerSettings
from .task_ids import log_with_ids
from .wire import NUMBER_BYTES, Frames, Order, Reply, decode_order, frame, numbers

START_FAILED = 70  # EX_SOFTWARE of sysexits.h
# At most: one for the task's transaction, one for what it says meanwhile.
_CONNECTIONS = 2


class RemoteAttempt:
    """The attempt that runs here; its worker is told to stop it through a pipe."""

    def __init__(self, order: Order, cancels: int) -> None:
        self.task: ClaimedTask = order.task()
        self.recorded = False
        self.lease_id = order.lease_id
        self.shard = order.shard
        self.started = monotonic()
        limit = order.timeout_seconds
        self.deadline = None if limit is None else self.started + limit
        self._number = order.number
        self._cancels = cancels
        self._stopped = False

    @property
    def stop(self) -> str | None:
        """Why it should stop; None while it may go on."""
        while not self._stopped:
            try:
                data = os.read(self._cancels, 1024)
            except BlockingIOError:
                return None
            self._stopped = not data or self._number in numbers(data)
        return "cancelled"


class PoolProcess:
    """Takes orders until its worker is gone."""

    def __init__(
        self,
        settings: WorkerSettings,
        worker_id: str,
        stream: socket.socket,
        tokens: socket.socket,
        cancels: int,
    ) -> None:
        self._attempt: RemoteAttempt | None = None
        log_with_ids(settings, worker_id, lambda: self._attempt)
        self._registry: Registry = load_registry(settings.app)
        register(self._registry, settings)
        self._worker_id = worker_id
        self._pool = SyncPool(settings.dsn, _CONNECTIONS, role="task", prepare=settings.prepare)
        self._stream = stream
        self._tokens = tokens
        self._cancels = cancels
        self._coroutines = Coroutines(settings, worker_id, cancels)
        self._frames = Frames()
        self._orders: deque[Order] = deque()

    def serve(self) -> None:
        """Run orders until the other end is closed."""
        self._stream.sendall(frame(Reply(0)))
        while token := self._tokens.recv(NUMBER_BYTES):
            order = self._order(int.from_bytes(token, "little"))
            if order is None:
                return
            self._stream.sendall(frame(self._run(order)))

    def _order(self, number: int) -> Order | None:
        while True:
            while self._orders:
                order = self._orders.popleft()
                if order.number == number:
                    return order
                # Orders before it were taken back.
            data = self._stream.recv(1 << 18)
            if not data:
                return None
            self._orders.extend(map(decode_order, self._frames.feed(data)))

    def _run(self, order: Order) -> Reply:
        attempt = self._attempt = RemoteAttempt(order, self._cancels)
        result: str | None = None
        failure: Failure | None = None
        definition = self._registry.get(order.task_type)
        try:
            if definition is None:
                raise LookupError(f"the app has no task type {order.task_type!r}")
            arguments, keywords = self._registry.arguments(definition).bind_json(order.payload)
            if definition.mode == "async":
                value = self._coroutines.run(attempt, definition, arguments, keywords)
            else:
                value = self._call(attempt, definition, arguments, keywords)
            result = encode_result(value)
        except BaseException as error:  # the task's exit is its failure, not the process's end
            result, failure = None, failure_from(error, definition)
        self._attempt = None
        if attempt.recorded:
            result = failure = None
        return Reply(order.number, result, failure, monotonic() - attempt.started)

    def _call(
        self,
        attempt: RemoteAttempt,
        definition: TaskDefinition,
        arguments: tuple[Any, ...],
        keywords: dict[str, Any],
    ) -> Any:
        if definition.takes_context:
            arguments = (SyncContext(attempt, self._worker_id, self._pool), *arguments)
        value = definition.function(*arguments, **keywords)
        return asyncio.run(value) if inspect.iscoroutine(value) else value


def run(
    settings: WorkerSettings,
    worker_id: str,
    stream: socket.socket,
    tokens: socket.socket,
    cancels: int,
) -> None:
    """Be a pool process; never returns."""
    try:
        process = PoolProcess(settings, worker_id, stream, tokens, cancels)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(START_FAILED)
    try:
        process.serve()
    except OSError:
        os._exit(1)  # the worker is gone
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(0)

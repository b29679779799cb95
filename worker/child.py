"""A worker's process: started by a supervisor, it lives no longer than that.

It is stopped through the command pipe, so that task code which takes over the
signals cannot prevent it; the end of that pipe means that the supervisor is
gone.
"""

import atexit
import contextlib
import gc
import os
import signal
import sys
import threading
from typing import Any

import msgspec
import structlog

from ..metrics import PortTaken, serve_metrics
from ..schema.errors import NotAllowed, NotInstalled, from_driver
from ..schema.migrate import MigrationError
from .begun import Begun
from .builtin import NotifyUnusable, register
from .children import running, watch_popen
from .eventloop import new_loop
from .loading import AppNotFound, load_registry
from .metrics import WorkerMetrics
from .orders import ENDED, READY, STOP, ExitCode, Orders
from .processes import die_with_parent
from .registry import Registry
from .settings import WorkerSettings
from .task_ids import log_with_ids
from .tracing import TracesUnusable, WorkerTracing, set_up_traces
from .worker import Worker

log = structlog.get_logger(__name__)


class Unusable(Exception):
    """The worker cannot start before somebody corrects something; the message says what."""


def main(arguments: list[str]) -> ExitCode:
    """Be a worker process.

    Args:
        arguments: The supervisor's process id, and the descriptors of the command
            and guard pipes and of the memory for Begun.
    """
    parent, command, guard, memory = map(int, arguments)
    die_with_parent(parent)
    for descriptor in (command, guard):
        os.set_inheritable(descriptor, False)
    begun = Begun(memory)
    os.close(memory)
    pipe = open(command, "rb", buffering=0)  # noqa: SIM115  it stays open
    line = pipe.readline()
    if not line:
        return ExitCode.DONE
    orders = msgspec.json.decode(line, type=Orders)
    settings = orders.settings
    # What the tasks themselves submit goes to the same database.
    os.environ["SKIPLANE_DSN"] = settings.dsn
    log_with_ids(settings, orders.worker_id, running.get)
    watch_popen()
    try:
        registry = load(settings)
        return _serve(settings, registry, orders.worker_id, pipe, guard, begun)
    except Unusable as error:
        log.error("the worker cannot start", cause=str(error))
        return ExitCode.UNUSABLE


def load(settings: WorkerSettings) -> Registry:
    """Import the app and check the settings against it.

    Raises:
        Unusable: There is no such app, or it does not have the types.
    """
    try:
        registry = load_registry(settings.app)
    except AppNotFound as error:
        raise Unusable(str(error)) from error
    except Exception as error:
        log.exception("the app cannot be imported")
        raise Unusable(f"importing {settings.app!r} raised {type(error).__name__}") from error
    if settings.app and not registry.names():
        raise Unusable(f"the app {settings.app!r} defines no tasks")
    try:
        register(registry, settings)
    except NotifyUnusable as error:
        raise Unusable(str(error)) from error
    unknown = [name for name in settings.types if registry.get(name) is None]
    if unknown:
        raise Unusable(f"the app has no task types {', '.join(unknown)} (--types)")
    if not registry.names():
        raise Unusable("there are no tasks: give --app, or leave out --no-builtin-tasks")
    return registry


def _serve(
    settings: WorkerSettings,
    registry: Registry,
    worker_id: str,
    pipe: Any,
    guard: int,
    begun: Begun,
) -> ExitCode:
    # What is here now stays: the collector need not look at it again and again.
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
    loop = new_loop()
    made: list[Worker] = []
    metrics = _metrics(settings)
    tracing = _tracing(settings)

    async def run() -> ExitCode:
        worker = Worker(
            settings,
            registry,
            worker_id,
            guard,
            own_process=True,
            begun=begun,
            metrics=metrics,
            tracing=tracing,
        )
        made.append(worker)
        threading.Thread(
            target=_watch, args=(pipe, loop, worker), name="supervisor", daemon=True
        ).start()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, worker.stop)
        return await worker.run(lambda: _write(guard, READY))

    task = loop.create_task(run())
    task.add_done_callback(lambda _: loop.stop())
    while not task.done():
        try:
            loop.run_forever()
        except BaseException as error:
            # SystemExit or KeyboardInterrupt of something that a task started
            # goes through the loop; it is no wish of the worker's.
            log.error("task code raised through the event loop", error=repr(error))
    try:
        code = task.result()
        _write(guard, ENDED)
        return code
    except MigrationError as error:
        raise Unusable(str(error)) from error
    except Exception as error:
        known = from_driver(error)
        if isinstance(known, NotInstalled | NotAllowed):
            raise Unusable(str(known)) from error
        log.exception("the worker failed")
        return ExitCode.RESTART


def _metrics(settings: WorkerSettings) -> WorkerMetrics | None:
    if not settings.metrics_port:
        return None
    metrics = WorkerMetrics()
    try:
        serve_metrics(settings.metrics_port, metrics)
    except PortTaken as error:
        raise Unusable(str(error)) from error
    return metrics


def _tracing(settings: WorkerSettings) -> WorkerTracing | None:
    try:
        return set_up_traces(settings.name) if settings.traces else None
    except TracesUnusable as error:
        raise Unusable(str(error)) from error


def _watch(pipe: Any, loop: Any, worker: Worker) -> None:
    while data := pipe.read(1):
        if data == STOP:
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(worker.stop)
    # The supervisor is gone, and who would now see that we hang?
    os.killpg(0, signal.SIGKILL)


def _write(descriptor: int, data: bytes) -> None:
    with contextlib.suppress(OSError):
        os.write(descriptor, data)


if __name__ == "__main__":
    code = main(sys.argv[1:])
    # Threads that are stuck in task code must not keep the process.
    with contextlib.suppress(Exception):
        atexit._run_exitfuncs()
    with contextlib.suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)

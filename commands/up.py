"""skiplane up"""

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import rich_click as click

from ..config import Config, load_config
from ..schema.embedded import EmbeddedError, EmbeddedServer
from ..schema.migrate import MigrationError, migrate
from ..schema.pools import SyncPool
from ..schema.watch_calls import count_workers
from .children import Child
from .database import Database
from .endpoint import Taken, hold, write_endpoint
from .output import fail, json_option, print_json, refusals
from .stage import Stage
from .up_web import Web

DEMO_APP = "skiplane.commands.demo:app"
SECONDS_BETWEEN_TASKS = 0.7
READY_SECONDS = 60.0
GRACE_SECONDS = 3.0


@click.command()
@click.option("--dsn", help="Use this PostgreSQL instead of the embedded one (SKIPLANE_DSN).")
@click.option(
    "--data",
    "data_dir",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder of the embedded PostgreSQL and of the logs (SKIPLANE_DATA).",
)
@click.option("--app", "app_name", help="Run the tasks of this app, like myapp.tasks:app.")
@click.option("--no-demo", is_flag=True, help="Submit nothing by itself.")
@click.option("--queues", default="default", show_default=True, help="Queues, by commas.")
@click.option("--processes", type=click.IntRange(1, 64), default=1, show_default=True)
@click.option("--concurrency", type=click.IntRange(1, 10_000), default=10, show_default=True)
@json_option
def up(
    dsn: str | None,
    data_dir: Path | None,
    app_name: str | None,
    no_demo: bool,
    queues: str,
    processes: int,
    concurrency: int,
    as_json: bool,
) -> None:
    """Run everything here, on an embedded PostgreSQL.

    A database, a scheduler, a worker, the REST API and the dashboard, until Ctrl-C;
    nothing is left running then, and the data stays for the next time. Other commands
    on this machine find the database by themselves. Without --app the worker runs a
    small demo, which is submitted to it all the time unless --no-demo is given.

    With --json it prints one line when it is ready, with dsn, web, key and pid.
    """
    config = load_config({"dsn": dsn, "data_dir": data_dir})
    stop = _stop_event()
    worker = ["--queues", queues, "--processes", str(processes), "--concurrency", str(concurrency)]
    with _held(config.data_dir), refusals():
        try:
            _run(config, stop, app_name, no_demo, as_json, worker, processes)
        except (EmbeddedError, MigrationError) as error:
            fail(str(error))


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    with ExitStack() as stack:
        try:
            stack.enter_context(hold(folder))
        except Taken as taken:
            who = f"process {taken.pid}" if taken.pid else "another process"
            fail(
                f"`skiplane up` already runs on {folder} ({who}). "
                "Stop that one, or name another folder with --data."
            )
        except OSError as error:
            fail(f"The folder {folder} cannot be used: {error.strerror}. Name one with --data.")
        yield


def _run(
    config: Config,
    stop: threading.Event,
    app_name: str | None,
    no_demo: bool,
    as_json: bool,
    worker: list[str],
    processes: int,
) -> None:
    with _database(config) as dsn, ExitStack() as stack:
        migrate(dsn)
        # For the children and for the demo's own app.
        os.environ["SKIPLANE_DSN"] = dsn
        pool = SyncPool(dsn, size=1, role="up")
        stack.callback(pool.close)
        db = Database(pool)
        web = Web(stack, config, db)
        children = [web.child, *_start(stack, config, ["--app", app_name or DEMO_APP, *worker])]
        if not _wait_ready(db, children, stop, processes) or not _wait_web(web, children, stop):
            return
        write_endpoint(config.data_dir, dsn)
        demo = None if no_demo or app_name else Demo()
        if as_json:
            print_json({"dsn": dsn, "web": web.url, "key": web.key, "pid": os.getpid()})
            _keep(children, stop, demo, None)
        else:
            with Stage(db, _headline(config, dsn, web)) as stage:
                _keep(children, stop, demo, stage)
            with suppress(OSError):  # the terminal may have gone
                click.echo("Stopping.")


def _stop_event() -> threading.Event:
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: stop.set())
    return stop


@contextmanager
def _database(config: Config) -> Iterator[str]:
    if config.dsn:
        yield config.dsn
    else:
        with EmbeddedServer(config.data_dir) as server:
            yield server.dsn()


def _start(stack: ExitStack, config: Config, worker: list[str]) -> list[Child]:
    """Start scheduler and worker; the stack stops the worker first."""
    grace = {"SKIPLANE_GRACE_SECONDS": f"{min(config.grace_seconds, GRACE_SECONDS):g}"}
    children = []
    for name, options in (
        ("scheduler", ["--metrics-port", "0"]),
        ("worker", ["--name", _worker_name(), *worker]),
    ):
        log = config.data_dir / f"{name}.log"
        child = Child(name, [name, *options], log, grace)
        stack.callback(child.stop, 2 * GRACE_SECONDS)
        children.append(child)
    return children


def _worker_name() -> str:
    return f"up-{os.getpid()}"


def _wait_ready(db: Database, children: list[Child], stop: threading.Event, processes: int) -> bool:
    """Wait until the worker's processes have registered; False when it should stop instead."""
    deadline = time.monotonic() + READY_SECONDS
    while db.run(count_workers(f"{_worker_name()}/")) < processes:
        _check(children)
        if time.monotonic() > deadline:
            fail(f"The worker did not start in time; see {children[-1].log}.")
        if stop.wait(0.05):
            return False
    return True


def _keep(
    children: list[Child], stop: threading.Event, demo: "Demo | None", stage: Stage | None
) -> None:
    while not stop.wait(0.1):
        _check(children)
        if demo:
            demo.step()
        if stage:
            stage.look()


def _check(children: list[Child]) -> None:
    for child in children:
        if (code := child.exit_code()) is not None:
            fail(
                f"The {child.name} ended with exit code {code}; its log {child.log} ends with:\n"
                f"{child.last_words()}",
                # The worker's 2 speaks of what it was given: an app that cannot be used.
                code=2 if code == 2 else 1,
            )


def _wait_web(web: Web, children: list[Child], stop: threading.Event) -> bool:
    deadline = time.monotonic() + READY_SECONDS
    while not web.answers():
        _check(children)
        if time.monotonic() > deadline:
            fail(f"The API did not start in time; see {web.child.log}.")
        if stop.wait(0.05):
            return False
    return True


def _headline(config: Config, dsn: str, web: Web) -> list[str]:
    return [
        f"Skiplane is up. Data and logs: {config.data_dir}  Database: {dsn}",
        f"Dashboard: {web.url}/ui  API: {web.url}  Key: {web.key}",
        """In another terminal: skiplane submit demo.greet '{"name": "you"}' --wait""",
        "Ctrl-C stops everything.",
    ]


class Demo:
    """Submits the demo's tasks, one after the other, beside its schedule."""

    def __init__(self) -> None:
        from .demo import make_schedule, submissions

        make_schedule()
        self._submissions = submissions()
        self._due_at = time.monotonic()

    def step(self) -> None:
        """Submit one when it is time."""
        if time.monotonic() >= self._due_at:
            self._due_at = time.monotonic() + SECONDS_BETWEEN_TASKS
            next(self._submissions)()

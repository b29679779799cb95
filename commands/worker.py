"""skiplane worker"""

import os
import socket
import sys

import rich_click as click

from ..config import Config
from ..log import setup_logging
from .options import configured
from .output import fail, find_dsn


def _names(_context: click.Context, _option: click.Parameter, value: str | None) -> list[str]:
    names = [name for part in (value or "").split(",") if (name := part.strip())]
    if value is not None and not names:
        raise click.BadParameter("it names none. Give one or more, or leave it out.")
    return names


@click.command()
@click.option(
    "--app",
    default="",
    help="Where the tasks are: module or module:attribute; only built-in ones if absent.",
)
@click.option(
    "--queues",
    callback=_names,
    default="default",
    show_default=True,
    help="Queues to serve, separated by commas.",
)
@click.option(
    "--types", callback=_names, help="Task types to take; all that the app has if absent."
)
@click.option(
    "--concurrency",
    type=click.IntRange(1, 10_000),
    default=10,
    show_default=True,
    help="Tasks that each process runs at once.",
)
@click.option(
    "--processes",
    type=click.IntRange(1, 256),
    default=1,
    show_default=True,
    help="Worker processes.",
)
@click.option(
    "--threads",
    type=click.IntRange(0, 10_000),
    default=0,
    help="Threads for tasks with mode 'thread'; as many as --concurrency if absent.",
)
@click.option(
    "--pool",
    type=click.IntRange(0, 1_000),
    default=0,
    help="Pool processes for def tasks and for tasks lost with their process;"
    " at most --concurrency if absent.",
)
@click.option(
    "--connections",
    type=click.IntRange(1, 16),
    default=2,
    show_default=True,
    help="Database connections of each process for claiming and recording.",
)
@click.option("--name", default=None, help="Name for operators; the host's name if absent.")
@configured(
    "dsn",
    "listen_dsn",
    "prepare",
    "lease_seconds",
    "grace_seconds",
    "kill_grace_seconds",
    "poll_seconds",
    "builtin_tasks",
    "allow_networks",
    "notify_config",
    "metrics_port",
    "traces",
    "log_format",
    "log_level",
)
def worker(
    config: Config,
    app: str,
    queues: list[str],
    types: list[str],
    concurrency: int,
    processes: int,
    threads: int,
    pool: int,
    connections: int,
    name: str | None,
) -> None:
    """Claim tasks and run them.

    SIGTERM and Ctrl-C stop it: no new tasks; those that run may finish within
    the grace; the rest goes back uncharged. A second Ctrl-C kills. Exit codes:
    0 stopped or drained, 2 the app or the settings cannot be used.
    """
    if sys.platform == "win32":
        fail("Workers run on Linux and macOS; on Windows use WSL or a container.")
    from ..worker.settings import WorkerSettings
    from ..worker.supervisor import Supervisor

    setup_logging(config)
    settings = WorkerSettings(
        app=app,
        dsn=find_dsn(config),
        listen_dsn=config.listen_dsn or None,
        queues=tuple(dict.fromkeys(queues)),
        types=tuple(dict.fromkeys(types)),
        concurrency=concurrency,
        threads=threads,
        pool=pool,
        connections=connections,
        prepare=config.prepare,
        lease_seconds=config.lease_seconds,
        grace_seconds=config.grace_seconds,
        kill_grace_seconds=config.kill_grace_seconds,
        poll_seconds=config.poll_seconds,
        builtin_tasks=config.builtin_tasks is not False,
        allow_networks=config.allow_networks or "",
        notify_config=os.path.abspath(config.notify_config) if config.notify_config else "",
        metrics_port=config.metrics_port,
        traces=config.traces is True,
        name=name or f"{socket.gethostname()}:{os.getpid()}",
        log_format=config.log_format,
        log_level=config.log_level,
    )
    sys.exit(Supervisor(settings, processes).run())

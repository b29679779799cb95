"""skiplane bench"""

import asyncio
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import rich_click as click

from ...config import Config
from ...schema import bench_calls as calls
from ...schema.embedded import EmbeddedError, EmbeddedServer
from ...schema.migrate import MigrationError, migrate
from ..options import configured
from ..output import fail, json_option, print_json, refusals
from .bench import Bench, BenchError
from .held import held
from .latency import pickup, timer
from .meter import find_postmaster
from .report import show
from .throughput import drain, enqueue, floor, steady

if sys.platform == "win32":
    from asyncio import run
else:
    from uvloop import run

Part = Callable[[Bench], Awaitable[dict[str, Any]]]
PARTS: dict[str, tuple[Part, ...]] = {
    "enqueue": (enqueue,),
    "drain": (floor, drain),
    "steady": (steady,),
    "pickup": (pickup,),
    "timer": (timer,),
    "held": (held,),
}
FIGURES = (
    "enqueue_one_per_s", "enqueue_bulk_per_s", "drain_per_s", "steady_per_s", "pickup_ms",
    "timer_ms", "wal_bytes_per_task", "server_cpu_us_per_task", "held", "floor_per_s", "ratios",
    "sync_drain_per_s", "timer_2000_ms", "timer_early", "steady_backlog_max", "machine",
)  # fmt: skip


@click.command()
@click.option("--only", type=click.Choice(list(PARTS)), help="Measure only this.")
@click.option(
    "--tasks",
    type=click.IntRange(50, 10_000_000),
    default=200_000,
    show_default=True,
    help="Tasks of a full drain; other parts take shares of it.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(1, 86400),
    help="Length of steady (15), timer (10) and held (60).",
)
@json_option
@configured("dsn")
def bench(
    config: Config, only: str | None, tasks: int, seconds: float | None, as_json: bool
) -> None:
    """Measure what this database can do.

    Without a DSN it measures a PostgreSQL of its own that is thrown away at the
    end, also while `skiplane up` runs. In a database of yours it works in
    queues that nobody else uses; what it submitted stays in the history of
    tasks until retention drops it. Clients and workers run on this machine.
    """
    parts = PARTS[only] if only else [part for parts in PARTS.values() for part in parts]
    with refusals(), _folder(config) as folder, _database(config, folder) as (dsn, own):
        try:
            found = run(_measure(dsn, own, tasks, seconds, folder, parts))
        except BenchError as error:
            fail(str(error))
        except (asyncio.CancelledError, KeyboardInterrupt):
            fail("Stopped; nothing was measured to the end.")
    if as_json:
        print_json(found)
    else:
        show(found)


async def _measure(
    dsn: str, own: bool, tasks: int, seconds: float | None, folder: Path, parts: Any
) -> dict[str, Any]:
    _stop_on_sigterm()
    bench = Bench(dsn, tasks, seconds, folder, _say, own)
    found: dict[str, Any] = dict.fromkeys(FIGURES)
    found["machine"] = {
        "cpus": os.cpu_count(),
        "server_version": calls.server_version(bench.conn),
        "server_here": find_postmaster(bench.conn) is not None,
        "throw_away": own,
        "python": sys.version.split()[0],
        "tasks": tasks,
    }
    async with bench.tidy():
        for part in parts:
            found |= await part(bench)
            # Let the server finish what it does after a rush.
            await asyncio.sleep(0.5)
    if found["floor_per_s"] and found["drain_per_s"]:
        found["ratios"] = {
            processes: rate and round(rate / found["floor_per_s"], 2)
            for processes, rate in found["drain_per_s"].items()
        }
    return found


@contextmanager
def _folder(config: Config) -> Iterator[Path]:
    """Give a folder for logs and for an own server: on the disk that `skiplane up` uses."""
    for parent in reversed((config.data_dir, *config.data_dir.parents)):
        parent.mkdir(mode=0o755, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="bench-", dir=config.data_dir))
    # Started by root, the server runs as another user, who must pass.
    folder.chmod(0o711 if hasattr(os, "geteuid") and os.geteuid() == 0 else 0o700)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _database(config: Config, folder: Path) -> Iterator[tuple[str, bool]]:
    """Give a DSN, and whether it is that of a server made for this measurement."""
    if config.dsn:
        _say("measuring the given database")
        yield config.dsn, False
        return
    _say(f"measuring a throw-away PostgreSQL in {folder}, with fsync")
    try:
        with EmbeddedServer(folder / "server") as server:
            migrate(server.dsn())
            yield server.dsn(), True
    except (EmbeddedError, MigrationError) as error:
        fail(str(error))


def _stop_on_sigterm() -> None:
    """Make SIGTERM tidy up as Ctrl-C does."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)


def _say(line: str) -> None:
    click.echo(line, err=True)

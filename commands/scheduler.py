"""skiplane scheduler"""

import asyncio
import signal
import sys

import rich_click as click

from ..config import Config
from ..log import setup_logging
from ..metrics import PortTaken, serve_metrics
from ..scheduler.metrics import SchedulerMetrics
from ..scheduler.process import NoEngine, Scheduler
from .options import configured
from .output import fail, find_dsn

if sys.platform == "win32":
    from asyncio import run
else:
    from uvloop import run


@click.command()
@configured("dsn", "tick_ms", "metrics_port", "log_format", "log_level")
def scheduler(config: Config) -> None:
    """Release what is due, recover what is lost.

    Any number may run side by side, and any may be killed: what one of them
    does not do, the next does. SIGTERM and Ctrl-C stop it within a second
    (exit code 0). It ends with exit code 1 when a part of it makes no progress
    for a minute, so that whoever started it starts it again; a database that
    is away it waits for.
    """
    setup_logging(config)
    try:
        well = run(_run(find_dsn(config), config.tick_ms, config.metrics_port))
    except NoEngine as error:
        fail(str(error))
    except PortTaken as error:
        fail(str(error), 2)
    if not well:
        sys.exit(1)


async def _run(dsn: str, tick_ms: int, metrics_port: int) -> bool:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    scheduler = Scheduler(dsn, tick_ms)
    if metrics_port:
        serve_metrics(metrics_port, SchedulerMetrics(lambda: scheduler.loops))
    return await scheduler.run(stop)

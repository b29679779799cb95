"""Running a scheduler as its users do, and its loops one turn at a time."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from skiplane.scheduler.link import Link, Outage
from skiplane.schema.scheduler_calls import CLOCK_SETTINGS
from skiplane.tests.support import wait_until

PROGRAM = "from skiplane.cli import main; main(prog_name='skiplane')"


class SchedulerCommand:
    """A running ``skiplane scheduler``."""

    def __init__(self, dsn: str, log: Path, *options: str) -> None:
        self.log = log
        command = [sys.executable, "-c", PROGRAM, "scheduler", "--dsn", dsn, *options]
        with log.open("wb") as out:
            self.process = subprocess.Popen(
                command,
                stdout=out,
                stderr=subprocess.STDOUT,
                env={**os.environ, "SKIPLANE_LOG_FORMAT": "json"},
            )

    def lines(self, event: str = "") -> list[dict[str, Any]]:
        """Give the log's records whose text begins with ``event``."""
        records = (
            json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{")
        )
        return [record for record in records if record["event"].startswith(event)]

    def wait_for(self, event: str, count: int = 1, timeout: float = 60) -> dict[str, Any]:
        """Wait until the log has a record ``count`` times; give the last."""
        wait_until(
            lambda: len(self.lines(event)) >= count or self.process.poll() is not None,
            timeout,
            f"{event!r} in the log",
        )
        assert len(self.lines(event)) >= count, self.log.read_text()
        return self.lines(event)[-1]

    def stop(self, number: signal.Signals = signal.SIGTERM) -> tuple[int, float]:
        """Stop it; give the exit code and the seconds that it took."""
        began = time.monotonic()
        self.process.send_signal(number)
        return self.process.wait(20), time.monotonic() - began


@contextmanager
def running_scheduler(
    dsn: str, folder: Path, *options: str, ready: bool = True
) -> Iterator[SchedulerCommand]:
    """Run a scheduler until the end of the block."""
    made = SchedulerCommand(dsn, folder / f"scheduler-{time.monotonic_ns()}.log", *options)
    try:
        if ready:
            made.wait_for("scheduler started")
        yield made
    finally:
        made.process.kill()
        made.process.wait()


@asynccontextmanager
async def linked(dsn: str, outage: Outage | None = None) -> AsyncIterator[Link]:
    """Give a link as the loops by the clock have it."""
    link = Link(dsn, outage or Outage(), "scheduler", CLOCK_SETTINGS)
    try:
        yield link
    finally:
        link.abort()

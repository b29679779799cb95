"""Running a worker as its users do, and looking at what becomes of tasks."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from skiplane.tests.support import wait_until

Connection = psycopg.Connection[tuple[Any, ...]]
APP = "skiplane.tests.worker.sample_app"
ENDED = ("SUCCEEDED", "FAILED", "CANCELLED", "DEAD")


class Tasks:
    """Submits tasks and looks at them, on one connection."""

    def __init__(self, conn: Connection) -> None:
        self.conn = conn

    def submit(self, task_type: str, payload: Any = None, **options: Any) -> str:
        """Submit one task; options by their names in submit_task, without p_."""
        document = {"task_type": task_type, "payload": {} if payload is None else payload}
        row = self.conn.execute(
            "select task_id from skiplane.submit_tasks(%s::jsonb)",
            [json.dumps([{**document, **options}])],
        ).fetchone()
        assert row is not None
        return str(row[0])

    def many(self, task_type: str, payload: Any, count: int, max_retries: int = 3) -> list[str]:
        """Submit equal tasks in one call."""
        row = self.conn.execute(
            "select skiplane.submit_batch(%s, %s::text[], p_max_retries => %s::integer)",
            [task_type, [json.dumps(payload)] * count, max_retries],
        ).fetchone()
        assert row is not None
        return [str(task_id) for task_id in row[0]]

    def get(self, task_id: str) -> dict[str, Any]:
        """Give a task's document."""
        row = self.conn.execute("select skiplane.get_task(%s::uuid)", [task_id]).fetchone()
        assert row is not None
        return dict(row[0])

    def status(self, task_id: str) -> str:
        """Give a task's state."""
        return str(self.get(task_id)["status"])

    def wait(self, task_id: str, *statuses: str, timeout: float = 60) -> dict[str, Any]:
        """Wait until a task is in one of the states (any final one by default)."""
        wanted = statuses or ENDED
        wait_until(lambda: self.status(task_id) in wanted, timeout, f"{task_id} to be {wanted}")
        return self.get(task_id)

    def wait_all(self, task_ids: list[str], timeout: float = 60) -> None:
        """Wait until all tasks have ended."""
        wait_until(
            lambda: (
                self.scalar(
                    "select count(*) from skiplane.get_results(%s::uuid[]) where done", [task_ids]
                )
                == len(task_ids)
            ),
            timeout,
            "all tasks to end",
        )

    def cancel(self, task_id: str) -> dict[str, Any]:
        """Cancel a task."""
        row = self.conn.execute("select skiplane.cancel_task(%s::uuid)", [task_id]).fetchone()
        assert row is not None
        return dict(row[0])

    def release_due(self) -> None:
        """Do what the scheduler does for tasks whose retry is due."""
        self.conn.execute("select promoted from skiplane.promote_tasks(1000)")

    def sweep(self) -> None:
        """Do what the scheduler does for leases that have run out."""
        self.conn.execute("select returned from skiplane.sweep_leases(200)")

    def scalar(self, query: str, arguments: list[Any] | None = None) -> Any:
        """Give one value."""
        row = self.conn.execute(query.encode(), arguments or []).fetchone()
        assert row is not None
        return row[0]


class WorkerCommand:
    """A running ``skiplane worker``.

    Attributes:
        process: Its supervisor.
        log: Everything that it and its children write.
    """

    def __init__(
        self, dsn: str, log: Path, *options: str, app: str = APP, prefix: Sequence[str] = ()
    ) -> None:
        self.log = log
        command = "from skiplane.cli import main; main(prog_name='skiplane')"
        with log.open("wb") as out:
            self.process = subprocess.Popen(
                [
                    *prefix,
                    sys.executable,
                    "-c",
                    command,
                    "worker",
                    "--app",
                    app,
                    "--dsn",
                    dsn,
                    *options,
                ],
                stdout=out,
                stderr=subprocess.STDOUT,
                env={**os.environ, "SKIPLANE_LOG_FORMAT": "json"},
                start_new_session=True,
            )

    def lines(self, event: str = "") -> list[dict[str, Any]]:
        """Give the log's records whose text begins with ``event``."""
        found = []
        for line in self.log.read_text().splitlines():
            if line.startswith("{"):
                record = json.loads(line)
                if record["event"].startswith(event):
                    found.append(record)
        return found

    def wait_for(self, event: str, count: int = 1, timeout: float = 60) -> dict[str, Any]:
        """Wait until the log has a record ``count`` times; give the last."""
        wait_until(
            lambda: len(self.lines(event)) >= count or self.process.poll() is not None,
            timeout,
            f"{event!r} in the log:\n{self.log.read_text()}",
        )
        assert len(self.lines(event)) >= count, self.log.read_text()
        return self.lines(event)[-1]

    def child_pids(self) -> list[int]:
        """Give the process ids of all children that were ever started."""
        return [int(record["pid"]) for record in self.lines("worker process started")]

    def signal(self, number: signal.Signals) -> None:
        """Send the supervisor a signal."""
        self.process.send_signal(number)

    def stop(self, timeout: float = 60) -> int:
        """Stop it gracefully and give the exit code."""
        self.signal(signal.SIGTERM)
        return self.process.wait(timeout)

    def kill(self) -> None:
        """End it at once; its children die with it."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for pid in self.child_pids():
            wait_gone(pid)


@contextmanager
def running_worker(
    dsn: str, folder: Path, *options: str, app: str = APP, ready: int = 1
) -> Iterator[WorkerCommand]:
    """Run a worker until the end of the block; ``ready`` processes have to come up."""
    log = folder / f"worker-{time.monotonic_ns()}.log"
    worker = WorkerCommand(dsn, log, *options, app=app)
    try:
        if ready:
            worker.wait_for("worker started", ready)
        yield worker
    finally:
        worker.kill()


def alive(pid: int) -> bool:
    """Tell whether a process exists and is no zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in ("Z", "X")


def wait_gone(pid: int, timeout: float = 30) -> None:
    """Wait until a process has ended."""
    wait_until(lambda: not alive(pid), timeout, f"process {pid} to be gone")

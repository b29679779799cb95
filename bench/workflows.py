"""Measure what workflows cost, against the same number of plain tasks in the same run.

    python bench/workflows.py 'host=... user=... dbname=postgres' --rounds 3

makes a database named workflows_* on that server, runs a real worker and a scheduler, prints tasks
per second and ratios within a round (medians), and drops what it made. The role must be allowed to
create databases.

- steady: a producer and a worker at once, 8 tasks in each call: submit_tasks against
  submit_workflow with a chain, and with a diamond (1 - 6 - 1); and 200 tasks in each call:
  submit_tasks against submit_workflows.
- wide: 1 to 5,000 and 5,000 to 1 against 5,000 tasks in one submit_batch.
"""

import argparse
import contextlib
import json
import secrets
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
from psycopg.conninfo import make_conninfo
from psycopg.types.json import Jsonb

from skiplane.schema.migrate import migrate

Connection = psycopg.Connection[tuple[Any, ...]]
Spec = list[dict[str, Any]]
PROGRAM = "from skiplane.cli import main; main(prog_name='skiplane')"
PAYLOAD = {"data": "x" * 280}
IN_ONE_TRANSACTION = 25
IN_ONE_CALL = 25


def node(name: str, *parents: str) -> dict[str, Any]:
    """Give a task that does nothing."""
    return {
        "name": name,
        "task_type": "bench.noop",
        "payload": PAYLOAD,
        "dependencies": list(parents),
    }


def chain() -> Spec:
    """Give eight tasks in a row."""
    return [node(str(n), *([str(n - 1)] if n else [])) for n in range(8)]


def diamond() -> Spec:
    """Give one task, six after it, and one after these."""
    middle = [node(f"m{n}", "first") for n in range(6)]
    return [node("first"), *middle, node("last", *(m["name"] for m in middle))]


def fan_out(count: int) -> Spec:
    """Give one task and many that wait for it."""
    return [node("first"), *(node(str(n), "first") for n in range(count))]


def fan_in(count: int) -> Spec:
    """Give many tasks and one that waits for all of them."""
    return [*(node(str(n)) for n in range(count)), node("last", *map(str, range(count)))]


class Bench:
    """A database with a worker."""

    def __init__(self, dsn: str) -> None:
        self.conn: Connection = psycopg.connect(dsn, autocommit=True)
        self.watcher: Connection = psycopg.connect(dsn, autocommit=True)

    def busy(self) -> bool:
        """Tell whether a task has not ended. To count what has would take a core by and by."""
        row = self.watcher.execute(
            "select exists (select from skiplane.blocked) or exists (select from skiplane.lease)"
            " or exists (select from skiplane.ready)"
        ).fetchone()
        return row != (False,)

    def timed(self, count: int, submit: Callable[[], None]) -> float:
        """Give tasks per second from the first submission to the last end."""
        begun = time.perf_counter()
        submit()
        while self.busy():
            time.sleep(0.02)
        return count / (time.perf_counter() - begun)

    def calls(self, statement: str, spec: Spec, count: int) -> None:
        """Make calls of eight tasks each."""
        document = Jsonb(spec)
        for start in range(0, count, 8 * IN_ONE_TRANSACTION):
            with self.conn.transaction(), self.conn.pipeline():
                for _ in range(min(IN_ONE_TRANSACTION, (count - start) // 8)):
                    self.conn.execute(statement.encode(), [document])

    def plain(self, count: int) -> float:
        """Submit plain tasks, eight in each call."""
        spec = [{"task_type": "bench.noop", "payload": PAYLOAD}] * 8
        query = "select count(*) from skiplane.submit_tasks(%s)"
        return self.timed(count, lambda: self.calls(query, spec, count))

    def workflows(self, spec: Spec, count: int) -> float:
        """Submit workflows of eight tasks."""
        query = "select from skiplane.submit_workflow('bench', %s)"
        return self.timed(count, lambda: self.calls(query, spec, count))

    def plain_many(self, count: int) -> float:
        """Submit plain tasks, 200 in each call."""
        spec = [{"task_type": "bench.noop", "payload": PAYLOAD}] * 8 * IN_ONE_CALL
        query = "select count(*) from skiplane.submit_tasks(%s)"
        return self.timed(count, lambda: self.many(query, spec, count))

    def workflows_many(self, spec: Spec, count: int) -> float:
        """Submit workflows of eight tasks, 25 in each call."""
        several = [{"workflow_name": "bench", "tasks": spec}] * IN_ONE_CALL
        query = "select count(*) from skiplane.submit_workflows(%s)"
        return self.timed(count, lambda: self.many(query, several, count))

    def many(self, statement: str, spec: Spec, count: int) -> None:
        """Make calls of 200 tasks each, rounded up."""
        document = Jsonb(spec)
        for _ in range(0, count, 8 * IN_ONE_CALL):
            self.conn.execute(statement.encode(), [document])

    def batch(self, count: int) -> float:
        """Submit plain tasks in one call."""
        payloads = [json.dumps(PAYLOAD)] * count
        query = "select skiplane.submit_batch('bench.noop', %s)"
        return self.timed(count, lambda: self.one(query, payloads))

    def wide(self, spec: Spec) -> float:
        """Submit one workflow."""
        query = "select from skiplane.submit_workflow('wide', %s)"
        return self.timed(len(spec), lambda: self.one(query, Jsonb(spec)))

    def one(self, query: str, value: Any) -> None:
        """Make one call."""
        self.conn.execute(query.encode(), [value])


def parts(bench: Bench, tasks: int, width: int) -> dict[str, Callable[[], float]]:
    """Name what is measured; the plain ones stand before what is compared with them."""
    return {
        "plain, 8 in a call": lambda: bench.plain(tasks),
        "chains of 8": lambda: bench.workflows(chain(), tasks),
        "diamonds of 8": lambda: bench.workflows(diamond(), tasks),
        "plain, 200 in a call": lambda: bench.plain_many(tasks),
        "25 chains of 8 in a call": lambda: bench.workflows_many(chain(), tasks),
        "25 diamonds of 8 in a call": lambda: bench.workflows_many(diamond(), tasks),
        f"plain, {width} in a call": lambda: bench.batch(width),
        f"1 to {width}": lambda: bench.wide(fan_out(width)),
        f"{width} to 1": lambda: bench.wide(fan_in(width)),
    }


@contextlib.contextmanager
def database(dsn: str) -> Iterator[str]:
    """Make a database with the schema and drop it at the end."""
    name = f"workflows_{secrets.token_hex(4)}"
    with psycopg.connect(dsn, autocommit=True) as admin:
        admin.execute(f"create database {name}".encode())
        try:
            made = make_conninfo(dsn, dbname=name)
            migrate(made)
            yield made
        finally:
            admin.execute(f"drop database {name} with (force)".encode())


@contextlib.contextmanager
def running(dsn: str, processes: int) -> Iterator[None]:
    """Run a worker and a scheduler."""
    app = ("--app", "skiplane.commands.bench.tasks:app", "--processes", str(processes))
    commands = (("worker", *app, "--queues", "default"), ("scheduler",))
    started = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *command, "--dsn", dsn, "--log-level", "warning"]
        )
        for command in commands
    ]
    try:
        yield
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.wait()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dsn")
    parser.add_argument("--tasks", type=int, default=16_000)
    parser.add_argument("--width", type=int, default=5_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--processes", type=int, default=1)
    given = parser.parse_args()
    rates: dict[str, list[float]] = {}
    with database(given.dsn) as dsn, running(dsn, given.processes):
        bench = Bench(dsn)
        for _, measure in parts(bench, 800, 800).items():
            measure()  # warm
        for _ in range(given.rounds):
            for name, measure in parts(bench, given.tasks, given.width).items():
                rates.setdefault(name, []).append(measure())
    base: list[float] = []
    for name, found in rates.items():
        base = found if name.startswith("plain") else base
        ratio = statistics.median(one / other for one, other in zip(found, base, strict=True))
        rate = statistics.median(found)
        print(f"{name:28} {rate:8,.0f}/s  {ratio:5.0%}  {[round(one) for one in found]}")


if __name__ == "__main__":
    main()

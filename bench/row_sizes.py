"""Measure what a task costs in each state: bytes of rows and indexes, WAL, and server CPU.

    python bench/row_sizes.py --tasks 100000

starts a PostgreSQL of its own, drives tasks with 300 bytes of payload through the states by the
engine's own functions, prints a table, and throws the server away. One client, in batches as a
producer, a scheduler and a worker use them; CPU is that of the server's process for this client.
"""

import argparse
import json
import os
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from skiplane.schema.embedded import EmbeddedServer
from skiplane.schema.migrate import migrate

Connection = psycopg.Connection[tuple[Any, ...]]
PAYLOAD = json.dumps({"data": "x" * 288})
RESULT = json.dumps({"ok": True})
SUBMITTED, CLAIMED, PROMOTED = 500, 50, 1000
SIZES = """
select coalesce(r.relname, c.relname), sum(pg_table_size(c.oid)), sum(pg_indexes_size(c.oid))
from pg_class c left join pg_class r on r.oid = pg_partition_root(c.oid)
where c.relnamespace = 'skiplane'::regnamespace and c.relkind = 'r' group by 1
"""
SUBMIT = (
    "select skiplane.submit_batch('work', %s::text[], p_scheduled_at => %s::timestamptz,"
    " p_idempotency_keys => %s::text[])"
)
CLAIM = (
    "select lease_id, tasks, cursor from skiplane.claim_tasks(%s, '{default}', %s, p_cursor => %s)"
)
FINISH = "select skiplane.finish_tasks(%s, %s, %s::uuid[], %s::text[], %s::int[], %s::int[], %s)"
Sizes = dict[str, tuple[int, int]]
Lease = tuple[int, list[str]]


class Measured:
    """What a step cost, for each of ``count``."""

    def __init__(self, count: int, before: Sizes, after: Sizes, wal: int, cpu: float) -> None:
        self.wal, self.cpu = wal / count, cpu / count * 1e6
        self.rows = {
            name: tuple((now - then) / count for now, then in zip(sizes, before[name], strict=True))
            for name, sizes in after.items()
        }

    def bytes(self, *tables: str) -> tuple[float, float]:
        """Give the bytes of rows and of indexes of these tables."""
        found = [self.rows[name] for name in tables]
        return sum(rows for rows, _ in found), sum(indexes for _, indexes in found)


class Bench:
    """A client of the server, and the steps."""

    def __init__(self, conn: Connection, tasks: int) -> None:
        self.conn, self.tasks = conn, tasks
        self.worker = uuid.uuid4()
        self.cursor: Any = None

    def value(self, query: str, *parameters: Any) -> Any:
        """Run a query for its one row, or its only column."""
        row = self.conn.execute(query.encode(), parameters).fetchone()
        assert row is not None
        return row[0] if len(row) == 1 else row

    def sizes(self) -> Sizes:
        """Give the bytes of rows and of indexes of each table, partitions with their parent."""
        found = self.conn.execute(SIZES.encode()).fetchall()
        return {name: (int(rows), int(indexes)) for name, rows, indexes in found}

    def measure(self, step: Callable[[], None], count: int) -> Measured:
        """Take a step that is for ``count`` of something."""
        before, wal, cpu = self.sizes(), self._wal(), self._cpu()
        step()
        cost = self._wal() - wal, self._cpu() - cpu
        return Measured(count, before, self.sizes(), *cost)

    def _wal(self) -> int:
        return int(self.value("select pg_current_wal_insert_lsn() - '0/0'"))

    def _cpu(self) -> float:
        with open(f"/proc/{self.conn.info.backend_pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def submit(self, at: datetime | None = None, keys: bool = False, count: int = 0) -> None:
        """Submit tasks in batches."""
        count = count or self.tasks
        size = min(SUBMITTED, count)
        for _ in range(count // size):
            named = [str(uuid.uuid4()) for _ in range(size)] if keys else None
            self.conn.execute(SUBMIT.encode(), [[PAYLOAD] * size, at, named])

    def submit_single(self, count: int) -> None:
        """Submit tasks one at a time."""
        for _ in range(count):
            self.conn.execute("select skiplane.submit_task('work', %s::jsonb)", [PAYLOAD])

    def claim(self, count: int) -> list[Lease]:
        """Claim tasks in batches."""
        leases: list[Lease] = []
        for _ in range(count // CLAIMED):
            lease, tasks, self.cursor = self.value(CLAIM, self.worker, CLAIMED, self.cursor)
            self.cursor = Jsonb(self.cursor)
            leases.append((lease, [task["task_id"] for task in json.loads(tasks)]))
        return leases

    def finish(self, leases: list[Lease], failed: bool = False) -> None:
        """End the tasks of leases, each lease at once."""
        for lease, ids in leases:
            failures = [
                {"task_id": i, "kind": "error", "error_type": "ValueError", "error_message": "no"}
                for i in ids
            ]
            ended: list[str] = [] if failed else ids
            self.value(
                FINISH,
                self.worker,
                lease,
                ended,
                [RESULT] * len(ended),
                [900] * len(ended),
                [800] * len(ended),
                json.dumps(failures) if failed else None,
            )

    def promote(self) -> None:
        """Release all that is due."""
        after: datetime | None = None
        while True:
            promoted, _, after = self.value(
                "select * from skiplane.promote_tasks(%s, %s)", PROMOTED, after
            )
            if not promoted:
                return


@contextmanager
def connection() -> Iterator[Connection]:
    """Give a superuser's connection to a server that is made and thrown away."""
    with tempfile.TemporaryDirectory(prefix="skiplane-sizes-", dir="/tmp") as folder:
        # As root: its server runs as another user, who must get in.
        os.chmod(folder, 0o711)
        with EmbeddedServer(folder) as server:
            migrate(server.dsn("skiplane"))
            owner = server.dsn("skiplane", user="postgres")
            with psycopg.connect(owner, autocommit=True) as conn:
                yield conn


def show(name: str, measured: Measured, *tables: str, part: bool = False) -> None:
    """Print a line: bytes of these tables, then WAL and CPU unless it is a part of another line."""
    rows, indexes = measured.bytes(*tables)
    cost = "" if part else f" {measured.wal:7.0f} {measured.cpu:7.1f}"
    print(f"{name:<44} {rows:7.0f} {indexes:7.0f} {rows + indexes:7.0f}{cost}", flush=True)


def run(bench: Bench) -> None:
    """Take every step and print what it cost."""
    count, few = bench.tasks, bench.tasks // 10
    day = timedelta(days=1)
    now = datetime.now(UTC)
    print(f"{'bytes for each':<44} {'rows':>7} {'indexes':>7} {'sum':>7} {'WAL':>7} {'CPU us':>7}")
    step = bench.measure(lambda: bench.submit(now + day), count)
    show("submitted for a day with a partition", step, "timer")
    step = bench.measure(lambda: bench.submit(now + 400 * day), count)
    show("submitted for a day beyond", step, "timer_far")
    # Late enough that all of them wait first.
    seconds = 1 + few / 1000
    bench.submit(datetime.now(UTC) + timedelta(seconds=seconds), count=few)
    bench.value("select pg_sleep(%s)", seconds)
    step = bench.measure(bench.promote, few)
    show("promoted: task and ready row", step, "task", "ready")
    leases = bench.claim(few)
    bench.finish(leases)
    step = bench.measure(bench.submit, count)
    show("submitted: task and ready row", step, "task", "ready")
    show("  of these the ready row", step, "ready", part=True)
    show("  and the task", step, "task", part=True)
    step = bench.measure(lambda: leases.extend(bench.claim(count)), count)
    show("claimed: share of a lease of 50", step, "lease")
    del leases[: few // CLAIMED]
    step = bench.measure(lambda: bench.finish(leases), count)
    show("finished: outcome with a result", step, "outcome")
    step = bench.measure(lambda: bench.submit(keys=True, count=few), few)
    show("submitted with a key: the key's row", step, "idempotency")
    step = bench.measure(lambda: bench.submit_single(few), few)
    show("submitted one at a time", step, "task", "ready")
    leases = bench.claim(few)
    step = bench.measure(lambda: bench.finish(leases, failed=True), few)
    show("failed and to be retried: attempt", step, "attempt")
    run_others(bench, few)


def run_others(bench: Bench, few: int) -> None:
    """Measure schedules and workflows."""
    made: list[Any] = []
    new_year = datetime(datetime.now(UTC).year + 1, 1, 1, tzinfo=UTC)

    def schedules() -> None:
        for n in range(few):
            made.append(
                bench.value(
                    "select skiplane.create_cron_task(%s, '0 0 1 1 *', 'work', %s::jsonb,"
                    " p_next_fire_time => %s)",
                    f"schedule-{n}",
                    PAYLOAD,
                    new_year,
                )["cron_id"]
            )

    def fires() -> None:
        for cron_id in made:
            bench.value("select skiplane.run_cron_task(%s::uuid)", cron_id)

    def workflows() -> None:
        # Eight tasks: one, six that wait for it, and one that waits for those.
        names = [f"step{n}" for n in range(8)]
        tasks = [
            {"name": name, "task_type": "work", "payload": {"data": "x" * 288}} for name in names
        ]
        for n in range(1, 7):
            tasks[n]["dependencies"] = [names[0]]
        tasks[7]["dependencies"] = names[1:7]
        for _ in range(few // 8):
            bench.value("select skiplane.submit_workflow('flow', %s)", Jsonb(tasks))

    show("schedule", bench.measure(schedules, few), "schedule")
    show("fired by hand: history", bench.measure(fires, few), "fire")
    step = bench.measure(workflows, few // 8 * 8)
    own = [name for name in step.rows if name.startswith(("workflow", "blocked", "dependency"))]
    show("task of a workflow of 8: besides task, ready", step, *own)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tasks", type=int, default=100_000, help="a multiple of 500")
    asked = parser.parse_args()
    if asked.tasks < SUBMITTED or asked.tasks % SUBMITTED:
        parser.error(f"--tasks {asked.tasks} is no multiple of {SUBMITTED}. Give one.")
    with connection() as conn:
        run(Bench(conn, asked.tasks))


if __name__ == "__main__":
    main()

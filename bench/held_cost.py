"""What work that is held back costs a claim: ``python bench/held_cost.py DSN HELD TENANTS``.

Fills the queue with so many tasks of a paused type and with tasks that may run, both
spread over so many tenants, and takes the time of claims (each finishes what the one
before took). The database must be migrated and otherwise idle; its hot tables are
emptied. The first line is without the tasks that are held back.
"""

import json
import statistics
import sys
import time
import uuid
from typing import Any

import psycopg

from skiplane.bench.flow_cost import connect, empty

RUNNABLE = 40_000
CLAIMS = {1: 300, 100: 100}


def fill(conn: psycopg.Connection[Any], task_type: str, count: int, tenants: int) -> None:
    each = max(1, count // tenants)
    for number in range(tenants):
        for start in range(0, each, 10_000):
            conn.execute(
                "select skiplane.submit_batch(%s, array(select '{}' from generate_series(1, %s)),"
                " p_metadata => jsonb_build_object('tenant_id', 't' || %s::text))",
                [task_type, min(10_000, each - start), number],
            )


def hold(conn: psycopg.Connection[Any], count: int, tenants: int) -> None:
    fill(conn, "held", tenants, tenants)
    # Nothing of it is ever claimed: rows that wait are enough.
    conn.execute(
        "insert into skiplane.ready (id, shard, lane, due_at, estimate, day, attempt, fence)"
        " select gen_random_uuid(), r.shard, r.lane, r.due_at, r.estimate, r.day, 0, 0"
        " from skiplane.lane l join skiplane.ready r on r.lane = l.lane and r.shard = l.shard"
        " cross join generate_series(2, %s) where l.task_type = 'held'",
        [count // tenants],
    )
    conn.execute("select skiplane.pause_task_type('held')")


def settle(conn: psycopg.Connection[Any]) -> None:
    while conn.execute("select from skiplane.flow_change").fetchall():
        conn.execute("select skiplane.refresh_flow()")
    for table in ("ready", "lane", "task"):
        conn.execute(f"vacuum analyze skiplane.{table}".encode())


def claims(conn: psycopg.Connection[Any], limit: int) -> float:
    """Milliseconds of the claims: a tenth of them are faster, which other load disturbs least."""
    took = []
    ids: list[str] = []
    worker, cursor, lease = uuid.uuid4(), None, None
    for _ in range(CLAIMS[limit]):
        began = time.perf_counter()
        row = conn.execute(
            "select lease_id, tasks, cursor::text from skiplane.finish_and_claim("
            "%s, %s, %s::uuid[], %s::text[], null, null, null, '{default}', %s,"
            " p_cursor => %s::jsonb)",
            [worker, lease, ids, [None] * len(ids), limit, cursor],
        ).fetchone()
        took.append(time.perf_counter() - began)
        assert row is not None
        lease, cursor = row[0], row[2]
        ids = [task["task_id"] for task in json.loads(row[1])]
        assert len(ids) == limit
    return statistics.quantiles(took, n=10)[0] * 1000


def main() -> None:
    dsn, held, tenants = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    with connect(dsn) as conn:
        for count in (0, held):
            empty(conn)
            fill(conn, "work", RUNNABLE, tenants)
            if count:
                hold(conn, count, tenants)
            settle(conn)
            times = ", ".join(f"{claims(conn, n):.2f} ms for {n}" for n in CLAIMS)
            print(f"{count} held back, {tenants} tenants: a claim takes {times}", flush=True)


if __name__ == "__main__":
    main()

"""What flow control costs: throughput with limits, with many tenants, and one light tenant.

``python bench/flow_cost.py DSN`` works in a database of its own choice of yours that
is migrated and otherwise idle; it empties the hot tables. All figures are ratios
of alternating runs.
"""

import json
import statistics
import sys
import threading
import time
import uuid
from typing import Any

import psycopg

TABLES = ("ready", "lane", "lane_mark", "lease", "gate_state", "gate_release", "flow_change")
BATCH = 100


def connect(dsn: str) -> psycopg.Connection[Any]:
    return psycopg.connect(dsn, autocommit=True)


def empty(conn: psycopg.Connection[Any]) -> None:
    for table in (*TABLES, "task_type_setting", "tenant_setting", "queue_setting"):
        conn.execute(f"truncate skiplane.{table}".encode())


def reset(conn: psycopg.Connection[Any], tenants: int, tasks: int) -> None:
    empty(conn)
    for number in range(tenants):
        conn.execute(
            "select skiplane.submit_batch('work', array(select '{}' from generate_series(1, %s)),"
            " p_metadata => jsonb_build_object('tenant_id', 't' || %s::text))",
            [tasks // tenants, number],
        )
    conn.execute("vacuum analyze skiplane.ready")


def drain(dsn: str, loops: int, limit: int = BATCH) -> float:
    """Drain with some connections, each finishing and claiming in one call; tasks per second."""
    done = [0] * loops

    def loop(number: int) -> None:
        with connect(dsn) as conn:
            ids: list[str] = []
            worker, cursor, lease, empty = uuid.uuid4(), None, None, 0
            while empty < 5:
                row = conn.execute(
                    "select lease_id, tasks, cursor::text from skiplane.finish_and_claim("
                    "%s, %s, %s::uuid[], %s::text[], null, null, null, '{default}', %s,"
                    " p_cursor => %s::jsonb)",
                    [worker, lease, ids, [None] * len(ids), limit, cursor],
                ).fetchone()
                assert row is not None
                lease, cursor = row[0], row[2]
                ids = [task["task_id"] for task in json.loads(row[1] or "[]")]
                done[number] += len(ids)
                empty = 0 if ids else empty + 1
                if not ids:
                    time.sleep(0.002)

    threads = [threading.Thread(target=loop, args=(n,)) for n in range(loops)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(done) / (time.perf_counter() - began)


def compare(dsn: str, name: str, first: Any, second: Any, loops: int) -> None:
    ratios = []
    for _ in range(3):
        rates = []
        for prepare in (first, second):
            with connect(dsn) as conn:
                prepare(conn)
            rates.append(drain(dsn, loops))
        ratios.append(rates[1] / rates[0])
    print(f"{name}, {loops} connections: {statistics.median(ratios):.2f}", flush=True)


def plain(conn: psycopg.Connection[Any]) -> None:
    reset(conn, 1, 15_000)


def limited(conn: psycopg.Connection[Any]) -> None:
    reset(conn, 1, 15_000)
    conn.execute(
        "select skiplane.set_task_type("
        "'work', p_rate_limit => '1000000/s', p_concurrency => 100000)"
    )
    while conn.execute("select from skiplane.flow_change").fetchall():
        conn.execute("select skiplane.refresh_flow()")


def tenants(conn: psycopg.Connection[Any]) -> None:
    reset(conn, 1000, 15_000)


def light_tenant(dsn: str) -> None:
    """Four slots of 10 ms tasks; one tenant has a million, another comes with one."""
    with connect(dsn) as conn:
        reset(conn, 1, 1_000_000)
        waits = []
        worker, cursor = uuid.uuid4(), None
        for number in range(30):
            began = time.perf_counter()
            conn.execute(
                "select skiplane.submit_task('work', '{}',"
                " p_metadata => jsonb_build_object('tenant_id', 'light' || %s::text))",
                [number],
            )
            while True:
                row = conn.execute(
                    "select lease_id, tasks, cursor::text from skiplane.claim_tasks("
                    "%s, '{default}', 4, p_cursor => %s::jsonb)",
                    [worker, cursor],
                ).fetchone()
                assert row is not None
                cursor = row[2]
                if f"light{number}" in row[1]:
                    break
                time.sleep(0.010)
            waits.append(time.perf_counter() - began)
        print(f"light tenant behind a million: worst {max(waits) * 1000:.0f} ms of 30", flush=True)


def main() -> None:
    dsn = sys.argv[1]
    for loops in (1, 2):
        compare(dsn, "throughput with limits that do not bind", plain, limited, loops)
    compare(dsn, "throughput with 1,000 tenants against one", plain, tenants, 1)
    light_tenant(dsn)


if __name__ == "__main__":
    main()

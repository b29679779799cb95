"""Measure that claims and promotions cost the same however much waits.

    python bench/flat_cost.py 'host=... user=... dbname=postgres' --ready 5000000 --waiting 20000000

makes databases named flat_* on that server, fills the tables directly, prints medians, 99th
percentiles and the ratio of each to its small counterpart, and drops what it made. The role must be
allowed to create databases.
"""

import argparse
import contextlib
import secrets
import statistics
import time
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import psycopg
from psycopg.conninfo import make_conninfo
from psycopg.types.json import Jsonb

from skiplane.schema.migrate import migrate

Connection = psycopg.Connection[tuple[Any, ...]]
Times = dict[int, list[float]]
PROMOTE = "select promoted from skiplane.promote_tasks(%s)"
CLAIM = "select lease_id, cursor from skiplane.claim_tasks(%s, '{default}', %s, p_cursor => %s)"

# Lanes first, then tasks over them in turn, in order of time, as submits leave the tables.
LANES = """
insert into skiplane.lane (shard, queue, priority, tenant_id, task_type, created_at)
select 0, 'default', 5, 'tenant-' || n, 'work', clock_timestamp()
from generate_series(0, %(tenants)s - 1) n
"""
NUMBERED = """
create temp view numbered as
select ('019a0000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid as id, n
from generate_series(1, {count}::bigint) n
"""
TASKS = """
insert into skiplane.task (
    id, shard, day, task_type, queue, priority, tenant_id, payload, scheduled_at, created_at)
select id, 0, skiplane._utc_day(now()), 'work', 'default', 5, 'tenant-' || n %% %(tenants)s, '{}',
    now(), now() from numbered
"""
READY = """
insert into skiplane.ready (id, shard, lane, due_at, estimate, day, attempt, fence)
select t.id, 0, l.first + t.n %% %(tenants)s, now() - interval '1 hour' + t.n * interval '1 us',
    2147483647, skiplane._utc_day(now()), 0, 0
from numbered t cross join (select min(lane) as first from skiplane.lane) l
"""
# A thousand are due; the others are spread over the days that are prepared.
TIMERS = """
insert into skiplane.timer (
    id, shard, due_at, status, task_type, queue, priority, tenant_id, payload, scheduled_at,
    created_at)
select id, 0, at, 'SCHEDULED', 'work', 'default', 5, 'default', '{{}}', at, now()
from (
    select id, case when n <= 1000 then now() - interval '1 second' + n * interval '1 microsecond'
        else now() + interval '1 hour' + (n - 1000) * (interval '144 hours' / {count}) end as at
    from numbered) t
"""


@contextlib.contextmanager
def database(dsn: str) -> Iterator[Connection]:
    """Make a database with the schema, give a connection, and drop it at the end."""
    name = f"flat_{secrets.token_hex(4)}"
    own = make_conninfo(dsn, dbname=name)
    with psycopg.connect(dsn, autocommit=True) as admin:
        admin.execute(f"create database {name}".encode())
        try:
            migrate(own)
            with psycopg.connect(own, autocommit=True) as conn:
                conn.execute("set synchronous_commit = off")
                yield conn
        finally:
            admin.execute(f"drop database if exists {name} with (force)".encode())


def settle(conn: Connection) -> None:
    """Leave the tables as a running system does: vacuumed, marks set, caches warm as they are."""
    conn.execute("vacuum analyze")
    conn.execute("checkpoint")
    state: Any = None
    for _ in range(60):
        row = conn.execute("select skiplane.refresh_lanes(%s)", [state]).fetchone()
        assert row is not None
        state = Jsonb(row[0])


def numbered(conn: Connection, count: int) -> None:
    """Number what is to be inserted."""
    conn.execute("drop view if exists numbered")
    conn.execute(NUMBERED.format(count=count).encode())


def measure(call: Callable[[], None], rounds: int) -> list[float]:
    """Give the milliseconds of each call after a few that warm up."""
    times = []
    for n in range(rounds + 20):
        began = time.perf_counter()
        call()
        if n >= 20:
            times.append((time.perf_counter() - began) * 1000)
    return times


def claims(dsn: str, count: int, tenants: int, limits: tuple[int, ...], rounds: int) -> Times:
    """Time claims out of ``count`` ready tasks; each is rolled back, so that none is used up."""
    with database(dsn) as conn:
        numbered(conn, count)
        for statement in (LANES, TASKS, READY):
            conn.execute(statement.encode(), {"tenants": tenants})
        settle(conn)
        cursor: Any = None
        worker = uuid.uuid4()

        def claim(limit: int) -> None:
            nonlocal cursor
            with conn.transaction(force_rollback=True):
                row = conn.execute(CLAIM, [worker, limit, cursor]).fetchone()
            assert row is not None
            assert row[0] is not None
            cursor = Jsonb(row[1])

        return {limit: measure(partial(claim, limit), rounds) for limit in limits}


def promotions(dsn: str, count: int, limits: tuple[int, ...], rounds: int) -> Times:
    """Time promotions with ``count`` waiting; each is rolled back."""
    with database(dsn) as conn:
        numbered(conn, count)
        conn.execute(TIMERS.format(count=count).encode())
        settle(conn)

        def promote(limit: int) -> None:
            with conn.transaction(force_rollback=True):
                row = conn.execute(PROMOTE, [limit]).fetchone()
            assert row == (limit,)

        return {limit: measure(partial(promote, limit), rounds) for limit in limits}


def show(what: str, times: Times, base: Times | None = None) -> Times:
    """Print a line per batch size; give the times, the base of the next."""
    for limit, taken in times.items():
        median, late = statistics.median(taken), statistics.quantiles(taken, n=100)[98]
        ratio = ""
        if base:
            least = statistics.median(base[limit]), statistics.quantiles(base[limit], n=100)[98]
            ratio = f"{median / least[0]:.2f} / {late / least[1]:.2f}"
        print(f"{f'{what}, batch of {limit}':<46} {median:9.3f} {late:9.3f}   {ratio}", flush=True)
    return times


def main() -> None:
    """Measure all and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("dsn")
    parser.add_argument("--ready", type=int, default=5_000_000)
    parser.add_argument("--waiting", type=int, default=20_000_000)
    parser.add_argument("--tenants", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=400)
    asked = parser.parse_args()
    dsn, rounds = asked.dsn, asked.rounds
    print(f"{'milliseconds per call':<46} {'median':>9} {'p99':>9}   ratio of median / p99")
    base = show("claim, 10 tenants", claims(dsn, 100_000, 10, (1, 50), rounds))
    many = claims(dsn, 100_000, asked.tenants, (1, 50), rounds)
    show(f"claim, {asked.tenants:,} tenants", many, base)
    base = show("claim, 1,000 ready", claims(dsn, 1_000, 1, (1, 50), rounds))
    show(f"claim, {asked.ready:,} ready", claims(dsn, asked.ready, 1, (1, 50), rounds), base)
    base = show("promotion, 1,000 waiting", promotions(dsn, 1_000, (1, 100), rounds))
    many = promotions(dsn, asked.waiting, (1, 100), rounds)
    show(f"promotion, {asked.waiting:,} waiting", many, base)


if __name__ == "__main__":
    main()

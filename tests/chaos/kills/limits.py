"""Limits for the kill tests: set, and looked after while everything is killed."""

from typing import Any

import psycopg

Connection = psycopg.Connection[tuple[Any, ...]]

# Each of them is reached at times. The rate of quick ones is high enough to be counted in parts.
CONCURRENCY = {"slow": 36, "pooled": 4, "once": 5}
QUEUE_CONCURRENCY = 44
TENANT_CONCURRENCY = 42
RATES = {"quick": ("500/s", 400), "flaky": ("30/s", 5)}
BREAKER = ("doomed", 0.9, 1_000_000)

# In one statement: one snapshot shows all leases and all limits at one instant.
EXCEEDED = """
    with running as (
        select t.task_type, t.queue, t.tenant_id from skiplane.lease l
        cross join lateral unnest(l.ids, l.days) u (id, day)
        join skiplane.task t on t.id = u.id and t.day = u.day
    )
    select s.task_type, count(*), s.concurrency from running r
    join skiplane.task_type_setting s on s.task_type = r.task_type
    group by s.task_type, s.concurrency having count(*) > s.concurrency
    union all select s.queue, count(*), s.concurrency from running r
    join skiplane.queue_setting s on s.queue = r.queue
    group by s.queue, s.concurrency having count(*) > s.concurrency
    union all select s.tenant_id, count(*), s.concurrency from running r
    join skiplane.tenant_setting s on s.tenant_id = r.tenant_id
    group by s.tenant_id, s.concurrency having count(*) > s.concurrency
    union all select 'limits with places that nobody has', skiplane._drifted_limits(), 0
    where skiplane._drifted_limits() > 0"""

LEAKED = """
    select s.gate, s.held, coalesce(r.places, 0) from skiplane.gate_state s
    left join (select gate, sum(places) as places from skiplane.gate_release group by gate) r
        on r.gate = s.gate
    where s.gate not like 'rate|%' and s.held <> coalesce(r.places, 0)"""


def set_limits(conn: Connection) -> None:
    """Set limits of all kinds, and wait until they are in force."""
    for task_type, places in CONCURRENCY.items():
        conn.execute("select skiplane.set_task_type(%s, p_concurrency => %s)", [task_type, places])
    for task_type, (rate, burst) in RATES.items():
        conn.execute(
            "select skiplane.set_task_type(%s, p_rate_limit => %s, p_burst => %s)",
            [task_type, rate, burst],
        )
    conn.execute(
        "select skiplane.set_task_type(%s, p_breaker_threshold => %s, p_breaker_minimum => %s)",
        BREAKER,
    )
    conn.execute("select skiplane.set_queue('default', p_concurrency => %s)", [QUEUE_CONCURRENCY])
    conn.execute("select skiplane.set_tenant('default', p_concurrency => %s)", [TENANT_CONCURRENCY])
    while conn.execute("select from skiplane.flow_change").fetchall():
        conn.execute("select skiplane.refresh_flow()")


def exceeded(dsn: str) -> list[tuple[Any, ...]]:
    """Give limits of which more run than may just now, and whether any has lost count."""
    try:
        with psycopg.connect(dsn, autocommit=True) as conn:
            return conn.execute(EXCEEDED.encode()).fetchall()
    except psycopg.OperationalError:
        return []  # it is recovering from the kill before


def leaked(conn: Connection) -> list[tuple[Any, ...]]:
    """Give limits that hold places when nothing runs."""
    return conn.execute(LEAKED.encode()).fetchall()

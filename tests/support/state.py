"""What an engine holds, in short: for the report of a test that failed."""

from typing import Any, LiteralString

import psycopg

_MOST = 20
_QUERIES: tuple[LiteralString, ...] = (
    "select status, count(*) from skiplane.tasks group by status",
    "select task_id, task_type, status, attempt, started_at from skiplane.tasks"
    " where status not in ('SUCCEEDED', 'FAILED', 'CANCELLED', 'DEAD')",
    "select lane, id, due_at, fence from skiplane.ready order by lane, due_at",
    "select lane, task_type, created_at, closed_at, gated, held_by, held_until from skiplane.lane",
    "select lane, due_at, estimate, id from skiplane.lane_mark",
    "select lease_id, worker_id, until, ids, fences from skiplane.lease",
    "select worker_id, name, heartbeat_at from skiplane.worker",
    "select pid, application_name, state, wait_event, clock_timestamp() - query_start,"
    " left(query, 120) from pg_stat_activity where datname = current_database()",
    "select pid, locktype, classid, objid, mode, granted from pg_locks"
    " where not granted or locktype = 'advisory'",
)


def state(dsn: str) -> str:
    """Give a few rows of everything that moves; what cannot be read is said."""
    lines = []
    try:
        with psycopg.connect(dsn, autocommit=True, connect_timeout=5) as conn:
            conn.execute("set statement_timeout = '5s'")
            lines.append(f"now: {conn.execute('select clock_timestamp()').fetchone()}")
            for query in _QUERIES:
                lines += [query, *_rows(conn, query)]
    except psycopg.Error as error:
        lines.append(f"cannot be read: {error}")
    return "\n".join(lines)


def _rows(conn: psycopg.Connection[Any], query: LiteralString) -> list[str]:
    found = conn.execute(query).fetchmany(_MOST)
    return ["    " + " | ".join(map(str, row)) for row in found] or ["    nothing"]

"""What must hold after any number of kills: each query finds what breaks a rule."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psycopg

from skiplane.tests.chaos.kills.tasks import marks

Connection = psycopg.Connection[tuple[Any, ...]]

EMPTY = ("ready", "lease", "timer", "timer_far", "blocked", "schedule_queue")

# The kinds of tasks and how they end when nobody cancels them.
ENDS = """
    (case t.task_type when 'hopeless' then 'FAILED' when 'doomed' then 'DEAD'
        when 'late' then 'DEAD' when 'late_pooled' then 'DEAD' else 'SUCCEEDED' end)
    ::skiplane.task_status"""

# How tasks end that did not run because of others in their workflow.
FOLLOWS = "(o.attempt = 0 and o.error_type in ('UpstreamFailed', 'Skipped'))"

# Tasks of workflows that somebody has run again: a fresh budget, and what has run stays.
RETRIED = """exists (
    select from skiplane.workflow_task w join retry_wanted r on r.id = w.workflow_id
    where w.id = {})"""

RULES = {
    "an acknowledged task exists": """
        select a.* from acknowledged a
        where not exists (select from skiplane.task t where t.id = a.id)""",
    "a task is stored once": """
        select id from skiplane.task group by id having count(*) > 1""",
    "a task has exactly one outcome": """
        select t.id, count(o.id) from skiplane.task t left join skiplane.outcome o on o.id = t.id
        group by t.id having count(o.id) <> 1""",
    "an outcome has its task, in its partition": """
        select o.id from skiplane.outcome o
        where not exists (select from skiplane.task t where t.id = o.id and t.day = o.day)""",
    "a key gave one task": """
        select idempotency_key from skiplane.task where idempotency_key is not null
        group by idempotency_key having count(*) > 1""",
    "a key was always answered with the same task": """
        select a.key, i.task_id, a.id from acknowledged a
        left join skiplane.idempotency i on i.key = a.key
        where a.key <> '-' and i.task_id is distinct from a.id""",
    "a key leads to its task": """
        select i.key from skiplane.idempotency i
        where not exists (
            select from skiplane.task t where t.id = i.task_id and t.idempotency_key = i.key)
            and not exists (
                select from skiplane.workflow w
                where w.id = i.task_id and w.idempotency_key = i.key)""",
    "a success wrote exactly once, anything else nothing": """
        select t.id, o.status, count(e.task_id) from skiplane.task t
        join skiplane.outcome o on o.id = t.id left join effect e on e.task_id = t.id
        where t.task_type in ('once', 'once_pooled') group by t.id, o.status
        having count(e.task_id) <> (case o.status when 'SUCCEEDED' then 1 else 0 end)""",
    "what was written is of the claim that succeeded": """
        select e.* from effect e
        left join skiplane.outcome o on o.id = e.task_id and o.fence = e.fence
        where o.id is null""",
    "attempts grow with fences": f"""
        select a.id, a.fence, a.attempt from (
            select x.*, lag(x.attempt) over (partition by x.id order by x.fence) as previous
            from skiplane.attempt x) a
        where a.attempt <= a.previous and not {RETRIED.format("a.id")}""",
    "the outcome has the last fence": f"""
        select o.id, o.status, o.fence, a.fence
        from skiplane.outcome o join skiplane.attempt a on a.id = o.id
        where a.fence > o.fence
            or (a.fence = o.fence and (o.status = 'SUCCEEDED' or a.attempt <> o.attempt)
                and not {RETRIED.format("a.id")})""",
    "no budget is overdrawn": """
        select t.id, t.max_retries, o.attempt
        from skiplane.task t join skiplane.outcome o on o.id = t.id
        where o.attempt > t.max_retries + 1 + least(t.max_retries, (
            select count(*) from skiplane.attempt a where a.id = t.id and a.excused))""",
    "dead letters are the dead tasks": """
        select coalesce(o.id, d.id) from (select * from skiplane.outcome where status = 'DEAD') o
        full join skiplane.dead d on d.id = o.id where o.id is null or d.id is null""",
    "a task ends as its kind does, unless somebody wanted it cancelled": f"""
        select t.id, t.task_type, o.status, o.error_type, o.error_message
        from skiplane.task t join skiplane.outcome o on o.id = t.id
        where o.status <> {ENDS} and not (o.status = 'CANCELLED' and (t.task_type = 'replaceable'
            or exists (select from cancel_wanted c where c.id = t.id)))
            and not {FOLLOWS}""",
    "what was said to be cancelled is": """
        select c.id, o.status from cancelled c left join skiplane.outcome o on o.id = c.id
        where o.status is distinct from 'CANCELLED'""",
    "a fire happened once": """
        select schedule_id, fire_time from skiplane.fire group by 1, 2 having count(*) > 1""",
    "no fire was lost: each schedule has one for each second": """
        select schedule_id, min(fire_time), max(fire_time), count(*) from skiplane.fire group by 1
        having count(*) <> extract(epoch from max(fire_time) - min(fire_time)) + 1""",
    "no schedule stopped": """
        select s.name, s.status, s.reason, max(f.fire_time) from skiplane.schedule s
        left join skiplane.fire f on f.schedule_id = s.id
        group by s.id, s.name, s.status, s.reason
        having s.status <> 'PAUSED' or max(f.fire_time) is null or max(f.fire_time)
            < (select max(fire_time) from skiplane.fire) - interval '2 seconds'""",
    "a fire has its task, and a task its fire": """
        select f.*, t.id from skiplane.fire f
        full join (select * from skiplane.task where metadata ? 'cron_id') t on t.id = f.task_id
        where t.id is null and f.outcome <> 'skipped' or f.schedule_id is null""",
    "an end is not before its start": """
        select id from skiplane.outcome where finished_at < started_at""",
    "an acknowledged workflow exists, once for its key": """
        select a.* from workflow_acknowledged a
        where (select count(*) from skiplane.workflow w
            where w.id = a.id and w.idempotency_key = a.key) <> 1""",
    "every workflow has ended, counted right, with the state that its tasks tell": """
        select s.*, c.* from skiplane.workflow_state s
        cross join lateral (
            select count(*) filter (where o.id is null) as pending,
                count(*) filter (where o.status in ('FAILED', 'DEAD')) as failed,
                count(*) filter (
                    where o.status = 'CANCELLED' and o.error_type <> 'Skipped') as cancelled
            from skiplane.workflow_task m left join skiplane.outcome o on o.id = m.id
            where m.workflow_id = s.id
        ) c
        where s.pending <> 0 or s.completed_at is null
            or (s.pending, s.failed, s.cancelled) <> (c.pending, c.failed, c.cancelled)
            or s.status <> case when s.stopped then 'CANCELLED' when c.failed > 0 then 'FAILED'
                when c.cancelled > 0 then 'CANCELLED' else 'SUCCEEDED' end""",
    "a task of a workflow ran when its dependencies let it, and else ended because of them": f"""
        select m.id, m.name, m.run_when, o.status, o.error_type, c.*
        from skiplane.workflow_task m join skiplane.outcome o on o.id = m.id
        cross join lateral (
            select count(*) filter (
                    where p.status <> 'SUCCEEDED' and p.error_type is distinct from 'Skipped'
                ) as failed,
                count(*) filter (
                    where p.status = 'CANCELLED' and p.error_type = 'Skipped') as skipped
            from unnest(m.parents) u (id) join skiplane.outcome p on p.id = u.id
        ) c
        where o.error_type is distinct from 'Cancelled' and not {RETRIED.format("m.id")}
            and case when {FOLLOWS} then o.error_type else 'ran' end <> case
                when m.run_when is null and c.failed > 0 then 'UpstreamFailed'
                when m.run_when is null and c.skipped > 0 then 'Skipped'
                when m.run_when = 'any_failed' and c.failed = 0 then 'Skipped' else 'ran' end""",
    "a task of a workflow began after all that it waited for": f"""
        select m.id, m.name, o.started_at, p.finished_at
        from skiplane.workflow_task m join skiplane.outcome o on o.id = m.id
        cross join lateral unnest(m.parents) u (id) join skiplane.outcome p on p.id = u.id
        where m.run_when is distinct from 'any_failed' and o.started_at < p.finished_at
            and not {RETRIED.format("m.id")}""",
}

# In one statement: one snapshot shows the whole engine at one instant.
MISPLACED = """
    with place as (
        select id, 'timer' as name from skiplane.timer
        union all select id, 'timer_far' from skiplane.timer_far
        union all select id, 'ready' from skiplane.ready
        union all select u.id, 'lease' from skiplane.lease, unnest(ids) u (id)
        union all select id, 'blocked' from skiplane.blocked
        union all select id, 'outcome' from skiplane.outcome
    )
    select coalesce(p.id, t.id), array_agg(p.name), count(t.id) from place p
    full join skiplane.task t on t.id = p.id
    group by 1 having count(p.name) <> 1 or (count(t.id) = 0 and min(p.name) not like 'timer%')
    limit 10"""

FIGURES = """
    select * from (
        select 'tasks ' || status, count(*) from skiplane.outcome group by status
        union all select 'attempts ended by ' || outcome, count(*)
        from skiplane.attempt group by outcome
        union all select 'claims', sum(fence) from skiplane.outcome
        union all select 'most claims of one task', max(fence) from skiplane.outcome
        union all select 'workflows ' || status, count(*)
        from skiplane.workflow_state group by status
        union all select 'workflows run again', count(*) from skiplane.action where verb = 'retry'
        union all select 'tasks ended because of others', count(*)
        from skiplane.outcome where attempt = 0 and error_type in ('UpstreamFailed', 'Skipped')
        union all select 'exactly-once writes', count(*) from effect
        union all select 'fires ' || outcome, count(*) from skiplane.fire group by outcome
    ) f order by 1"""


def summary(conn: Connection, kills: Mapping[str, int]) -> list[str]:
    """Give a few lines on what happened."""
    figures = [f"{name}: {number}" for name, number in conn.execute(FIGURES.encode())]
    return [*figures, *(f"killed {name}: {number}" for name, number in sorted(kills.items()))]


def misplaced(dsn: str) -> list[tuple[Any, ...]]:
    """Give tasks that are in no place or in two just now, or in one without their row."""
    try:
        with psycopg.connect(dsn, autocommit=True) as conn:
            return conn.execute(MISPLACED.encode()).fetchall()
    except psycopg.OperationalError:
        return []  # it is recovering from the kill before


def broken_rules(conn: Connection, folder: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Give each broken rule with some rows that break it."""
    _load(conn, folder, "acknowledged", "id uuid, task_type text, key text")
    _load(conn, folder, "workflow_acknowledged", "id uuid, key text")
    _load(conn, folder, "cancel_wanted", "id uuid")
    _load(conn, folder, "cancelled", "id uuid")
    _load(conn, folder, "retry_wanted", "id uuid")
    found = {
        rule: conn.execute(query.encode() + b" limit 10").fetchall()
        for rule, query in RULES.items()
    }
    found["a saved checkpoint is what the next attempt begins with"] = _forgotten(folder)
    for table in EMPTY:
        rows = conn.execute(f"select * from skiplane.{table} limit 10".encode())
        found[f"nothing is left in {table}"] = rows.fetchall()
    return {rule: rows for rule, rows in found.items() if rows}


def _load(conn: Connection, folder: Path, name: str, columns: str) -> None:
    conn.execute(f"create temp table {name} ({columns})".encode())
    with conn.cursor() as cursor, cursor.copy(f"copy {name} from stdin".encode()) as copy:
        for words in marks(folder, name):
            copy.write_row(words)


def _forgotten(folder: Path) -> list[tuple[Any, ...]]:
    saved: dict[str, list[tuple[int, int]]] = {}
    for task_id, fence, done in marks(folder, "saved"):
        saved.setdefault(task_id, []).append((int(fence), int(done)))
    return [
        (task_id, fence, done)
        for task_id, fence, done in marks(folder, "begun")
        if any(f < int(fence) and d > int(done) for f, d in saved.get(task_id, []))
    ]

-- The first columns are the contract; what follows them may grow.
create or replace view skiplane.cron_tasks as
select
    s.id as cron_id,
    s.name,
    s.expression as cron_expression,
    s.zone as timezone,
    s.task_type,
    s.payload,
    s.queue,
    s.priority,
    coalesce(s.max_retries, 3::smallint) as max_retries,
    s.timeout_s as timeout_seconds,
    s.overlap_policy,
    s.status <> 'PAUSED' as enabled,
    s.last_fired_at,
    s.next_fire_time,
    s.tenant_id,
    s.created_at,
    s.status,
    s.reason,
    s.missed_policy,
    s.missed_limit,
    s.jitter_s as jitter_seconds,
    s.start_at,
    s.end_at,
    s.last_fire_time,
    s.last_task_id,
    s.queued,
    s.version,
    s.owner
from skiplane.schedule s;

comment on view skiplane.cron_tasks is 'Cron schedules with their state; a filter on cron_id, or on tenant_id with name, is answered from an index.';

create or replace view skiplane.cron_fires as
select
    f.schedule_id as cron_id,
    f.fire_time,
    f.fired_at,
    f.outcome,
    f.task_id,
    f.reason
from skiplane.fire f;

comment on view skiplane.cron_fires is 'History of fires; fired_at minus fire_time is the drift. A filter on cron_id is answered from an index.';

-- Cron: definitions that make tasks at the times of an expression, and the history of what they made.
-- States: ACTIVE (next_fire_time NULL: the scheduler has to read the expression first), PAUSED, INVALID, ENDED.
-- next_fire_time only grows and each fire moves it past itself, so no fire time can come twice.
create table skiplane.schedule (
    id uuid not null,
    shard smallint not null,
    tenant_id text not null,
    name text not null,
    expression text not null,
    zone text not null,
    status text not null check (status in ('ACTIVE', 'PAUSED', 'INVALID', 'ENDED')),
    reason text,
    next_fire_time timestamptz,
    since timestamptz not null,
    last_fire_time timestamptz,
    last_fired_at timestamptz,
    last_task_id uuid,
    queued integer not null default 0 check (queued >= 0),
    check_at timestamptz,
    overlap_policy text not null check (overlap_policy in ('skip', 'queue', 'cancel_running')),
    missed_policy text not null check (missed_policy in ('skip', 'once', 'all')),
    missed_limit integer not null check (missed_limit between 1 and 1000),
    jitter_s double precision not null check (jitter_s >= 0),
    start_at timestamptz,
    end_at timestamptz,
    task_type text not null,
    payload json not null,
    queue text not null,
    priority smallint not null check (priority in (0, 5, 10)),
    concurrency_key text,
    estimate integer,
    max_retries smallint,
    retry_backoff text,
    retry_delay_s double precision,
    retry_max_delay_s double precision,
    retry_jitter text,
    timeout_s double precision,
    callback_url text,
    metadata jsonb,
    owner text,
    version integer not null default 1,
    created_at timestamptz not null,
    check (next_fire_time is null or status = 'ACTIVE'),
    -- What the scheduler cannot read would stop all that it takes together with it.
    constraint readable_times check (
        greatest(next_fire_time, last_fire_time, since, start_at, end_at) < '10000-01-01 00:00:00+00'
        and least(next_fire_time, last_fire_time, since, start_at, end_at) > '1900-01-01 00:00:00+00'
    ),
    constraint fires_only_once check (next_fire_time > last_fire_time),
    primary key (id, shard),
    unique (tenant_id, name, shard)
);

comment on table skiplane.schedule is 'Cron schedules: what to make a task of, when, and how far they have come.';
comment on column skiplane.schedule.id is 'UUIDv7 that carries the shard label, from a hash of tenant and name; its tasks are on the same shard.';
comment on column skiplane.schedule.shard is 'Shard label.';
comment on column skiplane.schedule.tenant_id is 'Tenant of the schedule and of its tasks.';
comment on column skiplane.schedule.name is 'Name, unique per tenant.';
comment on column skiplane.schedule.expression is 'Cron expression: 5 fields, or 6 with seconds last.';
comment on column skiplane.schedule.zone is 'IANA zone in which the expression is read.';
comment on column skiplane.schedule.status is 'ACTIVE, PAUSED (by somebody), INVALID (see reason) or ENDED (no fire before end_at is left).';
comment on column skiplane.schedule.reason is 'Why it is INVALID or ENDED.';
comment on column skiplane.schedule.next_fire_time is 'Next fire; NULL when there is none, or when an ACTIVE one waits for the scheduler to compute it.';
comment on column skiplane.schedule.since is 'When it was created, changed in its times or resumed: fires are counted from here.';
comment on column skiplane.schedule.last_fire_time is 'Fire time (as scheduled) up to which all is done.';
comment on column skiplane.schedule.last_fired_at is 'When the last fire happened.';
comment on column skiplane.schedule.last_task_id is 'Task that was last let run.';
comment on column skiplane.schedule.queued is 'Tasks that wait until the one before them has ended.';
comment on column skiplane.schedule.check_at is 'When to look again whether a queued task may run.';
comment on column skiplane.schedule.overlap_policy is 'What a fire does while the task before it has not ended: skip, queue or cancel_running.';
comment on column skiplane.schedule.missed_policy is 'What becomes of fires that nobody was there for: skip, once (the last of them) or all (the last missed_limit).';
comment on column skiplane.schedule.missed_limit is 'How many missed fires at most run later under the policy all.';
comment on column skiplane.schedule.jitter_s is 'Each task is delayed by a random time up to so many seconds.';
comment on column skiplane.schedule.start_at is 'No fire before.';
comment on column skiplane.schedule.end_at is 'No fire after.';
comment on column skiplane.schedule.task_type is 'As in task.';
comment on column skiplane.schedule.payload is 'As in task.';
comment on column skiplane.schedule.queue is 'As in task.';
comment on column skiplane.schedule.priority is 'As in task.';
comment on column skiplane.schedule.concurrency_key is 'As in task.';
comment on column skiplane.schedule.estimate is 'As in task.';
comment on column skiplane.schedule.max_retries is 'As in task.';
comment on column skiplane.schedule.retry_backoff is 'As in task.';
comment on column skiplane.schedule.retry_delay_s is 'As in task.';
comment on column skiplane.schedule.retry_max_delay_s is 'As in task.';
comment on column skiplane.schedule.retry_jitter is 'As in task.';
comment on column skiplane.schedule.timeout_s is 'As in task.';
comment on column skiplane.schedule.callback_url is 'As in task.';
comment on column skiplane.schedule.metadata is 'As in task; each task also gets cron_id, cron_name and fire_time.';
comment on column skiplane.schedule.owner is 'App whose code declares it and whose sync keeps it so; NULL = made by a caller.';
comment on column skiplane.schedule.version is 'Grows with each change by somebody; an edit names the version that it saw.';
comment on column skiplane.schedule.created_at is 'When it was created.';

-- What the scheduler walks. Each of the three holds only rows that its loop has to look at.
create index schedule_due on skiplane.schedule (shard, next_fire_time) where next_fire_time is not null;
create index schedule_unread on skiplane.schedule (shard, id) where next_fire_time is null and status = 'ACTIVE';
create index schedule_waiting on skiplane.schedule (shard, check_at) where check_at is not null;
create index schedule_owner on skiplane.schedule (owner, tenant_id, name) where owner is not null;
create index schedule_unusual on skiplane.schedule (status, id) where status <> 'ACTIVE';

alter table skiplane.schedule set (
    autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0
);

-- Tasks of policy queue: SCHEDULED for a day that never comes, until the one before them has ended.
create table skiplane.schedule_queue (
    schedule_id uuid not null,
    fire_time timestamptz not null,
    shard smallint not null,
    task_id uuid not null,
    primary key (schedule_id, fire_time, shard)
);

comment on table skiplane.schedule_queue is 'Fires whose task waits until the one before it has ended, in the order of their times.';
comment on column skiplane.schedule_queue.schedule_id is 'Schedule.';
comment on column skiplane.schedule_queue.fire_time is 'Fire time.';
comment on column skiplane.schedule_queue.shard is 'Shard label.';
comment on column skiplane.schedule_queue.task_id is 'Its task.';

create table skiplane.fire (
    schedule_id uuid not null,
    fire_time timestamptz not null,
    shard smallint not null,
    day date not null,
    fired_at timestamptz not null,
    outcome text not null check (outcome in ('fired', 'queued', 'replaced', 'skipped', 'missed', 'manual')),
    task_id uuid,
    reason text,
    check ((task_id is not null) = (outcome in ('fired', 'queued', 'replaced', 'manual'))),
    primary key (schedule_id, fire_time, shard, day)
) partition by range (day);

comment on table skiplane.fire is 'History of fires, in partitions by the UTC day on which they happened; dropped with the tasks of the day.';
comment on column skiplane.fire.schedule_id is 'Schedule.';
comment on column skiplane.fire.fire_time is 'When it was to fire; of what was missed, the first time.';
comment on column skiplane.fire.shard is 'Shard label.';
comment on column skiplane.fire.day is 'UTC day of fired_at: the partition key.';
comment on column skiplane.fire.fired_at is 'When it happened.';
comment on column skiplane.fire.outcome is 'fired, queued (runs after the one before), replaced (the one before was cancelled), skipped (the one before had not ended), missed (nobody was there in time) or manual.';
comment on column skiplane.fire.task_id is 'Task that it made.';
comment on column skiplane.fire.reason is 'More about it.';

-- What is to become of one schedule, as the scheduler has computed it.
create type skiplane.fire_move as (
    id uuid,
    was timestamptz,
    fire timestamptz,
    next timestamptz,
    catch_up boolean,
    missed boolean,
    error text,
    outcome text
);

comment on type skiplane.fire_move is 'One step of a schedule: from next_fire_time "was", over the fire that it makes, if any, to the next.';

-- What waits for a time: SCHEDULED tasks whole, RETRYING ones without payload (their task row exists already).
-- Partitioned by the UTC day of the due time; what lies beyond the prepared partitions waits in timer_far and is
-- moved in as partitions are made. No DEFAULT partition: a stray row in one would block all later maintenance.
create table skiplane.timer (
    id uuid not null,
    shard smallint not null,
    due_at timestamptz not null,
    status skiplane.task_status not null check (status in ('SCHEDULED', 'RETRYING')),
    day date,
    attempt smallint not null default 0,
    fence integer not null default 0,
    task_type text not null,
    queue text not null,
    priority smallint not null,
    tenant_id text not null,
    concurrency_key text,
    estimate integer,
    payload json,
    max_retries smallint,
    retry_backoff text,
    retry_delay_s double precision,
    retry_max_delay_s double precision,
    retry_jitter text,
    timeout_s double precision,
    idempotency_key text,
    expires_at timestamptz,
    callback_url text,
    metadata jsonb,
    workflow_id uuid,
    version integer not null default 1,
    scheduled_at timestamptz,
    created_at timestamptz,
    check ((status = 'SCHEDULED') = (payload is not null)),
    primary key (id, shard, due_at)
) partition by range (due_at);

-- The time first: with the shard first, a look-up by id and shard was planned as a walk over the whole index.
create index timer_due on skiplane.timer (due_at, shard);

comment on table skiplane.timer is 'Tasks that wait for a time, in partitions by due day.';
comment on column skiplane.timer.id is 'Task id.';
comment on column skiplane.timer.shard is 'Shard label.';
comment on column skiplane.timer.due_at is 'When it becomes PENDING.';
comment on column skiplane.timer.status is 'SCHEDULED or RETRYING.';
comment on column skiplane.timer.day is 'Partition of the task row of a RETRYING task; NULL for a SCHEDULED one, which has none yet.';
comment on column skiplane.timer.attempt is 'Attempts charged so far.';
comment on column skiplane.timer.fence is 'Claims so far.';
comment on column skiplane.timer.task_type is 'As in task.';
comment on column skiplane.timer.queue is 'As in task.';
comment on column skiplane.timer.priority is 'As in task.';
comment on column skiplane.timer.tenant_id is 'As in task.';
comment on column skiplane.timer.concurrency_key is 'As in task.';
comment on column skiplane.timer.estimate is 'As in task.';
comment on column skiplane.timer.payload is 'As in task; NULL for a RETRYING one.';
comment on column skiplane.timer.max_retries is 'As in task.';
comment on column skiplane.timer.retry_backoff is 'As in task.';
comment on column skiplane.timer.retry_delay_s is 'As in task.';
comment on column skiplane.timer.retry_max_delay_s is 'As in task.';
comment on column skiplane.timer.retry_jitter is 'As in task.';
comment on column skiplane.timer.timeout_s is 'As in task.';
comment on column skiplane.timer.idempotency_key is 'As in task.';
comment on column skiplane.timer.expires_at is 'As in task.';
comment on column skiplane.timer.callback_url is 'As in task.';
comment on column skiplane.timer.metadata is 'As in task.';
comment on column skiplane.timer.workflow_id is 'As in task.';
comment on column skiplane.timer.version is 'As in task.';
comment on column skiplane.timer.scheduled_at is 'As in task.';
comment on column skiplane.timer.created_at is 'As in task.';

create table skiplane.timer_far (like skiplane.timer including defaults including constraints including comments);
alter table skiplane.timer_far add primary key (id, shard, due_at);
create index timer_far_due on skiplane.timer_far (due_at, shard);
comment on table skiplane.timer_far is 'Tasks due after the last prepared timer partition.';

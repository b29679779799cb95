-- The wide, write-once part of a task, and how it ended. Partitioned by the UTC day on which the task became
-- active, so that retention drops partitions and nobody vacuums history.
-- Options that were not given are stored as NULL, meaning the engine's default: a plain task stays small.
-- No CHECKs on task: PostgreSQL parses each one anew for every statement, which made a tenth of a single submit. The only
-- writers are functions, and _check_options holds the rules.
create table skiplane.task (
    id uuid not null,
    shard smallint not null,
    day date not null,
    task_type text not null,
    queue text not null,
    priority smallint not null,
    tenant_id text not null,
    concurrency_key text,
    estimate integer,
    payload json not null,
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
    scheduled_at timestamptz not null,
    created_at timestamptz not null,
    primary key (id, shard, day)
) partition by range (day);

comment on table skiplane.task is 'What was submitted, once it became active. Written once; an edit before the start is the only update.';
comment on column skiplane.task.id is 'UUIDv7 that carries the shard label in bits 66 to 79.';
comment on column skiplane.task.shard is 'Shard label: everything about one task is on one shard.';
comment on column skiplane.task.day is 'UTC day on which the task became active: the partition key.';
comment on column skiplane.task.task_type is 'Name of the task function.';
comment on column skiplane.task.queue is 'Queue that it waits in.';
comment on column skiplane.task.priority is '10 high, 5 medium, 0 low.';
comment on column skiplane.task.tenant_id is 'Tenant that it belongs to.';
comment on column skiplane.task.concurrency_key is 'Tasks that share it share a concurrency limit.';
comment on column skiplane.task.estimate is 'Estimated duration in milliseconds; NULL = unknown, sorts last among equals.';
comment on column skiplane.task.payload is 'Arguments, any JSON value.';
comment on column skiplane.task.max_retries is 'Retries after the first attempt; NULL = 3.';
comment on column skiplane.task.retry_backoff is 'exponential, linear or fixed; NULL = exponential.';
comment on column skiplane.task.retry_delay_s is 'Base delay in seconds; NULL = 5.';
comment on column skiplane.task.retry_max_delay_s is 'Longest delay in seconds; NULL = 3600.';
comment on column skiplane.task.retry_jitter is 'full, equal, decorrelated or none; NULL = equal.';
comment on column skiplane.task.timeout_s is 'Longest execution of one attempt in seconds; NULL = no limit.';
comment on column skiplane.task.idempotency_key is 'Key under which the submission happens once per tenant.';
comment on column skiplane.task.expires_at is 'The task never starts after this instant.';
comment on column skiplane.task.callback_url is 'URL to be told about the end.';
comment on column skiplane.task.metadata is 'Tenant, correlation id, trace context, tags as submitted.';
comment on column skiplane.task.workflow_id is 'Workflow that the task is part of.';
comment on column skiplane.task.version is 'Grows with each edit; an edit names the version that it saw.';
comment on column skiplane.task.scheduled_at is 'When it was to run (as submitted or edited).';
comment on column skiplane.task.created_at is 'When it was submitted.';

create index task_tenant on skiplane.task (tenant_id, id);
create index task_workflow on skiplane.task (workflow_id) where workflow_id is not null;

create table skiplane.outcome (
    id uuid not null,
    shard smallint not null,
    day date not null,
    status skiplane.task_status not null check (status in ('SUCCEEDED', 'FAILED', 'CANCELLED', 'DEAD')),
    attempt smallint not null,
    fence integer not null,
    started_at timestamptz,
    finished_at timestamptz not null,
    worker_id uuid,
    result json,
    error_type text,
    error_message text,
    primary key (id, shard, day)
) partition by range (day);

comment on table skiplane.outcome is 'How a task ended: one row per terminal task, in the partition of its task.';
comment on column skiplane.outcome.id is 'Task id.';
comment on column skiplane.outcome.shard is 'Shard label.';
comment on column skiplane.outcome.day is 'Partition key: the day of the task row.';
comment on column skiplane.outcome.status is 'SUCCEEDED, FAILED, CANCELLED or DEAD.';
comment on column skiplane.outcome.attempt is 'Attempts that were charged.';
comment on column skiplane.outcome.fence is 'Number of the last claim.';
comment on column skiplane.outcome.started_at is 'Start of the last attempt; NULL when it never started.';
comment on column skiplane.outcome.finished_at is 'When it ended.';
comment on column skiplane.outcome.worker_id is 'Worker of the last attempt.';
comment on column skiplane.outcome.result is 'Return value of a success.';
comment on column skiplane.outcome.error_type is 'Class of the error, or Expired, Cancelled.';
comment on column skiplane.outcome.error_message is 'Reason of a failure or cancellation.';

create index outcome_unhappy on skiplane.outcome (id) where status <> 'SUCCEEDED';
create index outcome_finished on skiplane.outcome (finished_at);

create table skiplane.attempt (
    id uuid not null,
    shard smallint not null,
    day date not null,
    fence integer not null,
    attempt smallint not null,
    outcome text not null check (outcome in ('error', 'permanent', 'timeout', 'lost', 'cancelled')),
    worker_id uuid,
    started_at timestamptz,
    finished_at timestamptz not null,
    error_type text,
    error_message text,
    error_detail text,
    retry_delay_s double precision,
    excused boolean not null default false,
    primary key (id, shard, day, fence)
) partition by range (day);

comment on table skiplane.attempt is 'Attempts that did not succeed; a success at the first try costs no row here.';
comment on column skiplane.attempt.id is 'Task id.';
comment on column skiplane.attempt.shard is 'Shard label.';
comment on column skiplane.attempt.day is 'Partition key: the day of the task row.';
comment on column skiplane.attempt.fence is 'Number of the claim: grows with every claim of the task and is never reset.';
comment on column skiplane.attempt.attempt is 'Number of the attempt within its budget; starts again after a manual retry.';
comment on column skiplane.attempt.outcome is 'error, permanent, timeout, lost (its worker died or lost the lease) or cancelled.';
comment on column skiplane.attempt.worker_id is 'Worker that ran it.';
comment on column skiplane.attempt.started_at is 'Start.';
comment on column skiplane.attempt.finished_at is 'End.';
comment on column skiplane.attempt.error_type is 'Class of the error.';
comment on column skiplane.attempt.error_message is 'Message of the error.';
comment on column skiplane.attempt.error_detail is 'Traceback or other detail.';
comment on column skiplane.attempt.retry_delay_s is 'Delay chosen before the next attempt, seconds; NULL when none followed.';
comment on column skiplane.attempt.excused is 'Lost, probably not by its own doing: as many of these as it has retries come on top of them.';

create index attempt_finished on skiplane.attempt (finished_at);

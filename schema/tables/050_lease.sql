-- Who runs what. A claim gives one lease for its whole batch; the lease shrinks as tasks finish and goes with the last.
create table skiplane.worker (
    worker_id uuid primary key,
    name text not null,
    queues text[] not null,
    task_types text[],
    concurrency integer not null,
    host text,
    pid integer,
    supervisor_id uuid,
    lease_seconds double precision not null,
    started_at timestamptz not null,
    heartbeat_at timestamptz not null,
    draining boolean not null default false,
    drained_by text
) with (fillfactor = 50);

comment on table skiplane.worker is 'Worker processes; the id is new with every start.';
comment on column skiplane.worker.worker_id is 'Identity of one process start.';
comment on column skiplane.worker.name is 'Name for people.';
comment on column skiplane.worker.queues is 'Queues that it serves.';
comment on column skiplane.worker.task_types is 'Types that it takes; NULL = all.';
comment on column skiplane.worker.concurrency is 'Tasks that it runs at once.';
comment on column skiplane.worker.host is 'Host name.';
comment on column skiplane.worker.pid is 'Process id on its host.';
comment on column skiplane.worker.supervisor_id is 'Supervisor that started it.';
comment on column skiplane.worker.lease_seconds is 'Length of its leases.';
comment on column skiplane.worker.started_at is 'Start.';
comment on column skiplane.worker.heartbeat_at is 'Last sign of life.';
comment on column skiplane.worker.draining is 'Somebody asked it to take no more.';
comment on column skiplane.worker.drained_by is 'Who asked: the given actor, or the database role.';

create sequence skiplane.lease_number;
comment on sequence skiplane.lease_number is 'Numbers of leases.';

create table skiplane.lease (
    lease_id bigint not null,
    shard smallint not null,
    worker_id uuid not null,
    until timestamptz not null,
    claimed_at timestamptz not null,
    kill_at timestamptz,
    ids uuid[] not null check (cardinality(ids) > 0),
    days date[] not null,
    attempts smallint[] not null,
    fences integer[] not null,
    started timestamptz[] not null,
    workflows boolean not null default false,
    hold_ids uuid[],
    hold_gates text[],
    callbacks boolean not null default false,
    primary key (lease_id, shard)
);

comment on table skiplane.lease is 'One row per claimed batch. A task that is in a lease is RUNNING.';
comment on column skiplane.lease.lease_id is 'Number of the lease: the right to finish.';
comment on column skiplane.lease.shard is 'Shard label.';
comment on column skiplane.lease.worker_id is 'Holder.';
comment on column skiplane.lease.until is 'Ends here unless extended; judged by the clock of the database alone.';
comment on column skiplane.lease.claimed_at is 'When the batch was claimed.';
comment on column skiplane.lease.kill_at is 'Earliest time-out of its tasks plus the grace: the watchdog looks then. NULL when none has a time-out.';
comment on column skiplane.lease.ids is 'Tasks.';
comment on column skiplane.lease.days is 'Partitions of their task rows, in the same order.';
comment on column skiplane.lease.attempts is 'Their attempt numbers, this one included.';
comment on column skiplane.lease.fences is 'Their claim numbers.';
comment on column skiplane.lease.started is 'When execution began, as reported by heartbeats; NULL elements are not known.';
comment on column skiplane.lease.workflows is 'Whether a task of a workflow is among them.';
comment on column skiplane.lease.hold_ids is 'Tasks that hold a place of a limit, once for each, where an element that is NULL stands for all tasks of the lease; NULL when none does. Whoever takes a task out of the lease gives its places back.';
comment on column skiplane.lease.hold_gates is 'The limits, in the same order.';
comment on column skiplane.lease.callbacks is 'Whether a task with a callback_url is among them.';

create index lease_until on skiplane.lease (shard, until);
create index lease_worker on skiplane.lease (worker_id);
create index lease_kill on skiplane.lease (shard, kill_at) where kill_at is not null;

alter table skiplane.lease set (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0
);
alter table skiplane.worker set (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0
);

create table skiplane.checkpoint (
    id uuid not null,
    shard smallint not null,
    checkpoint jsonb,
    share real check (share >= 0 and share <= 1),
    message text,
    updated_at timestamptz not null,
    primary key (id, shard)
) with (fillfactor = 70);

comment on table skiplane.checkpoint is 'Checkpoint and progress that a running task saved; a retry starts from there.';
comment on column skiplane.checkpoint.id is 'Task id.';
comment on column skiplane.checkpoint.shard is 'Shard label.';
comment on column skiplane.checkpoint.checkpoint is 'What the task saved for its retry.';
comment on column skiplane.checkpoint.share is 'Progress from 0 to 1.';
comment on column skiplane.checkpoint.message is 'Progress in words.';
comment on column skiplane.checkpoint.updated_at is 'Last change.';

create index checkpoint_updated on skiplane.checkpoint using brin (updated_at);

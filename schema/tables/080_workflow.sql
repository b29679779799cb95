-- Workflows: tasks that wait for each other. A workflow's tasks have consecutive ids after its own, so that they share
-- its shard and are found as a range; their task rows are there from the start, as those of any task.
-- Partitioned by the UTC day of the submission, and dropped with the tasks of that day.
create table skiplane.workflow (
    id uuid not null,
    shard smallint not null,
    day date not null,
    name text not null,
    tenant_id text not null,
    task_count integer not null check (task_count > 0),
    idempotency_key text,
    metadata jsonb,
    definition jsonb not null,
    created_at timestamptz not null,
    primary key (id, shard, day)
) partition by range (day);

comment on table skiplane.workflow is 'Workflows as submitted. Written once.';
comment on column skiplane.workflow.id is 'UUIDv7 with the shard label; its tasks have the next task_count ids.';
comment on column skiplane.workflow.shard is 'Shard label, the same for all its tasks.';
comment on column skiplane.workflow.day is 'UTC day of the submission: the partition key.';
comment on column skiplane.workflow.name is 'Name; several workflows may have the same.';
comment on column skiplane.workflow.tenant_id is 'Tenant of the workflow and all its tasks.';
comment on column skiplane.workflow.task_count is 'Number of its tasks.';
comment on column skiplane.workflow.idempotency_key is 'Key under which the submission happens once per tenant.';
comment on column skiplane.workflow.metadata is 'Metadata as submitted; every task has it, too.';
comment on column skiplane.workflow.definition is 'Array of the task objects as submitted, without payloads.';
comment on column skiplane.workflow.created_at is 'When it was submitted.';

create index workflow_tenant on skiplane.workflow (tenant_id, id);

create table skiplane.workflow_state (
    id uuid not null,
    shard smallint not null,
    day date not null,
    status text not null check (status in ('RUNNING', 'SUCCEEDED', 'FAILED', 'CANCELLED')),
    pending integer not null check (pending >= 0),
    failed integer not null default 0 check (failed >= 0),
    cancelled integer not null default 0 check (cancelled >= 0),
    stopped boolean not null default false,
    completed_at timestamptz,
    check ((pending = 0) = (status <> 'RUNNING')),
    check ((completed_at is null) = (status = 'RUNNING')),
    primary key (id, shard, day)
) partition by range (day);

comment on table skiplane.workflow_state is 'How far a workflow is: narrow, since each end of a task updates it. Whoever changes what waits in a workflow holds this row.';
comment on column skiplane.workflow_state.id is 'Workflow.';
comment on column skiplane.workflow_state.shard is 'Shard label.';
comment on column skiplane.workflow_state.day is 'Partition key, as in workflow.';
comment on column skiplane.workflow_state.status is 'RUNNING, SUCCEEDED, FAILED or CANCELLED.';
comment on column skiplane.workflow_state.pending is 'Tasks that have not ended.';
comment on column skiplane.workflow_state.failed is 'Tasks that ended FAILED or DEAD.';
comment on column skiplane.workflow_state.cancelled is 'Tasks that ended CANCELLED, without those that were skipped.';
comment on column skiplane.workflow_state.stopped is 'The workflow as a whole was cancelled.';
comment on column skiplane.workflow_state.completed_at is 'When the last task ended.';

create index workflow_state_status on skiplane.workflow_state (status, id) where status <> 'SUCCEEDED';

create table skiplane.workflow_task (
    id uuid not null,
    shard smallint not null,
    day date not null,
    workflow_id uuid not null,
    name text not null,
    run_when text check (run_when in ('all_done', 'any_failed')),
    delay_s double precision check (delay_s >= 0),
    parents uuid[],
    children uuid[],
    primary key (id, shard, day)
) partition by range (day);

comment on table skiplane.workflow_task is 'A task''s place in its workflow. Written once.';
comment on column skiplane.workflow_task.id is 'Task.';
comment on column skiplane.workflow_task.shard is 'Shard label.';
comment on column skiplane.workflow_task.day is 'Partition key, as in workflow.';
comment on column skiplane.workflow_task.workflow_id is 'Workflow.';
comment on column skiplane.workflow_task.name is 'Name of the task in its workflow.';
comment on column skiplane.workflow_task.run_when is 'Trigger: all_done or any_failed; NULL = all_success.';
comment on column skiplane.workflow_task.delay_s is 'Seconds to wait once its dependencies are done.';
comment on column skiplane.workflow_task.parents is 'Tasks that it depends on, each once; NULL = none.';
comment on column skiplane.workflow_task.children is 'Tasks that depend on it; NULL = none.';

create table skiplane.blocked (
    id uuid not null,
    shard smallint not null,
    day date not null,
    fence integer not null default 0,
    lane bigint,
    estimate integer,
    expires_at timestamptz,
    run_when text,
    waiting integer not null check (waiting >= 0),
    failed integer not null default 0 check (failed >= 0),
    skipped integer not null default 0 check (skipped >= 0),
    primary key (id, shard)
) with (fillfactor = 80);

comment on table skiplane.blocked is 'BLOCKED tasks: what they still wait for. Changed only by who holds the workflow_state row.';
comment on column skiplane.blocked.id is 'Task.';
comment on column skiplane.blocked.shard is 'Shard label.';
comment on column skiplane.blocked.day is 'Partition of its task row.';
comment on column skiplane.blocked.fence is 'Claims so far: it may have run before a retry.';
comment on column skiplane.blocked.lane is 'Lane of its ready row, if that is still open then; NULL = not known, or it waits for a time afterwards.';
comment on column skiplane.blocked.estimate is 'As in task.';
comment on column skiplane.blocked.expires_at is 'As in task.';
comment on column skiplane.blocked.run_when is 'As in workflow_task.';
comment on column skiplane.blocked.waiting is 'Dependencies that have not ended.';
comment on column skiplane.blocked.failed is 'Dependencies that ended FAILED, DEAD or CANCELLED.';
comment on column skiplane.blocked.skipped is 'Dependencies that were skipped.';

alter table skiplane.blocked set (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000, autovacuum_vacuum_cost_delay = 0,
    autovacuum_vacuum_insert_scale_factor = 0.5
);

create type skiplane.workflow_batch as (
    shard smallint,
    day date,
    created_at timestamptz,
    workflows uuid[],
    titles text[],
    tenants text[],
    counts integer[],
    keys text[],
    metadata jsonb[],
    definitions jsonb[],
    ids uuid[],
    owners uuid[],
    names text[],
    triggers text[],
    waiting integer[],
    payloads json[],
    numbers integer[],
    froms integer[],
    tos integer[],
    templates skiplane.task[],
    delays double precision[],
    later boolean[]
);

comment on type skiplane.workflow_batch is
'Workflows of one shard on their way into the tables: one element of workflows to definitions for each workflow, of ids to numbers for each task (owners: its workflow, numbers: its template), of froms and tos for each dependency, as places in ids.';

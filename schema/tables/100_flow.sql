-- Who runs next: settings of queues, task types and tenants, and the state of their limits.
-- A limit that applies to work in hand is a gate, named 'kind|of what'. Its state is insert-only and read newest first:
-- a row that everybody updates would grow a version chain under a held snapshot.
create table skiplane.queue_setting (
    queue text primary key,
    strict_order boolean not null default false,
    paused boolean not null default false,
    concurrency integer check (concurrency >= 0),
    limiting boolean not null generated always as (paused or concurrency is not null) stored,
    changed_at timestamptz not null,
    changed_by text not null
);

comment on table skiplane.queue_setting is 'What operators said of queues; a queue without a row has the defaults.';
comment on column skiplane.queue_setting.queue is 'Queue.';
comment on column skiplane.queue_setting.strict_order is 'Priorities in strict order instead of by weight (70 / 25 / 5).';
comment on column skiplane.queue_setting.paused is 'Nothing starts.';
comment on column skiplane.queue_setting.concurrency is 'Most tasks of it that run at once over the fleet; NULL = no limit.';
comment on column skiplane.queue_setting.limiting is 'Whether it can hold anything back.';
comment on column skiplane.queue_setting.changed_at is 'Last change.';
comment on column skiplane.queue_setting.changed_by is 'Who made it.';

create table skiplane.task_type_setting (
    task_type text primary key,
    paused boolean not null default false,
    rate double precision check (rate > 0),
    burst double precision check (burst >= 1),
    tenant_rate double precision check (tenant_rate > 0),
    tenant_burst double precision check (tenant_burst >= 1),
    concurrency integer check (concurrency >= 0),
    key_concurrency integer not null default 1 check (key_concurrency >= 0),
    breaker_threshold double precision check (breaker_threshold > 0 and breaker_threshold <= 1),
    breaker_window double precision not null default 60,
    breaker_minimum integer not null default 20,
    breaker_cooldown double precision not null default 30,
    breaker_probes integer not null default 1,
    by_app boolean not null default false,
    limiting boolean not null generated always as (paused or rate is not null or tenant_rate is not null
        or concurrency is not null or breaker_threshold is not null) stored,
    changed_at timestamptz not null,
    changed_by text not null
);

comment on table skiplane.task_type_setting is 'What operators and applications said of task types; a type without a row has the defaults.';
comment on column skiplane.task_type_setting.task_type is 'Task type.';
comment on column skiplane.task_type_setting.paused is 'Nothing of it starts.';
comment on column skiplane.task_type_setting.rate is 'Most starts per second over the fleet; NULL = no limit.';
comment on column skiplane.task_type_setting.burst is 'Starts that may come at once after a pause.';
comment on column skiplane.task_type_setting.tenant_rate is 'Most starts per second of each tenant; NULL = no limit.';
comment on column skiplane.task_type_setting.tenant_burst is 'Burst of each tenant.';
comment on column skiplane.task_type_setting.concurrency is 'Most tasks of it that run at once over the fleet; NULL = no limit.';
comment on column skiplane.task_type_setting.key_concurrency is 'A task of it starts only while fewer than so many with its tenant and concurrency key run.';
comment on column skiplane.task_type_setting.breaker_threshold is 'Share of failures that opens the circuit breaker; NULL = none.';
comment on column skiplane.task_type_setting.breaker_window is 'Seconds over which the share is taken.';
comment on column skiplane.task_type_setting.breaker_minimum is 'With fewer attempts in the window it stays closed.';
comment on column skiplane.task_type_setting.breaker_cooldown is 'Seconds that it stays open before probes start.';
comment on column skiplane.task_type_setting.breaker_probes is 'Probes that run at once, and successes that close it.';
comment on column skiplane.task_type_setting.by_app is 'Said by an application at the start of its workers; what an operator said stands above it.';
comment on column skiplane.task_type_setting.limiting is 'Whether it can hold anything back; concurrency keys always can.';
comment on column skiplane.task_type_setting.changed_at is 'Last change.';
comment on column skiplane.task_type_setting.changed_by is 'Who made it.';

create table skiplane.tenant_setting (
    tenant_id text primary key,
    weight integer not null default 1 check (weight between 1 and 1000),
    paused boolean not null default false,
    concurrency integer check (concurrency >= 0),
    rates jsonb not null default '{}',
    limiting boolean not null generated always as (paused or concurrency is not null or rates <> '{}') stored,
    changed_at timestamptz not null,
    changed_by text not null
);

comment on table skiplane.tenant_setting is 'What operators said of tenants; a tenant without a row has the defaults.';
comment on column skiplane.tenant_setting.tenant_id is 'Tenant.';
comment on column skiplane.tenant_setting.weight is 'Share of capacity among the tenants of a queue and priority that have work.';
comment on column skiplane.tenant_setting.paused is 'Nothing of it starts.';
comment on column skiplane.tenant_setting.concurrency is 'Most of its tasks that run at once over the fleet; NULL = no limit.';
comment on column skiplane.tenant_setting.rates is 'Its own rates: {task type: {rate, burst}}, above what the type says of each tenant.';
comment on column skiplane.tenant_setting.limiting is 'Whether it can hold anything back.';
comment on column skiplane.tenant_setting.changed_at is 'Last change.';
comment on column skiplane.tenant_setting.changed_by is 'Who made it.';

create table skiplane.flow_change (
    n bigint generated by default as identity,
    shard smallint not null,
    kind text not null check (kind in ('queue', 'type', 'tenant')),
    name text not null,
    at timestamptz not null,
    xid xid8 not null,
    pending boolean not null default true,
    adopted_at timestamptz,
    primary key (n, shard)
);

comment on table skiplane.flow_change is 'Changed settings that lanes and running tasks may not know of yet. While there are any, claims ask the settings themselves.';
comment on column skiplane.flow_change.n is 'Number.';
comment on column skiplane.flow_change.shard is 'Shard label.';
comment on column skiplane.flow_change.kind is 'queue, type or tenant.';
comment on column skiplane.flow_change.name is 'Which one.';
comment on column skiplane.flow_change.at is 'When.';
comment on column skiplane.flow_change.xid is 'Transaction that made the change: those before it may not have seen it.';
comment on column skiplane.flow_change.pending is 'Whether claims must ask the settings themselves.';
comment on column skiplane.flow_change.adopted_at is 'When it was last applied to what runs.';

create table skiplane.gate_state (
    gate text not null,
    n bigint generated by default as identity,
    shard smallint not null,
    part smallint not null default 0,
    parts smallint not null default 1,
    held integer not null default 0,
    tokens double precision,
    at timestamptz not null,
    folded pg_snapshot not null,
    primary key (gate, part, n, shard)
);

comment on table skiplane.gate_state is 'State of limits; the highest number of a part is the current one. Written only under the advisory lock of the part.';
comment on column skiplane.gate_state.gate is 'Kind and what it is of: queue, type, tenant, key, probe, breaker (places), rate (tokens).';
comment on column skiplane.gate_state.n is 'The highest number is the current state.';
comment on column skiplane.gate_state.shard is 'Shard label.';
comment on column skiplane.gate_state.part is 'Which part of the limit: a high rate is counted in several, of equal rate and burst.';
comment on column skiplane.gate_state.parts is 'In how many parts the limit is counted.';
comment on column skiplane.gate_state.held is 'Places taken, before what gate_release gives back.';
comment on column skiplane.gate_state.tokens is 'Starts that were in the bucket of the part.';
comment on column skiplane.gate_state.at is 'When.';
comment on column skiplane.gate_state.folded is 'Releases of transactions that this snapshot shows are counted already.';

create table skiplane.gate_release (
    gate text not null,
    xid xid8 not null,
    n bigint generated by default as identity,
    shard smallint not null,
    places integer not null,
    at timestamptz not null,
    primary key (gate, xid, n, shard)
);

comment on table skiplane.gate_release is 'Places that were given back; the next claim counts them in. Insert-only, so that a finish waits for nobody.';
comment on column skiplane.gate_release.gate is 'Limit.';
comment on column skiplane.gate_release.xid is 'Transaction that gave them back.';
comment on column skiplane.gate_release.n is 'Number.';
comment on column skiplane.gate_release.shard is 'Shard label.';
comment on column skiplane.gate_release.places is 'How many.';
comment on column skiplane.gate_release.at is 'When.';

create index gate_release_at on skiplane.gate_release (shard, at);
create index flow_change_pending on skiplane.flow_change (shard) where pending;

create type skiplane.gate_pass as (
    name text,
    taken integer,
    back integer,
    carried integer,
    entered boolean,
    mine boolean,
    missed boolean,
    changed boolean,
    n bigint,
    held integer,
    at timestamptz,
    folded pg_snapshot,
    whole integer,
    wait double precision,
    part_no integer[],
    part_n bigint[],
    part_at timestamptz[],
    part_tokens double precision[]
);

comment on type skiplane.gate_pass is 'A claim at a gate: what it has taken; what its transaction gave back, and how much of that it may take without a lock; whether it has the lock (mine) or somebody else had one (missed); the state under the lock. Of a rate the parts that were entered, and their whole tokens.';

create table skiplane.breaker (
    task_type text primary key,
    state text not null check (state in ('open', 'half_open')),
    manual boolean not null default false,
    since timestamptz not null,
    until timestamptz,
    reason text not null,
    changed_by text not null
);

comment on table skiplane.breaker is 'Circuit breakers that are not closed.';
comment on column skiplane.breaker.task_type is 'Task type.';
comment on column skiplane.breaker.state is 'open: nothing of the type starts; half_open: probes do.';
comment on column skiplane.breaker.manual is 'Opened by hand: only a hand closes it.';
comment on column skiplane.breaker.since is 'When it came to this state.';
comment on column skiplane.breaker.until is 'When probes start; NULL when open by hand, or half open.';
comment on column skiplane.breaker.reason is 'Why it opened.';
comment on column skiplane.breaker.changed_by is 'Who opened it.';

create table skiplane.breaker_tally (
    task_type text not null,
    at timestamptz not null,
    n bigint generated by default as identity,
    shard smallint not null,
    begun_at timestamptz not null,
    succeeded integer not null,
    failed integer not null,
    primary key (task_type, at, n, shard)
);

comment on table skiplane.breaker_tally is 'Ends of attempts of types with a circuit breaker: one row per batch, insert-only.';
comment on column skiplane.breaker_tally.task_type is 'Task type.';
comment on column skiplane.breaker_tally.at is 'When they ended.';
comment on column skiplane.breaker_tally.n is 'Number.';
comment on column skiplane.breaker_tally.shard is 'Shard label.';
comment on column skiplane.breaker_tally.begun_at is 'When they were claimed.';
comment on column skiplane.breaker_tally.succeeded is 'Successes.';
comment on column skiplane.breaker_tally.failed is 'Errors, time-outs and lost workers.';

create index breaker_tally_at on skiplane.breaker_tally using brin (at);

create table skiplane.flow_action (
    n bigint generated by default as identity primary key,
    at timestamptz not null,
    actor text not null,
    verb text not null,
    kind text not null,
    name text not null,
    detail jsonb
);

comment on table skiplane.flow_action is 'What was changed of queues, task types and tenants: who, when, what.';
comment on column skiplane.flow_action.n is 'Number.';
comment on column skiplane.flow_action.at is 'When.';
comment on column skiplane.flow_action.actor is 'Who: the given actor, or the database role.';
comment on column skiplane.flow_action.verb is 'set, pause, resume, open_breaker or close_breaker.';
comment on column skiplane.flow_action.kind is 'queue, type or tenant.';
comment on column skiplane.flow_action.name is 'Which one.';
comment on column skiplane.flow_action.detail is 'What was said.';

create index flow_action_at on skiplane.flow_action using brin (at);

alter table skiplane.gate_state set (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0
);
alter table skiplane.gate_release set (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0
);
alter table skiplane.breaker_tally set (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0
);

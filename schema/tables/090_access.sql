-- Who may come in through the REST API, and how much each tenant may submit there.
-- API keys live as hashes: whoever reads this table can use none of them.
create table skiplane.api_key (
    key_id text primary key,
    hash bytea not null unique check (octet_length(hash) = 32),
    name text not null,
    role text not null check (role in ('reader', 'producer', 'operator', 'admin')),
    tenant_id text,
    created_at timestamptz not null,
    created_by text not null,
    expires_at timestamptz,
    revoked_at timestamptz,
    revoked_by text,
    last_used_at timestamptz
) with (fillfactor = 70);

comment on table skiplane.api_key is 'Keys of the REST API: hashes, roles and bounds. The key itself is shown once and stored nowhere.';
comment on column skiplane.api_key.key_id is 'Beginning of the key, shown to people: it names the key and opens nothing.';
comment on column skiplane.api_key.hash is 'SHA-256 of the whole key, which is 256 random bits and needs no salt.';
comment on column skiplane.api_key.name is 'What it is for.';
comment on column skiplane.api_key.role is 'reader, producer, operator or admin; each may what those before it may.';
comment on column skiplane.api_key.tenant_id is 'The tenant that it is bound to; NULL = all tenants, and the fleet.';
comment on column skiplane.api_key.created_at is 'When it was made.';
comment on column skiplane.api_key.created_by is 'Who made it.';
comment on column skiplane.api_key.expires_at is 'It opens nothing from then on; NULL = never.';
comment on column skiplane.api_key.revoked_at is 'When it was revoked; NULL = in force.';
comment on column skiplane.api_key.revoked_by is 'Who revoked it.';
comment on column skiplane.api_key.last_used_at is 'Last use, to within five minutes.';

create index api_key_created on skiplane.api_key (created_at, key_id);

-- Unlogged: taking a slice must cost no flush, and after a crash every tenant may begin with a full bucket.
create unlogged table skiplane.submission_budget (
    tenant_id text primary key,
    tokens double precision not null,
    at timestamptz not null
) with (fillfactor = 50);

comment on table skiplane.submission_budget is 'Token bucket of each tenant that submits through the REST API. Web processes take slices, so no request updates it.';
comment on column skiplane.submission_budget.tenant_id is 'Tenant.';
comment on column skiplane.submission_budget.tokens is 'Submissions that it may make, at the time of at; below zero after a batch larger than the burst.';
comment on column skiplane.submission_budget.at is 'When tokens was computed.';

alter table skiplane.submission_budget set (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0
);

create type skiplane.task_change as (task_id uuid, status text, at timestamptz, day date);
comment on type skiplane.task_change is 'One change of state in the stream of events; day is NULL where there is no task row yet.';

-- What the whole installation agrees on: its types, and settings that operators change.
comment on schema skiplane is 'Skiplane: a distributed task scheduler. Functions are the verbs, views are for reading; tables are private.';

create type skiplane.task_status as enum (
    'SCHEDULED', 'BLOCKED', 'PENDING', 'RUNNING', 'RETRYING', 'SUCCEEDED', 'FAILED', 'CANCELLED', 'DEAD'
);

comment on type skiplane.task_status is 'The states of a task; the last four are terminal.';

-- One row of what a submit answers. A type, so that the single and the bulk door answer alike.
create type skiplane.submitted as (
    ordinal integer,
    task_id uuid,
    status text,
    scheduled_at timestamptz,
    created_at timestamptz,
    duplicate boolean
);

comment on type skiplane.submitted is 'The answer to a submission; duplicate is true when the idempotency key had been used for the same body before.';

create table if not exists skiplane.setting (
    name text primary key,
    value jsonb not null
);

comment on table skiplane.setting is 'Installation-wide settings: shards (array of labels), retention_days (number), timer_horizon (first day without a timer partition).';
comment on column skiplane.setting.name is 'Name of the setting.';
comment on column skiplane.setting.value is 'Its value.';

insert into skiplane.setting (name, value) values
('shards', '[0]'),
('retention_days', '30')
on conflict (name) do nothing;

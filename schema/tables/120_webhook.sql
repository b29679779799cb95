-- Who is told of what happens, and which procedures tasks may call. Small tables that many read and few write.
create table skiplane.webhook (
    webhook_id uuid primary key,
    name text not null,
    url text not null,
    secret text not null,
    events text[] not null check (cardinality(events) > 0),
    tenant_id text,
    task_type text,
    queue text,
    delivery_queue text,
    enabled boolean not null default true,
    created_at timestamptz not null,
    created_by text not null
);

comment on table skiplane.webhook is 'Subscriptions: whom to tell of the ends of tasks and workflows, and of alerts.';
comment on column skiplane.webhook.webhook_id is 'Id.';
comment on column skiplane.webhook.name is 'What it is for.';
comment on column skiplane.webhook.url is 'Where deliveries are sent.';
comment on column skiplane.webhook.secret is 'Key of the signatures, whsec_ and base64. Shown once.';
comment on column skiplane.webhook.events is 'Kinds (task, workflow, alert) or single events (task.failed).';
comment on column skiplane.webhook.tenant_id is 'Only events of this tenant; NULL = of all tenants.';
comment on column skiplane.webhook.task_type is 'Only ends of tasks of this type; NULL = of all.';
comment on column skiplane.webhook.queue is 'Only ends of tasks of this queue; NULL = of all.';
comment on column skiplane.webhook.delivery_queue is 'Queue of the deliveries; NULL = that of the task, or default.';
comment on column skiplane.webhook.enabled is 'Whether events make deliveries.';
comment on column skiplane.webhook.created_at is 'When it was made.';
comment on column skiplane.webhook.created_by is 'Who made it: the given actor, or the database role.';

create table skiplane.allowed_procedure (
    signature text primary key,
    role text not null,
    allowed_at timestamptz not null,
    allowed_by text not null
);

comment on table skiplane.allowed_procedure is 'Functions and procedures that tasks of type skiplane.sql may call.';
comment on column skiplane.allowed_procedure.signature is 'Schema, name and types of the arguments, as regprocedure prints them.';
comment on column skiplane.allowed_procedure.role is 'Role that it runs as.';
comment on column skiplane.allowed_procedure.allowed_at is 'When it was allowed.';
comment on column skiplane.allowed_procedure.allowed_by is 'Who allowed it: the given actor, or the database role.';

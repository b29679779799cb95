-- Subscriptions: made, listed, switched, deleted. p_within is the tenant that the caller is bound to (NULL: none); such
-- a caller sees and makes subscriptions of that tenant only.

create or replace function skiplane._webhook_document(p_webhook skiplane.webhook) returns jsonb
language sql stable
as $$
    select jsonb_build_object('webhook_id', p_webhook.webhook_id, 'name', p_webhook.name, 'url', p_webhook.url,
        'events', to_jsonb(p_webhook.events), 'tenant_id', p_webhook.tenant_id, 'task_type', p_webhook.task_type,
        'queue', p_webhook.queue, 'delivery_queue', p_webhook.delivery_queue, 'enabled', p_webhook.enabled,
        'created_at', skiplane._utc_text(p_webhook.created_at), 'created_by', p_webhook.created_by)
$$;

comment on function skiplane._webhook_document(skiplane.webhook) is 'A subscription as it may be shown: without its secret.';

create or replace function skiplane._new_secret() returns text
language sql volatile
as $$ select 'whsec_' || encode(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()), 'base64') $$;

comment on function skiplane._new_secret() is 'A key of 244 random bits, in the form of Standard Webhooks.';

create or replace function skiplane._check_secret(p_secret text) returns void
language plpgsql immutable
as $$
begin
    if p_secret !~ '^whsec_[A-Za-z0-9+/]+={0,2}$' or octet_length(decode(substr(p_secret, 7), 'base64')) not between 24 and 64 then
        raise invalid_parameter_value;
    end if;
exception when invalid_parameter_value then
    perform skiplane._refuse('SK001', 'secret', '(not shown)', 'secret is not usable as a key',
        'give whsec_ and 24 to 64 random bytes in base64, or leave it out');
end
$$;

comment on function skiplane._check_secret(text) is 'Refuses a secret that is no key of Standard Webhooks, without showing it.';

create or replace function skiplane.create_webhook(
    p_name text, p_url text, p_events text[] default '{task}', p_tenant_id text default null, p_task_type text default null,
    p_queue text default null, p_secret text default null, p_delivery_queue text default null,
    p_enabled boolean default true, p_actor text default null, p_within text default null
) returns jsonb language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    w skiplane.webhook;
    v_event text;
begin
    perform skiplane._check_name('name', p_name);
    if coalesce(p_url, '') !~ '^https?://[^[:space:]/?#@]+([/?#][^[:space:]]*)?$' or octet_length(p_url) > 2000 then
        perform skiplane._refuse('SK001', 'url', p_url, 'url is not a web address', 'give an http or https URL of at most 2000 bytes, without a password');
    end if;
    if coalesce(cardinality(p_events), 0) = 0 then
        perform skiplane._refuse('SK001', 'events', null, 'a webhook without events', 'give task, workflow, alert, or single ones such as task.failed');
    end if;
    foreach v_event in array p_events loop
        perform skiplane._check_choice('events', v_event, '{task,task.succeeded,task.failed,task.cancelled,task.dead,workflow,workflow.succeeded,workflow.failed,workflow.cancelled,alert}');
    end loop;
    if p_within is not null and p_tenant_id is distinct from p_within then
        perform skiplane._refuse('SK010', 'tenant_id', p_tenant_id, 'a caller of one tenant makes webhooks of that tenant only',
            format('give tenant_id %s, or come as a caller that is bound to none', p_within));
    end if;
    perform skiplane._check_name(f.field, f.value)
    from (values ('tenant_id', p_tenant_id), ('task_type', p_task_type), ('queue', p_queue), ('delivery_queue', p_delivery_queue)) f (field, value)
    where f.value is not null;
    perform skiplane._check_secret(p_secret);
    insert into skiplane.webhook (webhook_id, name, url, secret, events, tenant_id, task_type, queue, delivery_queue, enabled, created_at, created_by)
    values (gen_random_uuid(), p_name, p_url, coalesce(p_secret, skiplane._new_secret()), p_events, p_tenant_id, p_task_type, p_queue,
        p_delivery_queue, coalesce(p_enabled, true), skiplane.clock(), coalesce(left(p_actor, 200), session_user))
    returning * into w;
    return skiplane._webhook_document(w) || jsonb_build_object('secret', w.secret);
end
$$;

comment on function skiplane.create_webhook(text, text, text[], text, text, text, text, text, boolean, text, text) is
'Subscribes a URL to events: task, workflow, alert, or single ones (task.succeeded, task.failed, task.cancelled, task.dead, workflow.succeeded, workflow.failed, workflow.cancelled), of one tenant, task type or queue where these are given. The answer holds the secret of the signatures, this once; it is drawn unless p_secret gives it.';

create or replace function skiplane.list_webhooks(
    p_within text default null, p_limit integer default 50, p_cursor uuid default null
) returns setof jsonb language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare v_at timestamptz;
begin
    perform skiplane._check_number('limit', p_limit, 1, 1000);
    if p_cursor is not null then
        select w.created_at into v_at from skiplane.webhook w
        where w.webhook_id = p_cursor and (p_within is null or w.tenant_id = p_within);
        if v_at is null then
            perform skiplane._refuse('SK001', 'cursor', p_cursor::text, 'cursor is not one of ours', 'pass the cursor of the page before, unchanged');
        end if;
    end if;
    return query
    select skiplane._webhook_document(w) from skiplane.webhook w
    where (p_within is null or w.tenant_id = p_within)
        and (v_at is null or (w.created_at, w.webhook_id) < (v_at, p_cursor))
    order by w.created_at desc, w.webhook_id desc limit p_limit;
end
$$;

comment on function skiplane.list_webhooks(text, integer, uuid) is
'Subscriptions, newest first, without secrets; the next page: pass the webhook_id of the last one as p_cursor.';

create or replace function skiplane._refuse_unknown_webhook(p_webhook_id uuid) returns void
language plpgsql immutable
as $$
begin
    perform skiplane._refuse('SK002', 'webhook_id', p_webhook_id::text, 'no such webhook', 'list_webhooks shows what there is');
end
$$;

comment on function skiplane._refuse_unknown_webhook(uuid) is 'The one refusal for unknown webhooks and those of other tenants.';

create or replace function skiplane.delete_webhook(p_webhook_id uuid, p_within text default null) returns jsonb
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare w skiplane.webhook;
begin
    delete from skiplane.webhook x
    where x.webhook_id = p_webhook_id and (p_within is null or x.tenant_id = p_within) returning * into w;
    if w.webhook_id is null then
        perform skiplane._refuse_unknown_webhook(p_webhook_id);
    end if;
    return skiplane._webhook_document(w);
end
$$;

comment on function skiplane.delete_webhook(uuid, text) is
'Ends a subscription. Deliveries that wait are not sent any more: their tasks succeed with delivered = false. SK002 when unknown.';

create or replace function skiplane.enable_webhook(p_webhook_id uuid, p_enabled boolean, p_within text default null) returns jsonb
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare w skiplane.webhook;
begin
    update skiplane.webhook x set enabled = p_enabled
    where x.webhook_id = p_webhook_id and (p_within is null or x.tenant_id = p_within) returning * into w;
    if w.webhook_id is null then
        perform skiplane._refuse_unknown_webhook(p_webhook_id);
    end if;
    return skiplane._webhook_document(w);
end
$$;

comment on function skiplane.enable_webhook(uuid, boolean, text) is
'Switches a subscription on or off: while it is off, events make no deliveries; what was made before is still delivered.';

create or replace function skiplane.callback_secret(p_tenant_id text default 'default') returns text
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare v_key bytea;
begin
    perform skiplane._check_name('tenant_id', p_tenant_id);
    select decode(s.value #>> '{}', 'hex') into v_key from skiplane.setting s where s.name = 'callback_key';
    if v_key is null then
        insert into skiplane.setting (name, value)
        values ('callback_key', to_jsonb(encode(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()), 'hex')))
        on conflict (name) do nothing;
        select decode(s.value #>> '{}', 'hex') into v_key from skiplane.setting s where s.name = 'callback_key';
    end if;
    -- Hashed twice: who knows one tenant's cannot compute another's.
    return 'whsec_' || encode(sha256(v_key || sha256(v_key || convert_to(p_tenant_id, 'UTF8'))), 'base64');
end
$$;

comment on function skiplane.callback_secret(text) is
'Key of the signatures of what is sent to the callback_url of a tenant''s tasks. Each tenant has its own, and it stays.';

create or replace function skiplane.webhook_target(p_task_id uuid, out url text, out secret text)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    t skiplane.task := skiplane._find_task(p_task_id);
    v_webhook_id uuid;
begin
    if t.task_type is distinct from 'skiplane.webhook' then
        perform skiplane._refuse('SK002', 'task_id', p_task_id::text, 'no such delivery', 'only the engine makes tasks of type skiplane.webhook');
    end if;
    v_webhook_id := (t.payload ->> 'webhook_id')::uuid;
    if v_webhook_id is null then
        url := t.payload ->> 'url';
        secret := skiplane.callback_secret(t.tenant_id);
    else
        select w.url, w.secret into url, secret from skiplane.webhook w where w.webhook_id = v_webhook_id;
    end if;
end
$$;

comment on function skiplane.webhook_target(uuid) is
'For the worker that runs a delivery: where to, and the key of the signature; NULL when the webhook was deleted.';

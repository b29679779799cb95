-- Telling of what happened: a delivery is an ordinary task of type skiplane.webhook, made in the transaction of the
-- event, so that it is there exactly when the event is. It lies on the shard of the event. Its payload is
-- {"webhook_id": ..., "url": ..., "event": {...}}; url only for a callback_url, which has no webhook.
-- Only these functions make such tasks (_check_options refuses the type to everybody else): a signature says that
-- the engine itself told it. The end of a delivery makes no delivery.

create or replace function skiplane._put_delivery(
    p_shard smallint, p_tenant_id text, p_queue text, p_webhook_id uuid, p_url text, p_event jsonb, p_metadata jsonb
) returns uuid language plpgsql volatile
as $$
declare
    t skiplane.task;
    v_now timestamptz;
begin
    -- The id of the transaction comes before the clock: see refresh_lanes.
    perform pg_current_xact_id();
    v_now := skiplane.clock();
    t.id := skiplane._id_at(p_shard, floor(extract(epoch from v_now) * 1000000)::bigint, skiplane._first_place());
    t.shard := p_shard;
    t.day := skiplane._active_day(v_now);
    t.task_type := 'skiplane.webhook';
    t.queue := p_queue;
    t.priority := 5;
    t.tenant_id := p_tenant_id;
    t.payload := jsonb_strip_nulls(jsonb_build_object('webhook_id', p_webhook_id, 'url', p_url))
        || jsonb_build_object('event', p_event || jsonb_build_object('delivery_id', t.id));
    -- Some nine hours.
    t.max_retries := 12;
    t.retry_delay_s := 10;
    t.timeout_s := 60;
    t.metadata := nullif(jsonb_strip_nulls(jsonb_build_object('tenant_id', nullif(p_tenant_id, 'default'),
        'correlation_id', p_metadata -> 'correlation_id', 'traceparent', p_metadata -> 'traceparent')), '{}');
    t.version := 1;
    t.scheduled_at := v_now;
    t.created_at := v_now;
    insert into skiplane.task select t.*;
    perform skiplane._put_ready(t, v_now, 0::smallint, 0);
    return t.id;
end
$$;

comment on function skiplane._put_delivery(smallint, text, text, uuid, text, jsonb, jsonb) is
'Makes one delivery, a PENDING task of the given shard.';

-- Inlined by the planner: keep it one plain query.
create or replace function skiplane._subscribed(p_event text, p_tenant_id text, p_task_type text, p_queue text)
returns table (webhook_id uuid, delivery_queue text)
language sql stable
as $$
    select w.webhook_id, w.delivery_queue from skiplane.webhook w
    where w.enabled and (p_event = any (w.events) or split_part(p_event, '.', 1) = any (w.events))
        and (w.tenant_id is null or w.tenant_id = p_tenant_id)
        and (w.task_type is null or w.task_type = p_task_type) and (w.queue is null or w.queue = p_queue)
$$;

comment on function skiplane._subscribed(text, text, text, text) is 'The webhooks that are to be told of an event.';

create or replace function skiplane._task_event(p_task skiplane.task, p_outcome skiplane.outcome) returns jsonb
language sql stable
as $$
    select jsonb_build_object('type', 'task.' || lower(p_outcome.status::text), 'timestamp', skiplane._utc_text(p_outcome.finished_at),
        'data', jsonb_build_object('task_id', p_task.id, 'task_type', p_task.task_type, 'queue', p_task.queue, 'tenant_id', p_task.tenant_id,
            'status', p_outcome.status, 'attempt', p_outcome.attempt, 'workflow_id', p_task.workflow_id, 'metadata', p_task.metadata,
            'created_at', skiplane._utc_text(p_task.created_at), 'started_at', skiplane._utc_text(p_outcome.started_at),
            'completed_at', skiplane._utc_text(p_outcome.finished_at), 'error_type', p_outcome.error_type,
            'error_message', left(p_outcome.error_message, 4000))
            -- What is large is asked for by those who need it.
            || case when octet_length(p_outcome.result::text) > 65536 then '{"result_omitted": true}'::jsonb
                else jsonb_build_object('result', p_outcome.result) end)
$$;

comment on function skiplane._task_event(skiplane.task, skiplane.outcome) is 'What is told of the end of a task.';

create or replace function skiplane._announce_ends(p_ids uuid[], p_day date, p_shard smallint, p_succeeded boolean)
returns void
language plpgsql volatile
    set jit = off set enable_seqscan = off set plan_cache_mode = force_generic_plan
as $$
declare r record;
begin
    for r in
        select t, o, h.webhook_id, h.url, coalesce(h.delivery_queue, t.queue) as queue
        from skiplane.task t
        join skiplane.outcome o on o.id = t.id and o.shard = t.shard and o.day = t.day
        cross join lateral (
            select null::uuid as webhook_id, t.callback_url as url, null::text as delivery_queue where t.callback_url is not null
            union all
            select s.webhook_id, null, s.delivery_queue
            from skiplane._subscribed('task.' || lower(o.status::text), t.tenant_id, t.task_type, t.queue) s
        ) h
        where t.id = any (p_ids) and t.shard = p_shard and t.day = p_day and t.task_type <> 'skiplane.webhook'
            and o.id = any (p_ids) and o.shard = p_shard and o.day = p_day and (o.status = 'SUCCEEDED') = p_succeeded
        order by t.id
    loop
        perform skiplane._put_delivery(p_shard, (r.t).tenant_id, r.queue, r.webhook_id, r.url,
            skiplane._task_event(r.t, r.o), (r.t).metadata);
    end loop;
end
$$;

comment on function skiplane._announce_ends(uuid[], date, smallint, boolean) is
'Makes the deliveries for those tasks of one day that have just SUCCEEDED (p_succeeded) or ended otherwise; for those that nobody listens to, nothing.';

-- The hot path asks this once for each batch of successes.
create or replace function skiplane._is_subscribed_to_success() returns boolean
language sql stable
as $$ select exists (select from skiplane.webhook w where w.enabled and w.events && '{task,task.succeeded}') $$;

comment on function skiplane._is_subscribed_to_success() is 'Whether any webhook is told of successes.';

create or replace function skiplane._announce_successes(p_ids uuid[], p_days date[], p_shard smallint, p_called_back boolean)
returns void language plpgsql volatile
as $$
declare v_day date;
begin
    if not p_called_back and not skiplane._is_subscribed_to_success() then
        return;
    end if;
    for v_day in select distinct d.day from unnest(p_days) d (day) order by 1 loop
        perform skiplane._announce_ends(p_ids, v_day, p_shard, true);
    end loop;
end
$$;

comment on function skiplane._announce_successes(uuid[], date[], smallint, boolean) is
'Tells of those tasks that SUCCEEDED just now; all must have been in the lease. p_called_back: whether one of the lease has a callback_url.';

create or replace function skiplane._announce(p_event text, p_tenant_id text, p_queue text, p_data jsonb, p_shard smallint)
returns integer language plpgsql volatile
as $$
declare
    r record;
    v_count integer := 0;
begin
    for r in select * from skiplane._subscribed(p_event, p_tenant_id, null, p_queue) loop
        perform skiplane._put_delivery(p_shard, p_tenant_id, coalesce(r.delivery_queue, p_queue), r.webhook_id, null,
            jsonb_build_object('type', p_event, 'timestamp', skiplane._utc_text(skiplane.clock()), 'data', p_data), null);
        v_count := v_count + 1;
    end loop;
    return v_count;
end
$$;

comment on function skiplane._announce(text, text, text, jsonb, smallint) is
'Makes the deliveries for an event that is no end of a task; a webhook for one task type hears of none. Answers how many.';

create or replace function skiplane._announce_workflows(p_ids uuid[], p_day date, p_shard smallint, p_at timestamptz)
returns void language plpgsql volatile
    set jit = off set enable_seqscan = off set plan_cache_mode = force_generic_plan
as $$
declare r record;
begin
    if not exists (
        select from skiplane.webhook w
        where w.enabled and w.events && '{workflow,workflow.succeeded,workflow.failed,workflow.cancelled}')
    then
        return;
    end if;
    for r in
        select w.id, w.name, w.tenant_id, w.task_count, w.metadata, w.created_at, s.status, s.failed, s.cancelled, s.completed_at
        from skiplane.workflow_state s
        join skiplane.workflow w on w.id = s.id and w.shard = s.shard and w.day = s.day
        where s.id = any (p_ids) and s.shard = p_shard and s.day = p_day and s.status <> 'RUNNING' and s.completed_at = p_at
            and w.id = any (p_ids) and w.shard = p_shard and w.day = p_day
        order by w.id
    loop
        perform skiplane._announce('workflow.' || lower(r.status), r.tenant_id, 'default', jsonb_build_object(
            'workflow_id', r.id, 'workflow_name', r.name, 'tenant_id', r.tenant_id, 'status', r.status, 'tasks', r.task_count,
            'failed', r.failed, 'cancelled', r.cancelled, 'metadata', r.metadata, 'created_at', skiplane._utc_text(r.created_at),
            'completed_at', skiplane._utc_text(r.completed_at)), p_shard);
    end loop;
end
$$;

comment on function skiplane._announce_workflows(uuid[], date, smallint, timestamptz) is
'Makes the deliveries for those workflows of one day that have ended at p_at, just now.';

create or replace function skiplane.announce_alert(
    p_name text, p_state text default 'firing', p_summary text default null, p_labels jsonb default '{}',
    p_tenant_id text default 'default'
) returns integer language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
begin
    perform skiplane._check_name('name', p_name);
    perform skiplane._check_choice('state', p_state, '{firing,resolved}');
    perform skiplane._check_name('tenant_id', p_tenant_id);
    perform skiplane._check_json('labels', p_labels::text, 16384);
    return skiplane._announce('alert', p_tenant_id, 'default', jsonb_build_object('name', p_name, 'state', p_state,
        'summary', left(p_summary, 4000), 'labels', p_labels, 'tenant_id', p_tenant_id), skiplane._pick_shard(p_tenant_id, null));
end
$$;

comment on function skiplane.announce_alert(text, text, text, jsonb, text) is
'Tells the webhooks that listen to alerts that one fires or is resolved. Answers how many deliveries were made.';

create or replace function skiplane.test_webhook(p_webhook_id uuid, p_within text default null) returns uuid
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare w skiplane.webhook;
begin
    select * into w from skiplane.webhook x where x.webhook_id = p_webhook_id and (p_within is null or x.tenant_id = p_within);
    if w.webhook_id is null then
        perform skiplane._refuse_unknown_webhook(p_webhook_id);
    end if;
    return skiplane._put_delivery(skiplane._pick_shard('default', null), coalesce(w.tenant_id, 'default'),
        coalesce(w.delivery_queue, w.queue, 'default'), w.webhook_id, null,
        jsonb_build_object('type', 'webhook.test', 'timestamp', skiplane._utc_text(skiplane.clock()),
            'data', jsonb_build_object('webhook_id', w.webhook_id, 'name', w.name)), null);
end
$$;

comment on function skiplane.test_webhook(uuid, text) is
'Sends an event webhook.test to a webhook, enabled or not, and answers with the id of the delivery, a task. SK002 when unknown.';

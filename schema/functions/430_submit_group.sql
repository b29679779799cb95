-- Submitting what many callers sent at the same moment: tasks that share all options but payload, metadata and key.

create or replace function skiplane._store_varied(
    p_ids uuid[], p_payloads json[], p_metadata jsonb[], p_keys text[], p_task skiplane.task
) returns void language plpgsql volatile
as $$
declare
    t skiplane.task := p_task;
    v_lane bigint;
    w record;
begin
    if t.scheduled_at > t.created_at then
        for w in select * from unnest(p_ids, p_payloads, p_metadata, p_keys) as x (id, payload, metadata, key) loop
            t.metadata := w.metadata;
            perform skiplane._store_timer(w.id, t.scheduled_at, 'SCHEDULED', w.key, w.payload, t, 0::smallint, 0);
        end loop;
        return;
    end if;
    v_lane := skiplane._lane_for(t.shard, t.queue, t.priority, t.tenant_id, t.task_type, t.concurrency_key);
    insert into skiplane.task (
        id, shard, day, task_type, queue, priority, tenant_id, concurrency_key, estimate, payload, max_retries,
        retry_backoff, retry_delay_s, retry_max_delay_s, retry_jitter, timeout_s, idempotency_key, expires_at,
        callback_url, metadata, workflow_id, scheduled_at, created_at)
    select u.id, t.shard, t.day, t.task_type, t.queue, t.priority, t.tenant_id, t.concurrency_key, t.estimate,
        u.payload, t.max_retries, t.retry_backoff, t.retry_delay_s, t.retry_max_delay_s, t.retry_jitter,
        t.timeout_s, u.key, t.expires_at, t.callback_url, u.metadata, t.workflow_id, t.scheduled_at, t.created_at
    from unnest(p_ids, p_payloads, p_metadata, p_keys) as u (id, payload, metadata, key);
    insert into skiplane.ready (id, shard, lane, due_at, estimate, day, attempt, fence, expires_at)
    select u.id, t.shard, v_lane, t.created_at, coalesce(t.estimate, 2147483647), t.day, 0, 0, t.expires_at
    from unnest(p_ids) as u (id);
    perform skiplane._wake(t.queue);
end
$$;

comment on function skiplane._store_varied(uuid[], json[], jsonb[], text[], skiplane.task) is
'Stores tasks of one shard that differ in payload, metadata and key.';

create or replace function skiplane._read_metadata(p_metadata text[], p_tenant_id text) returns jsonb[]
language plpgsql volatile
as $$
declare
    m text;
    v_all jsonb[];
begin
    foreach m in array coalesce(p_metadata, '{}') loop
        if octet_length(m) > 16384 or skiplane._unreadable_json(m) is not null then
            perform skiplane._check_json('metadata', m, 16384);
        end if;
    end loop;
    v_all := p_metadata::jsonb[];
    perform skiplane._check_metadata(x.m), skiplane._check_within(p_tenant_id, coalesce(x.m ->> 'tenant_id', 'default'))
    from unnest(v_all) as x (m) where jsonb_typeof(x.m) <> 'object' or coalesce(x.m ->> 'tenant_id', 'default') <> p_tenant_id;
    return v_all;
end
$$;

comment on function skiplane._read_metadata(text[], text) is 'Metadata texts as jsonb; each names the tenant.';

-- Waiting for whoever uses the same key in an open transaction has a bound: behind a caller of this function others wait.
create or replace function skiplane.submit_group(
    p_options jsonb, p_payloads text[], p_tenant_id text, p_metadata text[] default null, p_keys text[] default null
) returns setof skiplane.submitted
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set lock_timeout = '3s'
as $$
declare
    v_now timestamptz;
    t skiplane.task;
    v_payloads json[];
    v_metadata jsonb[];
    v_keys text[] := coalesce(p_keys, array_fill(null::text, array[cardinality(p_payloads)]));
    v_start bigint := skiplane._first_place();
    v_new uuid[];
    v_ids uuid[];
    v_shards smallint[];
begin
    perform pg_current_xact_id();
    v_now := skiplane.clock();
    t := skiplane._object_template(p_options || jsonb_build_object('metadata', jsonb_build_object('tenant_id', p_tenant_id)), v_now);
    v_payloads := skiplane._read_payloads(p_payloads);
    v_metadata := coalesce(skiplane._read_metadata(p_metadata, p_tenant_id),
        array_fill(t.metadata, array[cardinality(p_payloads)]));
    if p_keys is null then
        t.shard := skiplane._pick_shard(t.tenant_id, null);
        v_ids := skiplane._new_ids(t.shard, cardinality(p_payloads), v_now);
        v_new := v_ids;
        perform skiplane._store_varied(v_ids, v_payloads, v_metadata, v_keys, t);
    else
        perform skiplane._check_name('idempotency_key', k) from unnest(v_keys) k where k is not null;
        select array_agg((skiplane._new_ids(skiplane._pick_shard(t.tenant_id, u.key), 1, v_now, array[v_start + u.ord]))[1] order by u.ord)
        into v_new from unnest(v_keys) with ordinality as u (key, ord);
        v_ids := skiplane._reserve_keys(t.tenant_id, v_keys, v_new, array(
            select sha256(convert_to((b.body || jsonb_build_object('payload', u.payload::jsonb))::text, 'UTF8'))
            from unnest(v_payloads) with ordinality as u (payload, ord), lateral (
                select skiplane._body(t, skiplane._time_field(p_options, 'scheduled_at'),
                    skiplane._number_field(p_options, 'delay_seconds', null)) as body) b
            order by u.ord), v_now);
        select array_agg(distinct skiplane.task_shard(u.new)) into v_shards from unnest(v_ids, v_new) as u (id, new) where u.id = u.new;
        foreach t.shard in array coalesce(v_shards, '{}') loop
            perform skiplane._store_varied(array_agg(u.id order by u.ord), array_agg(u.payload order by u.ord),
                array_agg(u.metadata order by u.ord), array_agg(u.key order by u.ord), t)
            from unnest(v_ids, v_new, v_payloads, v_metadata, v_keys) with ordinality as u (id, new, payload, metadata, key, ord)
            where u.id = u.new and skiplane.task_shard(u.id) = t.shard;
        end loop;
    end if;
    if v_ids = v_new then
        return query
        select u.ord::integer, u.id, case when t.scheduled_at > v_now then 'SCHEDULED' else 'PENDING' end, t.scheduled_at, v_now, false
        from unnest(v_ids) with ordinality as u (id, ord);
        return;
    end if;
    return query
    select s.* from unnest(v_ids, v_new) with ordinality as u (id, new, ord)
    cross join lateral skiplane._submitted(u.ord::integer, u.id, u.id <> u.new, t) s order by u.ord;
end
$$;

comment on function skiplane.submit_group(jsonb, text[], text, text[], text[]) is
'Submits tasks that share p_options (fields of submit_tasks without payload, metadata and idempotency_key) and a tenant; payload, metadata and key of each in arrays. All or nothing; one row per task, in order. Waits at most 3 s for an open transaction that uses one of the keys (55P03 then).';

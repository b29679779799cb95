-- What is set, and how it stands.

create or replace function skiplane._rate_text(p_rate double precision) returns text
language sql immutable parallel safe
as $$
    select case
        when p_rate is null then null
        when p_rate >= 1 or p_rate * 60 < 1 and p_rate * 3600 < 1 and p_rate * 86400 < 1 then trim_scale(round(p_rate::numeric, 6)) || '/s'
        when p_rate * 60 >= 1 then trim_scale(round((p_rate * 60)::numeric, 6)) || '/min'
        when p_rate * 3600 >= 1 then trim_scale(round((p_rate * 3600)::numeric, 6)) || '/hour'
        else trim_scale(round((p_rate * 86400)::numeric, 6)) || '/day' end
$$;

comment on function skiplane._rate_text(double precision) is 'A rate in words, as set_task_type takes it.';

create or replace function skiplane._running(p_gate text) returns integer
language sql stable
as $$
    select (skiplane._gate_room(row(p_gate, 0, null, null)::skiplane.gate, skiplane.clock(), skiplane._home_shard())).held
$$;

comment on function skiplane._running(text) is 'Places of a limit that are taken.';

create or replace function skiplane._last_depths(out queues jsonb, out task_types jsonb, out tenants jsonb) returns record
language sql stable
as $$
    select jsonb_agg(q.x), jsonb_agg(t.x), jsonb_agg(n.x)
    from (select distinct on (d.shard) d.queues, d.task_types, d.tenants from skiplane.depth d order by d.shard, d.n desc) s
    left join lateral (select s.queues as x) q on true
    left join lateral (select s.task_types as x) t on true
    left join lateral (select s.tenants as x) n on true
$$;

comment on function skiplane._last_depths() is 'The last rollups of depth, one element per shard.';

create or replace function skiplane._depth_of(p_counts jsonb, p_name text) returns bigint
language sql immutable
as $$ select coalesce(sum((e ->> p_name)::bigint), 0)::bigint from jsonb_array_elements(p_counts) e $$;

comment on function skiplane._depth_of(jsonb, text) is 'Sum of one name over the rollups of the shards.';

create or replace function skiplane.get_queue(p_queue text) returns jsonb
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    q skiplane.queue_setting;
    d record := skiplane._last_depths();
begin
    perform skiplane._check_name('queue', p_queue);
    select * into q from skiplane.queue_setting x where x.queue = p_queue;
    return jsonb_build_object('queue', p_queue, 'paused', coalesce(q.paused, false),
        'priority_order', case when q.strict_order then 'strict' else 'weighted' end, 'concurrency', q.concurrency,
        'running', case when q.concurrency is not null then skiplane._running('queue|' || p_queue) end,
        'changed_at', skiplane._utc_text(q.changed_at), 'changed_by', q.changed_by) || (
        select jsonb_build_object('depth', coalesce(sum((e ->> 'depth')::bigint), 0),
            'oldest_waiting', min(e ->> 'oldest'),
            'depth_by_priority', jsonb_build_object(
                'high', coalesce(sum((e ->> 'depth')::bigint) filter (where e ->> 'priority' = '10'), 0),
                'medium', coalesce(sum((e ->> 'depth')::bigint) filter (where e ->> 'priority' = '5'), 0),
                'low', coalesce(sum((e ->> 'depth')::bigint) filter (where e ->> 'priority' = '0'), 0)))
        from jsonb_array_elements(d.queues) s cross join lateral jsonb_array_elements(s) e where e ->> 'queue' = p_queue);
end
$$;

comment on function skiplane.get_queue(text) is
'Settings of a queue, its depth by priority and its oldest task (as last counted), and how many run where a limit counts them.';

create or replace function skiplane.get_task_type(p_task_type text) returns jsonb
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    t skiplane.task_type_setting;
    b skiplane.breaker;
    d record := skiplane._last_depths();
begin
    perform skiplane._check_name('task_type', p_task_type);
    select * into t from skiplane.task_type_setting x where x.task_type = p_task_type;
    select * into b from skiplane.breaker x where x.task_type = p_task_type;
    return jsonb_build_object('task_type', p_task_type, 'paused', coalesce(t.paused, false), 'rate_limit', skiplane._rate_text(t.rate),
        'burst', t.burst, 'tenant_rate_limit', skiplane._rate_text(t.tenant_rate), 'tenant_burst', t.tenant_burst,
        'concurrency', t.concurrency, 'key_concurrency', coalesce(t.key_concurrency, 1),
        'running', case when t.concurrency is not null then skiplane._running('type|' || p_task_type) end,
        'depth', skiplane._depth_of(d.task_types, p_task_type), 'set_by_application', coalesce(t.by_app, false),
        'changed_at', skiplane._utc_text(t.changed_at), 'changed_by', t.changed_by,
        'breaker', jsonb_build_object('state', coalesce(b.state, 'closed'), 'since', skiplane._utc_text(b.since),
            'until', skiplane._utc_text(b.until), 'reason', b.reason, 'manual', coalesce(b.manual, false),
            'threshold', t.breaker_threshold, 'window_seconds', t.breaker_window, 'minimum', t.breaker_minimum,
            'cooldown_seconds', t.breaker_cooldown, 'probes', t.breaker_probes));
end
$$;

comment on function skiplane.get_task_type(text) is
'Settings of a task type, its circuit breaker, its depth (as last counted), and how many run where a limit counts them.';

create or replace function skiplane.get_tenant(p_tenant_id text) returns jsonb
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    n skiplane.tenant_setting;
    d record := skiplane._last_depths();
begin
    perform skiplane._check_name('tenant_id', p_tenant_id);
    select * into n from skiplane.tenant_setting x where x.tenant_id = p_tenant_id;
    return jsonb_build_object('tenant_id', p_tenant_id, 'weight', coalesce(n.weight, 1), 'paused', coalesce(n.paused, false),
        'concurrency', n.concurrency,
        'running', case when n.concurrency is not null then skiplane._running('tenant|' || p_tenant_id) end,
        'rates', coalesce((
            select jsonb_object_agg(r.key, jsonb_build_object('rate_limit', skiplane._rate_text((r.value ->> 'rate')::double precision),
                'burst', r.value -> 'burst')) from jsonb_each(n.rates) r), '{}'),
        'depth', skiplane._depth_of(d.tenants, p_tenant_id),
        'changed_at', skiplane._utc_text(n.changed_at), 'changed_by', n.changed_by);
end
$$;

comment on function skiplane.get_tenant(text) is
'Settings of a tenant, its depth (as last counted), and how many of its tasks run where a limit counts them.';

create or replace function skiplane.list_queues(p_limit integer default 1000, p_after text default '') returns setof jsonb
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
begin
    perform skiplane._check_number('limit', p_limit, 1, 10000);
    return query
    select skiplane.get_queue(x.queue) from (
        select q.queue from skiplane.queue_setting q
        union
        select d.queue from skiplane.queues d
    ) x where x.queue > p_after order by x.queue limit p_limit;
end
$$;

comment on function skiplane.list_queues(integer, text) is 'Queues that have settings or tasks, each as get_queue, by name after p_after.';

create or replace function skiplane.list_task_types(p_limit integer default 1000, p_after text default '') returns setof jsonb
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare d record := skiplane._last_depths();
begin
    perform skiplane._check_number('limit', p_limit, 1, 10000);
    return query
    select skiplane.get_task_type(x.name) from (
        select t.task_type as name from skiplane.task_type_setting t
        union
        select b.task_type from skiplane.breaker b
        union
        select k from jsonb_array_elements(d.task_types) e cross join lateral jsonb_object_keys(e) k
    ) x where x.name > p_after order by x.name limit p_limit;
end
$$;

comment on function skiplane.list_task_types(integer, text) is
'Task types that have settings or waiting tasks, each as get_task_type, by name after p_after.';

create or replace function skiplane.list_tenants(p_limit integer default 1000, p_after text default '') returns setof jsonb
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare d record := skiplane._last_depths();
begin
    perform skiplane._check_number('limit', p_limit, 1, 10000);
    return query
    select skiplane.get_tenant(x.name) from (
        select n.tenant_id as name from skiplane.tenant_setting n
        union
        select k from jsonb_array_elements(d.tenants) e cross join lateral jsonb_object_keys(e) k
    ) x where x.name > p_after order by x.name limit p_limit;
end
$$;

comment on function skiplane.list_tenants(integer, text) is
'Tenants that have settings or waiting tasks (the 1,000 with most), each as get_tenant, by name after p_after.';

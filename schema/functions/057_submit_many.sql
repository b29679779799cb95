-- Submitting a mixed list.

create or replace function skiplane._object_template(p_object jsonb, p_now timestamptz) returns skiplane.task
language plpgsql volatile
as $$
begin
    perform skiplane._check_fields(p_object, array['task_type', 'payload', 'queue', 'priority', 'scheduled_at', 'delay_seconds',
        'max_retries', 'retry_backoff', 'retry_delay_seconds', 'retry_max_delay_seconds', 'retry_jitter', 'timeout_seconds',
        'idempotency_key', 'estimated_duration_seconds', 'concurrency_key', 'expires_at', 'callback_url', 'metadata'], 'task');
    return skiplane._task_template(
        skiplane._text_field(p_object, 'task_type', null),
        skiplane._text_field(p_object, 'queue', 'default'),
        skiplane._text_field(p_object, 'priority', 'medium'),
        skiplane._time_field(p_object, 'scheduled_at'),
        skiplane._number_field(p_object, 'delay_seconds', null),
        skiplane._integer_field(p_object, 'max_retries', 3),
        skiplane._text_field(p_object, 'retry_backoff', 'exponential'),
        skiplane._number_field(p_object, 'retry_delay_seconds', 5),
        skiplane._number_field(p_object, 'retry_max_delay_seconds', 3600),
        skiplane._text_field(p_object, 'retry_jitter', 'equal'),
        skiplane._number_field(p_object, 'timeout_seconds', null),
        skiplane._number_field(p_object, 'estimated_duration_seconds', null),
        skiplane._text_field(p_object, 'concurrency_key', null),
        skiplane._time_field(p_object, 'expires_at'),
        skiplane._text_field(p_object, 'callback_url', null),
        nullif(p_object -> 'metadata', 'null'), p_now);
end
$$;

comment on function skiplane._object_template(jsonb, timestamptz) is 'Reads the options of one submitted object.';

-- Tasks with equal options go in together. Keyed ones go one by one in the order of their keys: two callers that
-- use the same keys in different order must not wait for each other in a circle.
create or replace function skiplane.submit_tasks(p_tasks jsonb) returns setof skiplane.submitted
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_now timestamptz;
    t skiplane.task;
    s record;
    g record;
    v_done skiplane.submitted[] := '{}';
    v_start bigint := skiplane._first_place();
begin
    perform pg_current_xact_id();
    v_now := skiplane.clock();
    if p_tasks is null or jsonb_typeof(p_tasks) <> 'array' then
        perform skiplane._refuse('SK001', 'tasks', p_tasks::text, 'tasks is not an array', 'give a JSON array of task objects');
    end if;
    perform skiplane._check_fields(y.value, '{}', 'task')
    from jsonb_array_elements(p_tasks) as y (value) where jsonb_typeof(y.value) <> 'object';
    for g in
        select e.options, array_agg(e.ord order by e.ord) as ords, e.key,
            array_agg(coalesce(e.payload, '{}')::json order by e.ord) as payloads
        from (
            select x.value - '{payload,idempotency_key}'::text[] as options, x.value -> 'payload' as payload, x.ord,
                skiplane._text_field(x.value, 'idempotency_key', null) as key
            from jsonb_array_elements(p_tasks) with ordinality as x (value, ord)
        ) e
        group by e.options, e.key, case when e.key is not null then e.ord end
        order by coalesce(e.options -> 'metadata' ->> 'tenant_id', 'default'), e.key nulls first, min(e.ord)
    loop
        t := skiplane._object_template(g.options, v_now);
        perform skiplane._check_json(format('tasks[%s].payload', g.ords[p.n] - 1), p.value::text, 1048576)
        from unnest(g.payloads) with ordinality as p (value, n);
        s := skiplane._submit(t, g.payloads, case when g.key is not null then array[g.key] end,
            case when g.key is not null then skiplane._body(t, skiplane._time_field(g.options, 'scheduled_at'),
                skiplane._number_field(g.options, 'delay_seconds', null)) end,
            array(select v_start + o from unnest(g.ords) with ordinality as u (o, n) order by n));
        v_done := v_done || array(
            select skiplane._submitted(o.ord::integer, s.ids[o.n::integer], coalesce(s.duplicates[o.n::integer], false), t)
            from unnest(g.ords) with ordinality as o (ord, n));
    end loop;
    return query select d.* from unnest(v_done) d order by d.ordinal;
end
$$;

comment on function skiplane.submit_tasks(jsonb) is
'Submits an array of task objects, all or nothing: fields as the parameters of submit_task without p_. Answers one row per task, in order. A refusal names the field; nothing is stored then.';

-- Storing a workflow: its rows, and its tasks as PENDING, SCHEDULED (no dependencies) or BLOCKED.
-- Locks: the idempotency key, then inserts, which wait for nobody.

create or replace function skiplane._store_graph(
    p_ids uuid[], p_day date, p_names text[], p_triggers text[], p_froms integer[], p_tos integer[], p_delays double precision[]
) returns void language plpgsql volatile
as $$
declare v_shard smallint := skiplane.task_shard(p_ids[1]);
begin
    insert into skiplane.workflow_task (id, shard, day, workflow_id, name, run_when, delay_s, parents, children)
    select p_ids[x.ord + 1], v_shard, p_day, p_ids[1], x.name, x.run_when, x.delay_s, p.ids, c.ids
    from unnest(p_names, p_triggers, p_delays) with ordinality as x (name, run_when, delay_s, ord)
    left join (
        select e.target, array_agg(p_ids[e.source + 1] order by e.source) as ids
        from unnest(p_froms, p_tos) as e (source, target) group by e.target) p on p.target = x.ord
    left join (
        select e.source, array_agg(p_ids[e.target + 1] order by e.target) as ids
        from unnest(p_froms, p_tos) as e (source, target) group by e.source) c on c.source = x.ord;
end
$$;

comment on function skiplane._store_graph(uuid[], date, text[], text[], integer[], integer[], double precision[]) is
'Stores who waits for whom.';

-- p_numbers: which template each task has; p_waiting: how many dependencies.
create or replace function skiplane._store_members(
    p_ids uuid[], p_templates skiplane.task[], p_numbers integer[], p_delays double precision[], p_later boolean[],
    p_waiting integer[], p_triggers text[], p_payloads json[]
) returns void language plpgsql volatile
as $$
declare
    t skiplane.task;
    v_shard smallint := skiplane.task_shard(p_ids[1]);
    v_day date := p_templates[1].day;
    v_now timestamptz := p_templates[1].created_at;
    v_lanes bigint[];
    v_estimates integer[];
    v_expiries timestamptz[];
begin
    for v_number in 1 .. cardinality(p_templates) loop
        t := p_templates[v_number];
        v_lanes[v_number] := skiplane._lane_for(v_shard, t.queue, t.priority, t.tenant_id, t.task_type, t.concurrency_key);
        v_estimates[v_number] := t.estimate;
        v_expiries[v_number] := t.expires_at;
    end loop;
    if true = any (p_later) then
        perform skiplane._store_timer(p_ids[n.ord + 1], g.scheduled_at, 'SCHEDULED', null, n.payload,
            skiplane._member_template(g.template, v_shard, p_ids[1]), 0::smallint, 0)
        from unnest(p_numbers, p_waiting, p_payloads) with ordinality as n (number, waiting, payload, ord)
        join (
            select x as template, x.scheduled_at, x.created_at, row_number() over () as number from unnest(p_templates) as x
        ) g on g.number = n.number
        where n.waiting = 0 and g.scheduled_at > g.created_at;
    end if;
    insert into skiplane.task (
        id, shard, day, task_type, queue, priority, tenant_id, concurrency_key, estimate, payload, max_retries,
        retry_backoff, retry_delay_s, retry_max_delay_s, retry_jitter, timeout_s, expires_at,
        callback_url, metadata, workflow_id, scheduled_at, created_at)
    select p_ids[n.ord + 1], v_shard, g.day, g.task_type, g.queue, g.priority, g.tenant_id, g.concurrency_key, g.estimate,
        n.payload, g.max_retries, g.retry_backoff, g.retry_delay_s, g.retry_max_delay_s, g.retry_jitter,
        g.timeout_s, g.expires_at, g.callback_url, g.metadata, p_ids[1],
        case when p_delays[n.number] is not null then g.created_at else g.scheduled_at end, g.created_at
    from unnest(p_numbers, p_waiting, p_payloads) with ordinality as n (number, waiting, payload, ord)
    join unnest(p_templates) with ordinality as g on g.ordinality = n.number
    where g.scheduled_at <= g.created_at or n.waiting > 0;
    insert into skiplane.ready (id, shard, lane, due_at, estimate, day, attempt, fence, expires_at)
    select p_ids[n.ord + 1], v_shard, v_lanes[n.number], v_now, coalesce(v_estimates[n.number], 2147483647), v_day, 0, 0,
        v_expiries[n.number]
    from unnest(p_numbers, p_waiting) with ordinality as n (number, waiting, ord)
    where n.waiting = 0 and not p_later[n.number];
    insert into skiplane.blocked (id, shard, day, lane, estimate, expires_at, run_when, waiting)
    select p_ids[n.ord + 1], v_shard, v_day, case when not p_later[n.number] then v_lanes[n.number] end, v_estimates[n.number],
        v_expiries[n.number], n.run_when, n.waiting
    from unnest(p_numbers, p_waiting, p_triggers) with ordinality as n (number, waiting, run_when, ord)
    where n.waiting > 0;
    perform skiplane._wake(q.queue) from (select distinct g.queue from unnest(p_templates) as g) q;
end
$$;

comment on function skiplane._store_members(uuid[], skiplane.task[], integer[], double precision[], boolean[], integer[], text[], json[]) is
'Stores the tasks of a workflow: those without dependencies as any task, the others for later.';

create or replace function skiplane._member_template(p_template skiplane.task, p_shard smallint, p_workflow_id uuid)
returns skiplane.task language plpgsql immutable
as $$
declare t skiplane.task := p_template;
begin
    t.shard := p_shard;
    t.workflow_id := p_workflow_id;
    return t;
end
$$;

comment on function skiplane._member_template(skiplane.task, smallint, uuid) is 'A template as that of a workflow''s tasks.';

create or replace function skiplane.submit_workflow(
    p_name text, p_tasks jsonb, p_idempotency_key text default null, p_metadata jsonb default null
) returns jsonb language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
    set jit = off set plan_cache_mode = force_generic_plan
as $$
declare
    v_now timestamptz;
    v_tenant text;
    v_names text[];
    v_ids uuid[];
    v_id uuid;
    v_shard smallint;
    v_waiting integer[];
    v_place integer;
    e record;
    g record;
begin
    -- The id of the transaction comes before the clock: see refresh_lanes.
    perform pg_current_xact_id();
    v_now := skiplane.clock();
    perform skiplane._check_name('workflow_name', p_name);
    perform skiplane._check_metadata(p_metadata);
    v_tenant := coalesce(p_metadata ->> 'tenant_id', 'default');
    e := skiplane._read_graph(p_tasks);
    v_names := e.names;
    v_waiting := array_fill(0, array[cardinality(v_names)]);
    foreach v_place in array e.tos loop
        v_waiting[v_place] := v_waiting[v_place] + 1;
    end loop;
    g := skiplane._workflow_templates(p_tasks, p_metadata, v_tenant, v_now);
    v_shard := skiplane._pick_shard(v_tenant, p_idempotency_key);
    v_ids := skiplane._new_ids(v_shard, cardinality(v_names) + 1, v_now);
    if p_idempotency_key is not null then
        perform skiplane._check_name('idempotency_key', p_idempotency_key);
        v_id := (skiplane._reserve_keys(v_tenant, array[p_idempotency_key], v_ids[1:1],
            array[sha256(convert_to(jsonb_build_array('workflow', p_name, p_tasks)::text, 'UTF8'))], v_now))[1];
        if v_id <> v_ids[1] then
            return coalesce(skiplane._workflow_answer(v_id), jsonb_build_object('workflow_id', v_id, 'status', 'SUCCEEDED'))
                || '{"duplicate": true}';
        end if;
    end if;
    insert into skiplane.workflow (id, shard, day, name, tenant_id, task_count, idempotency_key, metadata, definition, created_at)
    values (v_ids[1], v_shard, (g.templates)[1].day, p_name, v_tenant, cardinality(v_names), p_idempotency_key, nullif(p_metadata, '{}'),
        e.definition, v_now);
    insert into skiplane.workflow_state (id, shard, day, status, pending)
    values (v_ids[1], v_shard, (g.templates)[1].day, 'RUNNING', cardinality(v_names));
    perform skiplane._store_graph(v_ids, (g.templates)[1].day, v_names, e.triggers, e.froms, e.tos, case
        when array_remove(g.delays, null) <> '{}' then
            array(select (g.delays)[n.number] from unnest(g.numbers) with ordinality as n (number, ord) order by n.ord) end);
    perform skiplane._store_members(v_ids, g.templates, g.numbers, g.delays, g.later, v_waiting, e.triggers, e.payloads);
    return jsonb_build_object('workflow_id', v_ids[1], 'workflow_name', p_name, 'status', 'RUNNING',
        'created_at', skiplane._utc_text(v_now), 'duplicate', false, 'tasks', (
            select jsonb_agg(jsonb_build_object('name', u.name, 'task_id', v_ids[u.ord + 1], 'status', case
                when u.waiting > 0 then 'BLOCKED' when (g.later)[u.number] then 'SCHEDULED' else 'PENDING' end) order by u.ord)
            from unnest(v_names, g.numbers, v_waiting) with ordinality as u (name, number, waiting, ord)));
end
$$;

comment on function skiplane.submit_workflow(text, jsonb, text, jsonb) is
'Submits a workflow, all or nothing: p_tasks is an array of up to 10000 objects {name, task_type, payload, dependencies: [names], trigger} with any option of submit_task; delay_seconds counts from the moment at which the dependencies are done. trigger: all_success (default) starts when all dependencies SUCCEEDED, all_done when all have ended, any_failed as soon as one has failed. p_metadata goes to every task, and its tenant_id is the workflow''s. The same p_idempotency_key with the same body answers with the first workflow (duplicate = true), with another body: SK004. Answers with workflow_id and, for each task, name, task_id and status. Bad input: SK001 or SK007, the field in COLUMN, the remedy in HINT.';

-- Storing workflows: their rows, and their tasks as PENDING, SCHEDULED (no dependencies) or BLOCKED.
-- Locks: idempotency keys in their order, then inserts, which wait for nobody.

create or replace function skiplane._store_graph(b skiplane.workflow_batch) returns void
language plpgsql volatile
as $$
declare v_delays double precision[];
begin
    if array_remove(b.delays, null) <> '{}' then
        v_delays := array(select (b.delays)[n.number] from unnest(b.numbers) with ordinality as n (number, ord) order by n.ord);
    end if;
    if cardinality(b.froms) <= 50 then
        -- For each task a look at all dependencies: for few that is less than to join.
        insert into skiplane.workflow_task (id, shard, day, workflow_id, name, run_when, delay_s, parents, children)
        select x.id, b.shard, b.day, x.owner, x.name, x.run_when, x.delay_s,
            nullif(array(select (b.ids)[e.source] from unnest(b.froms, b.tos) as e (source, target) where e.target = x.ord), '{}'),
            nullif(array(select (b.ids)[e.target] from unnest(b.froms, b.tos) as e (source, target) where e.source = x.ord), '{}')
        from unnest(b.ids, b.owners, b.names, b.triggers, v_delays) with ordinality as x (id, owner, name, run_when, delay_s, ord);
        return;
    end if;
    insert into skiplane.workflow_task (id, shard, day, workflow_id, name, run_when, delay_s, parents, children)
    select x.id, b.shard, b.day, x.owner, x.name, x.run_when, x.delay_s, p.ids, c.ids
    from unnest(b.ids, b.owners, b.names, b.triggers, v_delays) with ordinality as x (id, owner, name, run_when, delay_s, ord)
    left join (
        select e.target, array_agg((b.ids)[e.source] order by e.source) as ids
        from unnest(b.froms, b.tos) as e (source, target) group by e.target) p on p.target = x.ord
    left join (
        select e.source, array_agg((b.ids)[e.target] order by e.target) as ids
        from unnest(b.froms, b.tos) as e (source, target) group by e.source) c on c.source = x.ord;
end
$$;

comment on function skiplane._store_graph(skiplane.workflow_batch) is 'Stores who waits for whom.';

create or replace function skiplane._template_lanes(p_shard smallint, p_templates skiplane.task[], out lanes bigint[])
language plpgsql volatile
as $$
declare
    t skiplane.task;
    v_last skiplane.task;
begin
    foreach t in array p_templates loop
        if v_last.task_type is null
            or (t.queue, t.priority, t.tenant_id, t.task_type, coalesce(t.concurrency_key, ''))
            <> (v_last.queue, v_last.priority, v_last.tenant_id, v_last.task_type, coalesce(v_last.concurrency_key, ''))
        then
            lanes := lanes || skiplane._lane_for(p_shard, t.queue, t.priority, t.tenant_id, t.task_type, t.concurrency_key);
        else
            lanes := lanes || lanes[cardinality(lanes)];
        end if;
        v_last := t;
    end loop;
end
$$;

comment on function skiplane._template_lanes(smallint, skiplane.task[]) is 'The lane of each template.';

create or replace function skiplane._store_alike(b skiplane.workflow_batch, t skiplane.task) returns void
language plpgsql volatile
as $$
declare v_lane bigint := skiplane._lane_for(b.shard, t.queue, t.priority, t.tenant_id, t.task_type, t.concurrency_key);
begin
    insert into skiplane.task (
        id, shard, day, task_type, queue, priority, tenant_id, concurrency_key, estimate, payload, max_retries,
        retry_backoff, retry_delay_s, retry_max_delay_s, retry_jitter, timeout_s, expires_at,
        callback_url, metadata, workflow_id, scheduled_at, created_at)
    select n.id, b.shard, t.day, t.task_type, t.queue, t.priority, t.tenant_id, t.concurrency_key, t.estimate,
        n.payload, t.max_retries, t.retry_backoff, t.retry_delay_s, t.retry_max_delay_s, t.retry_jitter,
        t.timeout_s, t.expires_at, t.callback_url, t.metadata, n.owner, t.scheduled_at, t.created_at
    from unnest(b.ids, b.owners, b.payloads) as n (id, owner, payload);
    insert into skiplane.ready (id, shard, lane, due_at, estimate, day, attempt, fence, expires_at)
    select n.id, b.shard, v_lane, b.created_at, coalesce(t.estimate, 2147483647), b.day, 0, 0, t.expires_at
    from unnest(b.ids, b.waiting) as n (id, waiting) where n.waiting = 0;
    insert into skiplane.blocked (id, shard, day, lane, estimate, expires_at, run_when, waiting)
    select n.id, b.shard, b.day, v_lane, t.estimate, t.expires_at, n.run_when, n.waiting
    from unnest(b.ids, b.waiting, b.triggers) as n (id, waiting, run_when) where n.waiting > 0;
    perform skiplane._wake(t.queue);
end
$$;

comment on function skiplane._store_alike(skiplane.workflow_batch, skiplane.task) is
'_store_members where all tasks have the same options and wait for no time.';

create or replace function skiplane._store_members(b skiplane.workflow_batch) returns void
language plpgsql volatile
as $$
declare
    v_lanes bigint[];
    v_estimates integer[];
    v_expiries timestamptz[];
begin
    if cardinality(b.templates) = 1 and not (b.later)[1] and (b.delays)[1] is null then
        perform skiplane._store_alike(b, (b.templates)[1]);
        return;
    end if;
    v_lanes := skiplane._template_lanes(b.shard, b.templates);
    for v_number in 1 .. cardinality(b.templates) loop
        v_estimates[v_number] := (b.templates)[v_number].estimate;
        v_expiries[v_number] := (b.templates)[v_number].expires_at;
    end loop;
    if true = any (b.later) then
        perform skiplane._store_timer(n.id, g.scheduled_at, 'SCHEDULED', null, n.payload,
            skiplane._member_template(g.template, b.shard, n.owner), 0::smallint, 0)
        from unnest(b.ids, b.owners, b.numbers, b.waiting, b.payloads) as n (id, owner, number, waiting, payload)
        join (
            select x as template, x.scheduled_at, x.created_at, row_number() over () as number from unnest(b.templates) as x
        ) g on g.number = n.number
        where n.waiting = 0 and g.scheduled_at > g.created_at;
    end if;
    insert into skiplane.task (
        id, shard, day, task_type, queue, priority, tenant_id, concurrency_key, estimate, payload, max_retries,
        retry_backoff, retry_delay_s, retry_max_delay_s, retry_jitter, timeout_s, expires_at,
        callback_url, metadata, workflow_id, scheduled_at, created_at)
    select n.id, b.shard, g.day, g.task_type, g.queue, g.priority, g.tenant_id, g.concurrency_key, g.estimate,
        n.payload, g.max_retries, g.retry_backoff, g.retry_delay_s, g.retry_max_delay_s, g.retry_jitter,
        g.timeout_s, g.expires_at, g.callback_url, g.metadata, n.owner,
        case when (b.delays)[n.number] is not null then g.created_at else g.scheduled_at end, g.created_at
    from unnest(b.ids, b.owners, b.numbers, b.waiting, b.payloads) as n (id, owner, number, waiting, payload)
    join unnest(b.templates) with ordinality as g on g.ordinality = n.number
    where g.scheduled_at <= g.created_at or n.waiting > 0;
    insert into skiplane.ready (id, shard, lane, due_at, estimate, day, attempt, fence, expires_at)
    select n.id, b.shard, v_lanes[n.number], b.created_at, coalesce(v_estimates[n.number], 2147483647), b.day, 0, 0,
        v_expiries[n.number]
    from unnest(b.ids, b.numbers, b.waiting) as n (id, number, waiting)
    where n.waiting = 0 and not (b.later)[n.number];
    insert into skiplane.blocked (id, shard, day, lane, estimate, expires_at, run_when, waiting)
    select n.id, b.shard, b.day, case when not (b.later)[n.number] then v_lanes[n.number] end, v_estimates[n.number],
        v_expiries[n.number], n.run_when, n.waiting
    from unnest(b.ids, b.numbers, b.waiting, b.triggers) as n (id, number, waiting, run_when)
    where n.waiting > 0;
    perform skiplane._wake(q.queue) from (select distinct g.queue from unnest(b.templates) as g) q;
end
$$;

comment on function skiplane._store_members(skiplane.workflow_batch) is
'Stores the tasks of workflows: those without dependencies as any task, the others for later.';

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

create or replace function skiplane._store_batch(b skiplane.workflow_batch) returns void
language plpgsql volatile
as $$
begin
    insert into skiplane.workflow (id, shard, day, name, tenant_id, task_count, idempotency_key, metadata, definition, created_at)
    select w.id, b.shard, b.day, w.name, w.tenant_id, w.task_count, w.key, w.metadata, w.definition, b.created_at
    from unnest(b.workflows, b.titles, b.tenants, b.counts, b.keys, b.metadata, b.definitions)
        as w (id, name, tenant_id, task_count, key, metadata, definition);
    insert into skiplane.workflow_state (id, shard, day, status, pending)
    select w.id, b.shard, b.day, 'RUNNING', w.task_count from unnest(b.workflows, b.counts) as w (id, task_count);
    perform skiplane._store_graph(b);
    perform skiplane._store_members(b);
end
$$;

comment on function skiplane._store_batch(skiplane.workflow_batch) is 'Stores workflows that were read and checked.';

create or replace function skiplane._count_parents(p_tasks integer, p_tos integer[]) returns integer[]
language plpgsql immutable
as $$
declare
    v_waiting integer[] := array_fill(0, array[p_tasks]);
    v_place integer;
begin
    foreach v_place in array p_tos loop
        v_waiting[v_place] := v_waiting[v_place] + 1;
    end loop;
    return v_waiting;
end
$$;

comment on function skiplane._count_parents(integer, integer[]) is 'How many dependencies each task has.';

create or replace function skiplane._accepted(
    p_id uuid, p_name text, p_now timestamptz, p_ids uuid[], p_names text[], p_numbers integer[], p_waiting integer[], p_later boolean[]
) returns jsonb language plpgsql volatile
as $$
begin
    return jsonb_build_object('workflow_id', p_id, 'workflow_name', p_name, 'status', 'RUNNING',
        'created_at', skiplane._utc_text(p_now), 'duplicate', false, 'tasks', (
            select jsonb_agg(jsonb_build_object('name', u.name, 'task_id', u.id, 'status', case
                when u.waiting > 0 then 'BLOCKED' when p_later[u.number] then 'SCHEDULED' else 'PENDING' end) order by u.ord)
            from unnest(p_ids, p_names, p_numbers, p_waiting) with ordinality as u (id, name, number, waiting, ord)));
end
$$;

comment on function skiplane._accepted(uuid, text, timestamptz, uuid[], text[], integer[], integer[], boolean[]) is
'What the submission of a workflow answers.';

-- The id of the first workflow of this key: p_id when that is this one.
create or replace function skiplane._reserve_workflow_key(
    p_tenant_id text, p_key text, p_id uuid, p_name text, p_tasks jsonb, p_now timestamptz
) returns uuid language plpgsql volatile
as $$
begin
    perform skiplane._check_name('idempotency_key', p_key);
    return (skiplane._reserve_keys(p_tenant_id, array[p_key], array[p_id],
        array[sha256(convert_to(jsonb_build_array('workflow', p_name, p_tasks)::text, 'UTF8'))], p_now))[1];
end
$$;

comment on function skiplane._reserve_workflow_key(text, text, uuid, text, jsonb, timestamptz) is
'Makes an idempotency key belong to a workflow; answers with whose it is.';

create or replace function skiplane._duplicate_workflow(p_id uuid) returns jsonb
language sql volatile
as $$
    select coalesce(skiplane._workflow_answer(p_id), jsonb_build_object('workflow_id', p_id, 'status', 'SUCCEEDED')) || '{"duplicate": true}'
$$;

comment on function skiplane._duplicate_workflow(uuid) is 'What a submission with a key answers that was used before.';

create or replace function skiplane.submit_workflow(
    p_name text, p_tasks jsonb, p_idempotency_key text default null, p_metadata jsonb default null
) returns jsonb language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
    set jit = off set plan_cache_mode = force_generic_plan
as $$
declare
    v_now timestamptz;
    v_tenant text;
    v_count integer;
    v_ids uuid[];
    v_id uuid;
    b skiplane.workflow_batch;
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
    v_count := cardinality(e.names);
    g := skiplane._workflow_templates(p_tasks, p_metadata, v_tenant, v_now);
    b.shard := skiplane._pick_shard(v_tenant, p_idempotency_key);
    v_ids := skiplane._new_ids(b.shard, v_count + 1, v_now);
    if p_idempotency_key is not null then
        v_id := skiplane._reserve_workflow_key(v_tenant, p_idempotency_key, v_ids[1], p_name, p_tasks, v_now);
        if v_id <> v_ids[1] then
            return skiplane._duplicate_workflow(v_id);
        end if;
    end if;
    b.day := (g.templates)[1].day;
    b.created_at := v_now;
    b.workflows := v_ids[1:1];
    b.titles := array[p_name];
    b.tenants := array[v_tenant];
    b.counts := array[v_count];
    b.keys := array[p_idempotency_key];
    b.metadata := array[nullif(p_metadata, '{}')];
    b.definitions := array[e.definition];
    b.ids := v_ids[2:];
    b.owners := array_fill(v_ids[1], array[v_count]);
    b.names := e.names;
    b.triggers := e.triggers;
    b.waiting := skiplane._count_parents(v_count, e.tos);
    b.payloads := e.payloads;
    b.numbers := g.numbers;
    b.froms := e.froms;
    b.tos := e.tos;
    b.templates := g.templates;
    b.delays := g.delays;
    b.later := g.later;
    perform skiplane._store_batch(b);
    return skiplane._accepted(v_ids[1], p_name, v_now, b.ids, b.names, b.numbers, b.waiting, b.later);
end
$$;

comment on function skiplane.submit_workflow(text, jsonb, text, jsonb) is
'Submits a workflow, all or nothing: p_tasks is an array of up to 10000 objects {name, task_type, payload, dependencies: [names], trigger} with any option of submit_task; delay_seconds counts from the moment at which the dependencies are done. trigger: all_success (default) starts when all dependencies SUCCEEDED, all_done when all have ended, any_failed as soon as one has failed. p_metadata goes to every task, and its tenant_id is the workflow''s. The same p_idempotency_key with the same body answers with the first workflow (duplicate = true), with another body: SK004. Answers with workflow_id and, for each task, name, task_id and status. Bad input: SK001 or SK007, the field in COLUMN, the remedy in HINT.';

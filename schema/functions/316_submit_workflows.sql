-- Submitting many workflows in one call: what they share is read once, and their rows go in together.

-- A workflow of the same shape as the one before it: only its payloads need to be read. fine is false when it is another one.
create or replace function skiplane._same_shape(p_tasks jsonb, p_definition jsonb, out fine boolean, out payloads json[])
language plpgsql stable
as $$
declare v_definition jsonb;
begin
    fine := false;
    if p_definition is null or jsonb_typeof(p_tasks) is distinct from 'array' then
        return;
    end if;
    select jsonb_agg(case jsonb_typeof(x.value) when 'object' then x.value - 'payload' end),
        array_agg(coalesce(x.value -> 'payload', '{}')::json),
        bool_and(coalesce(pg_column_size(x.value -> 'payload') <= 32768 and not skiplane._is_beyond_json(x.value -> 'payload'), true))
    into v_definition, payloads, fine
    from jsonb_array_elements(p_tasks) as x (value);
    fine := coalesce(fine and v_definition = p_definition, false);
end
$$;

comment on function skiplane._same_shape(jsonb, jsonb) is 'The payloads of submitted tasks whose definition is one that was read before.';

create or replace function skiplane._check_workflows(p_workflows jsonb) returns void
language plpgsql volatile
as $$
begin
    if p_workflows is null or jsonb_typeof(p_workflows) <> 'array' then
        perform skiplane._refuse('SK001', 'workflows', p_workflows::text, 'workflows is not an array', 'give a JSON array of workflow objects');
    elsif jsonb_array_length(p_workflows) > 10000 then
        perform skiplane._refuse('SK007', 'workflows', jsonb_array_length(p_workflows) || ' workflows', 'these are too many workflows',
            'give at most 10000 in one call');
    end if;
end
$$;

comment on function skiplane._check_workflows(jsonb) is 'Refuses what is no list of workflows.';

create or replace function skiplane._shifted(p_places integer[], p_by integer) returns integer[]
language plpgsql immutable
as $$
begin
    if p_by = 0 then
        return p_places;
    end if;
    return array(select u.place + p_by from unnest(p_places) with ordinality as u (place, ord) order by u.ord);
end
$$;

comment on function skiplane._shifted(integer[], integer) is 'Places in one list as places in a longer one.';

create or replace function skiplane._add_workflow(
    b skiplane.workflow_batch, p_ids uuid[], p_name text, p_tenant_id text, p_key text, p_metadata jsonb, p_definition jsonb,
    p_names text[], p_triggers text[], p_payloads json[], p_waiting integer[], p_froms integer[], p_tos integer[], p_numbers integer[]
) returns skiplane.workflow_batch language plpgsql volatile
as $$
declare
    v_count integer := cardinality(p_ids) - 1;
    v_before integer := coalesce(cardinality(b.ids), 0);
begin
    b.workflows := array_append(b.workflows, p_ids[1]);
    b.titles := array_append(b.titles, p_name);
    b.tenants := array_append(b.tenants, p_tenant_id);
    b.counts := array_append(b.counts, v_count);
    b.keys := array_append(b.keys, p_key);
    b.metadata := array_append(b.metadata, nullif(p_metadata, '{}'));
    b.definitions := array_append(b.definitions, p_definition);
    b.ids := b.ids || p_ids[2:];
    b.owners := b.owners || array_fill(p_ids[1], array[v_count]);
    b.names := b.names || p_names;
    b.triggers := b.triggers || p_triggers;
    b.waiting := b.waiting || p_waiting;
    b.payloads := b.payloads || p_payloads;
    b.numbers := b.numbers || p_numbers;
    b.froms := b.froms || skiplane._shifted(p_froms, v_before);
    b.tos := b.tos || skiplane._shifted(p_tos, v_before);
    return b;
end
$$;

comment on function skiplane._add_workflow(
    skiplane.workflow_batch, uuid[], text, text, text, jsonb, jsonb, text[], text[], json[], integer[], integer[], integer[], integer[]
) is 'A batch with one workflow more.';

-- Keyed ones go in the order of their keys: two callers that use the same keys must not wait for each other in a circle.
create or replace function skiplane.submit_workflows(p_workflows jsonb) returns setof jsonb
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
    set jit = off set plan_cache_mode = force_generic_plan
as $$
declare
    v_now timestamptz;
    v_answers jsonb[];
    v_duplicates uuid[];
    b skiplane.workflow_batch;
    e record;
    g record;
    s record;
    r record;
    v_name text;
    v_key text;
    v_tenant text;
    v_definition jsonb;
    v_metadata jsonb;
    v_shard smallint;
    v_ids uuid[];
    v_id uuid;
    v_waiting integer[];
    v_base integer;
    v_place bigint;
    v_start bigint := skiplane._first_place();
    v_state text;
    v_field text;
    v_message text;
    v_detail text;
    v_hint text;
begin
    perform pg_current_xact_id();
    v_now := skiplane.clock();
    perform skiplane._check_workflows(p_workflows);
    for r in
        select x.value, x.value -> 'tasks' as tasks, nullif(x.value -> 'metadata', 'null') as metadata, x.ord
        from jsonb_array_elements(p_workflows) with ordinality as x (value, ord)
        order by coalesce(x.value -> 'metadata' ->> 'tenant_id', 'default'), x.value ->> 'idempotency_key' nulls first, x.ord
    loop
        v_place := r.ord - 1;
        perform skiplane._check_fields(r.value, '{workflow_name,tasks,idempotency_key,metadata}', 'workflow');
        v_name := skiplane._text_field(r.value, 'workflow_name', null);
        v_key := skiplane._text_field(r.value, 'idempotency_key', null);
        perform skiplane._check_name('workflow_name', v_name);
        perform skiplane._check_metadata(r.metadata);
        v_tenant := coalesce(r.metadata ->> 'tenant_id', 'default');
        s := skiplane._same_shape(r.tasks, v_definition);
        if not s.fine or r.metadata is distinct from v_metadata then
            e := skiplane._read_graph(r.tasks);
            g := skiplane._workflow_templates(r.tasks, r.metadata, v_tenant, v_now);
            s.payloads := e.payloads;
            v_definition := e.definition;
            v_metadata := r.metadata;
            v_waiting := skiplane._count_parents(cardinality(e.names), e.tos);
            v_base := null;
        end if;
        if cardinality(b.ids) >= 500 then
            perform skiplane._store_batch(b);
            b := null;
            v_base := null;
        end if;
        -- Those without a key are of one shard as long as they go in together.
        v_shard := case when v_key is null and b.shard is not null then b.shard else skiplane._pick_shard(v_tenant, v_key) end;
        v_ids := skiplane._new_ids(v_shard, null, v_now, array(
            select v_start + v_place * 10001 + n from generate_series(0, cardinality(e.names)) n));
        if v_key is not null then
            v_id := skiplane._reserve_workflow_key(v_tenant, v_key, v_ids[1], v_name, r.tasks, v_now);
            if v_id <> v_ids[1] then
                v_duplicates[r.ord] := v_id;
                continue;
            end if;
        end if;
        if b.shard <> v_shard then
            perform skiplane._store_batch(b);
            b := null;
            v_base := null;
        end if;
        if v_base is null then
            v_base := coalesce(cardinality(b.templates), 0);
            b.shard := v_shard;
            b.day := (g.templates)[1].day;
            b.created_at := v_now;
            b.templates := b.templates || g.templates;
            b.delays := b.delays || g.delays;
            b.later := b.later || g.later;
        end if;
        b := skiplane._add_workflow(b, v_ids, v_name, v_tenant, v_key, r.metadata, e.definition, e.names, e.triggers, s.payloads,
            v_waiting, e.froms, e.tos, skiplane._shifted(g.numbers, v_base));
        v_answers[r.ord] := skiplane._accepted(v_ids[1], v_name, v_now, v_ids[2:], e.names, g.numbers, v_waiting, g.later);
    end loop;
    v_place := null;
    if b.workflows is not null then
        perform skiplane._store_batch(b);
    end if;
    return query
    select coalesce(v_answers[n], skiplane._duplicate_workflow(v_duplicates[n])) from generate_series(1, jsonb_array_length(p_workflows)) n;
exception when sqlstate 'SK001' or sqlstate 'SK004' or sqlstate 'SK007' then
    get stacked diagnostics v_state = returned_sqlstate, v_field = column_name, v_message = message_text,
        v_detail = pg_exception_detail, v_hint = pg_exception_hint;
    perform skiplane._refuse(v_state, case when v_place is null then v_field else format('workflows[%s].%s', v_place, v_field) end,
        v_detail, v_message, v_hint);
end
$$;

comment on function skiplane.submit_workflows(jsonb) is
'Submits many workflows, all or nothing: an array of up to 10000 objects {workflow_name, tasks, idempotency_key, metadata}, each as submit_workflow takes it. Several times as fast as one by one, most of all where workflows follow each other that differ only in their payloads. One answer per workflow, in order, as that of submit_workflow. A refusal names the place in the list; nothing is stored then.';

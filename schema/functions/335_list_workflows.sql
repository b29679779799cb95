-- Lists of workflows, and results by name.

create or replace function skiplane.list_workflows(
    p_status text[] default null, p_name text default null, p_tenant_id text default null,
    p_created_after timestamptz default null, p_created_before timestamptz default null, p_limit integer default 50,
    p_cursor text default null
) returns setof jsonb language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off
as $$
declare
    v_before uuid := least(skiplane._read_cursor(p_cursor)::text, coalesce(skiplane._id_floor(p_created_before)::text, 'g'))::uuid;
    v_after uuid := coalesce(skiplane._id_floor(p_created_after), '00000000-0000-0000-0000-000000000000');
    v_found integer := 0;
    v_rows skiplane.workflow[];
    v_ids uuid[];
    w skiplane.workflow;
    v_status text;
begin
    perform skiplane._check_number('limit', p_limit, 1, 1000);
    foreach v_status in array coalesce(p_status, '{}') loop
        perform skiplane._check_choice('status', v_status, '{RUNNING,SUCCEEDED,FAILED,CANCELLED}');
    end loop;
    loop
        if p_status is null or 'SUCCEEDED' = any (p_status) then
            v_rows := array(
                select x from skiplane.workflow x
                where x.id < v_before and x.id >= v_after and (p_tenant_id is null or x.tenant_id = p_tenant_id)
                order by x.id desc limit p_limit);
        else
            v_ids := array(
                select i.id from unnest(p_status) as u (status)
                cross join lateral (
                    select s.id from skiplane.workflow_state s
                    where s.status = u.status and s.status <> 'SUCCEEDED' and s.id < v_before and s.id >= v_after
                    order by s.id desc limit p_limit) i
                order by i.id desc limit p_limit);
            v_rows := array(select skiplane._find_workflow(i) from unnest(v_ids) as i order by i desc);
        end if;
        exit when v_rows = '{}';
        foreach w in array v_rows loop
            v_before := w.id;
            continue when (p_name is not null and w.name <> p_name) or (p_tenant_id is not null and w.tenant_id <> p_tenant_id)
                or (p_status is not null and skiplane._workflow_document(w) ->> 'status' <> all (p_status));
            return next skiplane._workflow_document(w);
            v_found := v_found + 1;
            if v_found >= p_limit then
                return;
            end if;
        end loop;
        exit when cardinality(v_rows) < p_limit;
    end loop;
end
$$;

comment on function skiplane.list_workflows(text[], text, text, timestamptz, timestamptz, integer, text) is
'Workflows, newest first. The next page: pass the cursor of the last one. p_limit is 1 to 1000.';

create or replace function skiplane.dependency_results(p_task_id uuid)
returns table (name text, task_id uuid, status text, done boolean, result jsonb, error_type text, error_message text)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set plan_cache_mode = force_generic_plan
as $$
declare
    v_day date := skiplane._id_day(p_task_id);
    v_shard smallint := skiplane.task_shard(p_task_id);
    v_parents uuid[];
begin
    select m.parents into v_parents from skiplane.workflow_task m where m.id = p_task_id and m.shard = v_shard and m.day = v_day;
    if not found and (skiplane._find_task(p_task_id)).id is null and (skiplane._find_timer(p_task_id, v_shard)).id is null then
        perform skiplane._refuse_unknown(p_task_id);
    end if;
    return query
    select m.name, r.task_id, r.status, r.done, r.result, r.error_type, r.error_message
    from skiplane.workflow_task m join skiplane.get_results(v_parents) r on r.task_id = m.id
    where m.id = any (v_parents) and m.shard = v_shard and m.day = v_day
    order by m.id;
end
$$;

comment on function skiplane.dependency_results(uuid) is
'How the dependencies of a workflow''s task ended, with their results, by name. No rows for a task without dependencies; SK002 when unknown.';

create or replace function skiplane._name_in_workflow(p_task_id uuid, p_shard smallint) returns text
language plpgsql stable
    set jit = off set enable_seqscan = off set plan_cache_mode = force_generic_plan
as $$
declare v_day date := skiplane._id_day(p_task_id);
begin
    return (select m.name from skiplane.workflow_task m where m.id = p_task_id and m.shard = p_shard and m.day = v_day);
end
$$;

comment on function skiplane._name_in_workflow(uuid, smallint) is 'The name of a task in its workflow.';

create or replace function skiplane.workflow_status(p_workflow_id uuid) returns text
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set plan_cache_mode = force_generic_plan
as $$
declare
    v_status text;
    v_day date := skiplane._id_day(p_workflow_id);
    v_shard smallint := skiplane.task_shard(p_workflow_id);
begin
    select s.status into v_status from skiplane.workflow_state s where s.id = p_workflow_id and s.shard = v_shard and s.day = v_day;
    if v_status is null then
        perform skiplane._known_workflow(p_workflow_id);
    end if;
    return v_status;
end
$$;

comment on function skiplane.workflow_status(uuid) is
'RUNNING, SUCCEEDED, FAILED or CANCELLED: one look at one row, for callers that wait. SK002 when unknown.';

create or replace function skiplane.workflow_results(p_workflow_id uuid)
returns table (name text, task_id uuid, status text, done boolean, result jsonb, error_type text, error_message text)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_nestloop = off set plan_cache_mode = force_generic_plan
as $$
declare
    w skiplane.workflow := skiplane._known_workflow(p_workflow_id);
    v_last uuid := skiplane._id_after(w.id, w.task_count);
begin
    return query
    select n.name, n.task_id, n.status, o.id is not null, o.result::jsonb, n.error_type, n.error_message
    from skiplane._graph_nodes(w) n
    left join (
        select * from skiplane.outcome x where x.id > w.id and x.id <= v_last and x.shard = w.shard and x.day >= w.day) o on o.id = n.task_id
    order by n.task_id;
end
$$;

comment on function skiplane.workflow_results(uuid) is 'State and result of each task of a workflow, in the order of submission. SK002 when unknown.';

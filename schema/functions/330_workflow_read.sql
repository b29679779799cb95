-- Reading workflows.

create or replace function skiplane._id_after(p_id uuid, p_count integer) returns uuid
language sql immutable strict parallel safe
as $$
    select (left(p_id::text, 24) || lpad(to_hex(('x' || right(p_id::text, 12))::bit(48)::bigint + p_count), 12, '0'))::uuid
$$;

comment on function skiplane._id_after(uuid, integer) is 'The id so many places after another: a workflow''s tasks follow it.';

create or replace function skiplane._find_workflow(p_workflow_id uuid) returns skiplane.workflow
language plpgsql stable
    set jit = off set enable_seqscan = off set plan_cache_mode = force_generic_plan
as $$
declare
    w skiplane.workflow;
    v_day date := skiplane._id_day(p_workflow_id);
    v_shard smallint := skiplane.task_shard(p_workflow_id);
begin
    select * into w from skiplane.workflow x where x.id = p_workflow_id and x.shard = v_shard and x.day = v_day;
    return w;
end
$$;

comment on function skiplane._find_workflow(uuid) is 'The row of a workflow, or a row of NULLs.';

create or replace function skiplane._known_workflow(p_workflow_id uuid) returns skiplane.workflow
language plpgsql volatile
as $$
declare w skiplane.workflow := skiplane._find_workflow(p_workflow_id);
begin
    if w.id is null then
        perform skiplane._refuse('SK002', 'workflow_id', p_workflow_id::text, 'no workflow has this id',
            'look the id up with list_workflows; history is dropped after the retention');
    end if;
    return w;
end
$$;

comment on function skiplane._known_workflow(uuid) is 'The row of a workflow; SK002 when there is none.';

-- One statement, so that each task is seen in one place. Every place is looked at as a range of ids, once: whatever the
-- planner thinks of its size, nested loops would walk the range anew for each task.
create or replace function skiplane._graph_nodes(p_workflow skiplane.workflow)
returns table (
    task_id uuid, name text, task_type text, queue text, status text, run_when text, parents uuid[], attempt smallint,
    started_at timestamptz, completed_at timestamptz, next_attempt_at timestamptz, error_type text, error_message text
) language plpgsql volatile
    set jit = off set enable_seqscan = off set enable_nestloop = off set plan_cache_mode = force_generic_plan
as $$
declare
    v_first uuid := p_workflow.id;
    v_last uuid := skiplane._id_after(p_workflow.id, p_workflow.task_count);
    v_shard smallint := p_workflow.shard;
    v_day date := p_workflow.day;
begin
    return query
    select m.id, m.name, coalesce(t.task_type, w.task_type), coalesce(t.queue, w.queue),
        coalesce(o.status::text, case when b.id is not null then 'BLOCKED' end, w.status::text,
            case when r.id is not null then 'PENDING' end, 'RUNNING'),
        m.run_when, m.parents, coalesce(o.attempt, w.attempt, r.attempt, l.attempt, 0::smallint),
        coalesce(o.started_at, l.started_at), o.finished_at, w.due_at, o.error_type, o.error_message
    from skiplane.workflow_task m
    left join (select * from skiplane.task x where x.id > v_first and x.id <= v_last and x.shard = v_shard and x.day >= v_day) t on t.id = m.id
    left join (
        select * from skiplane.outcome x where x.id > v_first and x.id <= v_last and x.shard = v_shard and x.day >= v_day) o on o.id = m.id
    left join (select * from skiplane.ready x where x.id > v_first and x.id <= v_last and x.shard = v_shard) r on r.id = m.id
    left join (select * from skiplane.blocked x where x.id > v_first and x.id <= v_last and x.shard = v_shard) b on b.id = m.id
    left join (
        select * from skiplane.timer x where x.id > v_first and x.id <= v_last and x.shard = v_shard
        union all
        select * from skiplane.timer_far x where x.id > v_first and x.id <= v_last and x.shard = v_shard) w on w.id = m.id
    left join (
        select u.id, u.attempt, coalesce(u.started, x.claimed_at) as started_at
        from skiplane.lease x cross join unnest(x.ids, x.attempts, x.started) as u (id, attempt, started)
        where x.shard = v_shard and x.workflows and u.id > v_first and u.id <= v_last) l on l.id = m.id
    where m.id > v_first and m.id <= v_last and m.shard = v_shard and m.day = v_day;
end
$$;

comment on function skiplane._graph_nodes(skiplane.workflow) is 'The tasks of a workflow with their states, in no order.';

-- Without what makes it long.
create or replace function skiplane._workflow_document(p_workflow skiplane.workflow) returns jsonb
language plpgsql volatile
    set jit = off set enable_seqscan = off set plan_cache_mode = force_generic_plan
as $$
declare
    s skiplane.workflow_state;
    v_id uuid := p_workflow.id;
    v_shard smallint := p_workflow.shard;
    v_day date := p_workflow.day;
begin
    select * into s from skiplane.workflow_state x where x.id = v_id and x.shard = v_shard and x.day = v_day;
    return jsonb_build_object('workflow_id', v_id, 'workflow_name', p_workflow.name, 'status', s.status,
        'tenant_id', p_workflow.tenant_id, 'task_count', p_workflow.task_count, 'pending', s.pending,
        'created_at', skiplane._utc_text(p_workflow.created_at), 'completed_at', skiplane._utc_text(s.completed_at),
        'duration_ms', round((extract(epoch from s.completed_at - p_workflow.created_at) * 1000)::numeric, 3),
        'idempotency_key', p_workflow.idempotency_key, 'metadata', p_workflow.metadata, 'cursor', v_id);
end
$$;

comment on function skiplane._workflow_document(skiplane.workflow) is 'A workflow as lists show it.';

create or replace function skiplane._workflow_answer(p_workflow_id uuid) returns jsonb
language plpgsql volatile
as $$
declare
    w skiplane.workflow := skiplane._find_workflow(p_workflow_id);
    v_document jsonb;
begin
    if w.id is null then
        return null;
    end if;
    v_document := skiplane._workflow_document(w);
    return jsonb_build_object('workflow_id', w.id, 'workflow_name', w.name, 'status', v_document -> 'status',
        'created_at', v_document -> 'created_at', 'tasks', (
            select jsonb_agg(jsonb_build_object('name', n.name, 'task_id', n.task_id, 'status', n.status) order by n.task_id)
            from skiplane._graph_nodes(w) n));
end
$$;

comment on function skiplane._workflow_answer(uuid) is 'A workflow as its submission answers; NULL when retention has dropped it.';

create or replace function skiplane.get_workflow(p_workflow_id uuid) returns jsonb
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare w skiplane.workflow := skiplane._known_workflow(p_workflow_id);
begin
    return skiplane._workflow_document(w) - 'cursor' || jsonb_build_object(
        'tasks', (select jsonb_object_agg(x.status, x.count) from (
            select n.status, count(*) from skiplane._graph_nodes(w) n group by n.status) x),
        'dag_definition', w.definition,
        'actions', coalesce((
            select jsonb_agg(jsonb_build_object('at', skiplane._utc_text(a.at), 'actor', a.actor, 'verb', a.verb,
                'detail', a.detail) order by a.n)
            from skiplane.action a where a.task_id = p_workflow_id), '[]'));
end
$$;

comment on function skiplane.get_workflow(uuid) is
'One workflow: its state, times, definition, operator actions, and in tasks how many of its tasks are in which state. Its tasks one by one: workflow_graph. SK002 when unknown.';

create or replace function skiplane.workflow_graph(p_workflow_id uuid) returns jsonb
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    w skiplane.workflow := skiplane._known_workflow(p_workflow_id);
    v_nodes jsonb;
    v_edges jsonb;
begin
    with node as materialized (select * from skiplane._graph_nodes(w))
    select jsonb_agg(jsonb_build_object('name', n.name, 'task_id', n.task_id, 'task_type', n.task_type, 'queue', n.queue,
            'status', n.status, 'trigger', coalesce(n.run_when, 'all_success'), 'attempt', n.attempt,
            'started_at', skiplane._utc_text(n.started_at), 'completed_at', skiplane._utc_text(n.completed_at),
            'next_attempt_at', skiplane._utc_text(n.next_attempt_at), 'error_type', n.error_type, 'error_message', n.error_message)
            order by n.task_id), (
        select jsonb_agg(jsonb_build_object('source', p.name, 'target', c.name) order by p.task_id, c.task_id)
        from node c cross join lateral unnest(c.parents) as u (id) join node p on p.task_id = u.id)
    into v_nodes, v_edges from node n;
    return skiplane._workflow_document(w) - 'cursor' || jsonb_build_object('nodes', v_nodes, 'edges', coalesce(v_edges, '[]'));
end
$$;

comment on function skiplane.workflow_graph(uuid) is
'A workflow for a picture: nodes (each task with name, task_id, task_type, status, trigger, times, error) in the order of submission, and edges {source, target} from a dependency to what depends on it, by name. SK002 when unknown.';

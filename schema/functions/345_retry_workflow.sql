-- Retrying a workflow, or one task of it: ended -> BLOCKED, and on from there.
-- Locks: the workflow_state row first, then dead letters and outcomes of its tasks.

-- Puts ended tasks back to wait, counts anew what each waits for, and lets go those that wait for nothing.
-- The workflow_state row must be held: then every outcome that can be seen has been counted by those who depend on it.
create or replace function skiplane._revive(p_workflow_id uuid, p_ids uuid[]) returns void
language plpgsql volatile
    set jit = off set enable_seqscan = off set enable_nestloop = off set plan_cache_mode = force_generic_plan
as $$
declare
    v_day date := skiplane._id_day(p_workflow_id);
    v_shard smallint := skiplane.task_shard(p_workflow_id);
    v_now timestamptz := skiplane.clock();
    v_ids uuid[];
    v_days date[];
    v_fences integer[];
    v_children uuid[];
    v_failed integer;
    v_cancelled integer;
    v_why text[];
    s record;
begin
    with gone as (
        delete from skiplane.outcome o where o.id = any (p_ids) and o.shard = v_shard and o.day >= v_day
        returning o.id, o.day, o.fence, o.status, o.error_type
    )
    select array_agg(g.id), array_agg(g.day), array_agg(g.fence), count(*) filter (where g.status <> 'CANCELLED'),
        count(*) filter (where g.status = 'CANCELLED' and g.error_type is distinct from 'Skipped')
    into v_ids, v_days, v_fences, v_failed, v_cancelled from gone g;
    delete from skiplane.dead d where d.id = any (v_ids) and d.shard = v_shard;
    update skiplane.workflow_state x
    set pending = x.pending + cardinality(v_ids), failed = x.failed - v_failed, cancelled = x.cancelled - v_cancelled,
        stopped = false, status = 'RUNNING', completed_at = null
    where x.id = p_workflow_id and x.shard = v_shard and x.day = v_day;
    -- What is BLOCKED still has counted these ends: it is counted anew as well.
    v_children := array(
        select c.id from skiplane.workflow_task m cross join lateral unnest(m.children) as c (id)
        where m.id = any (v_ids) and m.shard = v_shard and m.day = v_day);
    with gone as (
        delete from skiplane.blocked b where b.id = any (v_children) and b.shard = v_shard returning b.id, b.day, b.fence
    )
    select v_ids || array_agg(g.id), v_days || array_agg(g.day), v_fences || array_agg(g.fence) into v_ids, v_days, v_fences from gone g;
    update skiplane.task t set expires_at = null
    where t.id = any (v_ids) and t.shard = v_shard and t.day >= v_day and t.expires_at <= v_now;
    insert into skiplane.blocked (id, shard, day, fence, run_when, waiting, failed, skipped)
    select u.id, v_shard, u.day, u.fence, m.run_when, c.waiting, c.failed, c.skipped
    from unnest(v_ids, v_days, v_fences) as u (id, day, fence)
    join skiplane.workflow_task m on m.id = u.id
    cross join lateral (
        select (count(*) filter (where o.id is null))::integer as waiting,
            (count(*) filter (where o.status <> 'SUCCEEDED' and o.error_type is distinct from 'Skipped'))::integer as failed,
            (count(*) filter (where o.status = 'CANCELLED' and o.error_type = 'Skipped'))::integer as skipped
        from unnest(m.parents) as p (id)
        left join skiplane.outcome o on o.id = p.id and o.id = any (m.parents) and o.shard = v_shard and o.day >= v_day
    ) c
    where m.id = any (v_ids) and m.shard = v_shard and m.day = v_day;
    -- Why those end that one of their other dependencies keeps from running.
    v_why := array(
        select (select min(e.reason) from unnest(p.reasons) as e (reason))
        from unnest(v_ids) with ordinality as u (id, ord)
        join skiplane.workflow_task m on m.id = u.id
        cross join lateral skiplane._ended_members(m.parents, v_day, v_shard) p
        where m.id = any (v_ids) and m.shard = v_shard and m.day = v_day order by u.ord);
    s := skiplane._step_blocked(v_ids, array_fill(0, array[cardinality(v_ids)]), array_fill(0, array[cardinality(v_ids)]),
        array_fill(0, array[cardinality(v_ids)]), v_why, array_fill(p_workflow_id, array[cardinality(v_ids)]), v_shard);
    if s.ids is not null then
        perform skiplane._carry_on(s.ids, s.workflows, s.kinds, s.reasons, v_day, v_shard);
    end if;
end
$$;

comment on function skiplane._revive(uuid, uuid[]) is 'Takes back how tasks of a workflow ended; they wait or run again, with a fresh budget of retries.';

create or replace function skiplane.retry_workflow(p_workflow_id uuid, p_reason text default null, p_actor text default null)
returns jsonb language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off
as $$
declare
    w skiplane.workflow := skiplane._known_workflow(p_workflow_id);
    v_last uuid := skiplane._id_after(w.id, w.task_count);
    s skiplane.workflow_state;
    v_ids uuid[];
begin
    perform pg_current_xact_id();
    s := skiplane._hold_workflow(p_workflow_id);
    if s.failed + s.cancelled = 0 then
        perform skiplane._refuse('SK003', 'workflow_id', p_workflow_id::text, format('no task of the workflow has failed: it is %s', s.status),
            'only what ended FAILED, DEAD or CANCELLED is run again');
    end if;
    v_ids := array(
        select o.id from skiplane.outcome o
        where o.id > w.id and o.id <= v_last and o.shard = w.shard and o.day >= w.day and o.status <> 'SUCCEEDED' order by o.id);
    perform skiplane._revive(p_workflow_id, v_ids);
    perform skiplane._log_action(p_workflow_id, p_actor, 'retry', jsonb_build_object('reason', p_reason, 'from', s.status,
        'tasks', cardinality(v_ids), 'finished_at', skiplane._utc_text(s.completed_at)));
    return skiplane.get_workflow(p_workflow_id);
end
$$;

comment on function skiplane.retry_workflow(uuid, text, text) is
'Runs again what ended FAILED, DEAD or CANCELLED in a workflow, with what was failed or skipped because of it; what SUCCEEDED stays. SK003 when nothing failed, SK002 when unknown.';

-- A task of a workflow comes back with all that did not run because of it.
create or replace function skiplane._retry_member(p_task skiplane.task, p_reason text, p_actor text) returns boolean
language plpgsql volatile
    set jit = off set enable_seqscan = off set plan_cache_mode = force_generic_plan
as $$
declare
    v_id uuid := p_task.id;
    v_shard smallint := p_task.shard;
    v_day date := skiplane._id_day(p_task.workflow_id);
    s skiplane.workflow_state := skiplane._hold_workflow(p_task.workflow_id);
    o skiplane.outcome;
    v_ids uuid[];
begin
    if s.id is null then
        return false;
    end if;
    select * into o from skiplane.outcome x where x.id = v_id and x.shard = v_shard and x.day >= v_day;
    if o.id is null or o.status = 'SUCCEEDED' then
        return false;
    elsif o.attempt = 0 and o.error_type in ('UpstreamFailed', 'Skipped') then
        perform skiplane._refuse('SK003', 'task_id', v_id::text, format('the task did not run: %s', o.error_message),
            'retry what failed before it, or the workflow with retry_workflow');
    end if;
    v_ids := array(
        with recursive down (id) as (
            select v_id
            union
            select c.id from down d
            join skiplane.workflow_task m on m.id = d.id and m.shard = v_shard and m.day = v_day
            cross join lateral unnest(m.children) as c (id)
            join skiplane.outcome x on x.id = c.id and x.shard = v_shard and x.day >= v_day
            where x.attempt = 0 and x.error_type in ('UpstreamFailed', 'Skipped')
        )
        select d.id from down d order by d.id);
    perform skiplane._revive(p_task.workflow_id, v_ids);
    perform skiplane._log_action(v_id, p_actor, 'retry', jsonb_build_object('reason', p_reason, 'from', o.status,
        'error_type', o.error_type, 'error_message', o.error_message, 'finished_at', skiplane._utc_text(o.finished_at)));
    return true;
end
$$;

comment on function skiplane._retry_member(skiplane.task, text, text) is
'Retries a task of a workflow; false when it has not ended, or its workflow is not known any more.';

-- One by one in the order of the ids, so that workflows are held in the order of theirs, each before its dead letters.
create or replace function skiplane._retry_dead_members(
    p_task_type text, p_queue text, p_tenant_id text, p_limit integer, p_actor text
) returns integer language plpgsql volatile
    set jit = off set enable_seqscan = off
as $$
declare
    d record;
    v_count integer := 0;
    v_after uuid := '00000000-0000-0000-0000-000000000000';
    v_more boolean := true;
begin
    while v_more and v_count < p_limit loop
        v_more := false;
        for d in
            select x.id, x.shard, (x.task ->> 'workflow_id')::uuid as workflow_id from skiplane.dead x
            where (p_task_type is null or x.task_type = p_task_type) and (p_queue is null or x.queue = p_queue)
                and (p_tenant_id is null or x.tenant_id = p_tenant_id)
                and x.task ->> 'workflow_id' is not null and x.id > v_after
            order by x.id limit p_limit - v_count
        loop
            v_more := true;
            v_after := d.id;
            perform skiplane._hold_workflow(d.workflow_id);
            -- Somebody else may have been here before.
            perform from skiplane.dead x where x.id = d.id and x.shard = d.shard for update;
            continue when not found;
            perform skiplane.retry_task(d.id, 'retry of all', p_actor);
            v_count := v_count + 1;
        end loop;
    end loop;
    return v_count;
end
$$;

comment on function skiplane._retry_dead_members(text, text, text, integer, text) is 'retry_dead_letters for tasks of workflows.';

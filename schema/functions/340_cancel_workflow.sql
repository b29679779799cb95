-- Cancelling a workflow, or a BLOCKED task of one.
-- Locks: as in 320: places of tasks (timer, ready, lease) first, then the workflow_state row, then what it guards.

create or replace function skiplane._hold_workflow(p_workflow_id uuid) returns skiplane.workflow_state
language plpgsql volatile
    set jit = off set enable_seqscan = off set plan_cache_mode = force_generic_plan
as $$
declare
    s skiplane.workflow_state;
    v_day date := skiplane._id_day(p_workflow_id);
    v_shard smallint := skiplane.task_shard(p_workflow_id);
begin
    select * into s from skiplane.workflow_state x where x.id = p_workflow_id and x.shard = v_shard and x.day = v_day for update;
    return s;
end
$$;

comment on function skiplane._hold_workflow(uuid) is 'Locks the state of a workflow; NULLs when it is none.';

-- A task that is not in blocked any more by the time the workflow is held must be looked for again, with the lock let go.
create or replace function skiplane._cancel_blocked(p_task skiplane.task, p_reason text) returns boolean
language plpgsql volatile
    set jit = off set enable_seqscan = off set plan_cache_mode = force_generic_plan
as $$
declare
    b skiplane.blocked;
    v_id uuid := p_task.id;
    v_shard smallint := p_task.shard;
begin
    if p_task.workflow_id is null
        or not exists (select from skiplane.blocked x where x.id = v_id and x.shard = v_shard) then
        return false;
    end if;
    perform skiplane._hold_workflow(p_task.workflow_id);
    delete from skiplane.blocked x where x.id = v_id and x.shard = v_shard returning * into b;
    if b.id is null then
        raise exception using errcode = 'SK900', message = 'released meanwhile';
    end if;
    perform skiplane._end_task(v_id, v_shard, b.day, 'CANCELLED', 0::smallint, b.fence, null, null, 'Cancelled', p_reason);
    return true;
exception when sqlstate 'SK900' then
    return false;
end
$$;

comment on function skiplane._cancel_blocked(skiplane.task, text) is 'Cancels a BLOCKED task; false when it is not BLOCKED (any more).';

-- All members that are neither ended nor BLOCKED: out of the places where they are, ended as CANCELLED. Again and again,
-- since what runs may release others, until a look finds nothing. Leases are taken in their order at the first look;
-- later ones are not waited for.
create or replace function skiplane._cancel_active(p_workflow skiplane.workflow, p_reason text) returns integer
language plpgsql volatile
    set jit = off set enable_seqscan = off set plan_cache_mode = force_generic_plan
as $$
declare
    v_first uuid := p_workflow.id;
    v_last uuid := skiplane._id_after(p_workflow.id, p_workflow.task_count);
    v_shard smallint := p_workflow.shard;
    v_total integer := 0;
    v_found integer;
    v_day date := skiplane._active_day(skiplane.clock());
    v_leases bigint[];
    w skiplane.timer;
    r skiplane.ready;
    l skiplane.lease;
begin
    loop
        v_found := 0;
        for w in
            delete from skiplane.timer x where x.id > v_first and x.id <= v_last and x.shard = v_shard returning *
        loop
            perform skiplane._cancel_waiting(w, v_day, p_reason);
            v_found := v_found + 1;
        end loop;
        for w in
            delete from skiplane.timer_far x where x.id > v_first and x.id <= v_last and x.shard = v_shard returning *
        loop
            perform skiplane._cancel_waiting(w, v_day, p_reason);
            v_found := v_found + 1;
        end loop;
        for r in delete from skiplane.ready x where x.id > v_first and x.id <= v_last and x.shard = v_shard returning * loop
            perform skiplane._end_task(r.id, v_shard, r.day, 'CANCELLED', r.attempt, r.fence, null, null, 'Cancelled', p_reason);
            v_found := v_found + 1;
        end loop;
        if v_leases is null then
            v_leases := array(
                select x.lease_id from skiplane.lease x
                where x.shard = v_shard and x.workflows and exists (select from unnest(x.ids) i where i > v_first and i <= v_last)
                order by x.lease_id for update);
        else
            v_leases := array(
                select x.lease_id from skiplane.lease x
                where x.shard = v_shard and x.workflows and exists (select from unnest(x.ids) i where i > v_first and i <= v_last)
                order by x.lease_id for update skip locked);
        end if;
        for l in select * from skiplane.lease x where x.lease_id = any (v_leases) and x.shard = v_shard order by x.lease_id loop
            v_found := v_found + skiplane._cancel_running(l, array(
                select i from unnest(l.ids) i where i > v_first and i <= v_last), p_reason);
        end loop;
        v_total := v_total + v_found;
        exit when v_found = 0;
    end loop;
    return v_total;
end
$$;

comment on function skiplane._cancel_active(skiplane.workflow, text) is 'Cancels the tasks of a workflow that wait for a time or a worker, or run; how many.';

create or replace function skiplane._cancel_waiting(p_row skiplane.timer, p_day date, p_reason text) returns void
language plpgsql volatile
as $$
declare t skiplane.task;
begin
    if p_row.status = 'SCHEDULED' then
        t := skiplane._timer_task(p_row, p_day);
        insert into skiplane.task select t.*;
    end if;
    perform skiplane._end_task(p_row.id, p_row.shard, coalesce(p_row.day, p_day), 'CANCELLED', p_row.attempt, p_row.fence, null, null,
        'Cancelled', p_reason);
end
$$;

comment on function skiplane._cancel_waiting(skiplane.timer, date, text) is 'Ends a task whose waiting row was taken out as CANCELLED.';

create or replace function skiplane._cancel_running(p_lease skiplane.lease, p_ids uuid[], p_reason text) returns integer
language plpgsql volatile
as $$
declare g record;
begin
    g := skiplane._leave_lease(p_lease.worker_id, p_lease.lease_id, p_ids, p_lease.shard);
    if g.ids is null then
        return 0;
    end if;
    perform skiplane._end_task(u.id, p_lease.shard, u.day, 'CANCELLED', u.attempt, u.fence, coalesce(u.started, g.claimed_at),
        p_lease.worker_id, 'Cancelled', p_reason)
    from unnest(g.ids, g.days, g.attempts, g.fences, g.started) as u (id, day, attempt, fence, started);
    insert into skiplane.attempt (id, shard, day, fence, attempt, outcome, worker_id, started_at, finished_at, error_type, error_message)
    select u.id, p_lease.shard, u.day, u.fence, u.attempt, 'cancelled', p_lease.worker_id, coalesce(u.started, g.claimed_at),
        skiplane.clock(), 'Cancelled', p_reason
    from unnest(g.ids, g.days, g.attempts, g.fences, g.started) as u (id, day, attempt, fence, started);
    perform pg_notify(skiplane.worker_channel(p_lease.worker_id), i::text) from unnest(g.ids) i;
    return cardinality(g.ids);
end
$$;

comment on function skiplane._cancel_running(skiplane.lease, uuid[], text) is
'Ends running tasks of a lease as CANCELLED and tells their worker; how many. The lease must be locked.';

-- False, with everything undone, when a task was released or claimed between the looks.
create or replace function skiplane._cancel_all(p_workflow skiplane.workflow, p_reason text) returns boolean
language plpgsql volatile
    set jit = off set enable_seqscan = off set plan_cache_mode = force_generic_plan
as $$
declare
    v_first uuid := p_workflow.id;
    v_last uuid := skiplane._id_after(p_workflow.id, p_workflow.task_count);
    v_shard smallint := p_workflow.shard;
    v_day date := p_workflow.day;
    v_now timestamptz;
    v_count integer;
    s skiplane.workflow_state;
    b skiplane.blocked;
begin
    v_count := skiplane._cancel_active(p_workflow, p_reason);
    s := skiplane._hold_workflow(p_workflow.id);
    if s.status <> 'RUNNING' then
        perform skiplane._refuse('SK003', 'workflow_id', p_workflow.id::text, format('the workflow has ended already: %s', s.status),
            'nothing is left to cancel');
    end if;
    for b in delete from skiplane.blocked x where x.id > v_first and x.id <= v_last and x.shard = v_shard returning * loop
        perform skiplane._end_task(b.id, v_shard, b.day, 'CANCELLED', 0::smallint, b.fence, null, null, 'Cancelled', p_reason);
        v_count := v_count + 1;
    end loop;
    if v_count <> s.pending then
        raise exception using errcode = 'SK900', message = 'tasks moved meanwhile';
    end if;
    v_now := skiplane.clock();
    update skiplane.workflow_state x
    set pending = 0, cancelled = x.cancelled + v_count, stopped = true, status = 'CANCELLED', completed_at = v_now
    where x.id = v_first and x.shard = v_shard and x.day = v_day;
    perform skiplane._announce_workflows(array[v_first], v_day, v_shard, v_now);
    return true;
exception when sqlstate 'SK900' then
    return false;
end
$$;

comment on function skiplane._cancel_all(skiplane.workflow, text) is 'Cancels whatever of a workflow has not ended, all at one instant.';

create or replace function skiplane.cancel_workflow(p_workflow_id uuid, p_reason text default null, p_actor text default null)
returns jsonb language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    w skiplane.workflow := skiplane._known_workflow(p_workflow_id);
    v_reason text := coalesce(skiplane._clean_text(p_reason, 1000), 'workflow cancelled');
begin
    -- Two of these would take the same rows in different order.
    perform pg_advisory_xact_lock(hashtextextended('cancel ' || p_workflow_id, 1397442898));
    for v_try in 1 .. 100 loop
        exit when skiplane._cancel_all(w, v_reason);
        if v_try = 100 then
            raise exception using errcode = '40001', message = 'the workflow moves too fast to be cancelled', hint = 'try again';
        end if;
        perform pg_sleep(0.002 * v_try);
    end loop;
    perform skiplane._log_action(p_workflow_id, p_actor, 'cancel', jsonb_build_object('reason', p_reason));
    return skiplane.get_workflow(p_workflow_id);
end
$$;

comment on function skiplane.cancel_workflow(uuid, text, text) is
'Cancels all tasks of a workflow that have not ended, tasks that wait for a failure included; workers are told to stop what runs. SK003 when it has ended, SK002 when unknown.';

-- What the end of a task means for those that depend on it: BLOCKED -> PENDING or SCHEDULED (released), FAILED (a
-- dependency failed) or CANCELLED (skipped: it was for a failure, and there was none).
-- Every function that ends tasks calls _release_dependents once, in the same transaction, with all the tasks that it
-- has ended or might have: an end that can be seen has been dealt with.
-- Locks: what the task was in (lease, ready or timer) first, then the workflow_state rows in the order of their ids.
-- Whoever holds that row is alone with the workflow's blocked rows: two last dependencies that end at the same instant
-- come one after the other, and the second sees (read committed, a new statement) what the first has done.

create or replace function skiplane._next_step(p_run_when text, p_waiting integer, p_failed integer, p_skipped integer)
returns text language sql immutable parallel safe
as $$
    select case
        when p_run_when is null then
            case when p_failed > 0 then 'fail' when p_waiting > 0 then 'wait' when p_skipped > 0 then 'skip' else 'run' end
        when p_run_when = 'all_done' then case when p_waiting > 0 then 'wait' else 'run' end
        else case when p_failed > 0 then 'run' when p_waiting > 0 then 'wait' else 'skip' end
    end
$$;

comment on function skiplane._next_step(text, integer, integer, integer) is
'What becomes of a BLOCKED task: run, fail, skip or wait, by its trigger and how its dependencies have ended.';

create or replace function skiplane._release_dependents(p_ids uuid[], p_shard smallint, p_succeeded boolean default false)
returns void language plpgsql volatile
as $$
declare v_day date;
begin
    -- Ids of an earlier day are lower: the order of locks is that of the ids.
    for v_day in select distinct skiplane._id_day(i) as day from unnest(p_ids) i order by 1 loop
        perform skiplane._release_of_day(p_ids, v_day, p_shard, p_succeeded);
    end loop;
end
$$;

comment on function skiplane._release_dependents(uuid[], smallint, boolean) is
'Carries ends of tasks on to those that depend on them. p_ids may hold tasks that have not ended and tasks of no workflow; p_succeeded: all of them SUCCEEDED just now.';

-- The ended members, by the day of their workflow: kind is ok, failed, cancelled or skipped.
create or replace function skiplane._ended_members(
    p_ids uuid[], p_day date, p_shard smallint, out ids uuid[], out workflows uuid[], out kinds text[], out reasons text[]
) language plpgsql volatile
    set jit = off set enable_seqscan = off set enable_nestloop = off set plan_cache_mode = force_generic_plan
as $$
begin
    select array_agg(m.id), array_agg(m.workflow_id), array_agg(case
            when o.status = 'SUCCEEDED' then 'ok' when o.status <> 'CANCELLED' then 'failed'
            when o.error_type = 'Skipped' then 'skipped' else 'cancelled' end),
        array_agg(case when o.status = 'SUCCEEDED' then null when o.error_type in ('UpstreamFailed', 'Skipped') then o.error_message
            else skiplane._clean_text(format('task "%s" ended %s%s', m.name, o.status, ': ' || o.error_message), 1000) end)
    into ids, workflows, kinds, reasons
    from skiplane.workflow_task m
    -- The day of the outcome is that of the task, which may have become active later than its workflow.
    join skiplane.outcome o on o.id = m.id and o.shard = m.shard and o.day >= p_day
    where m.id = any (p_ids) and m.shard = p_shard and m.day = p_day
        and o.id = any (p_ids) and o.shard = p_shard;
end
$$;

comment on function skiplane._ended_members(uuid[], date, smallint) is 'Which of some tasks are of workflows and have ended, and how.';

create or replace function skiplane._release_of_day(p_ids uuid[], p_day date, p_shard smallint, p_succeeded boolean) returns void
language plpgsql volatile
    set jit = off set enable_seqscan = off set enable_nestloop = off set plan_cache_mode = force_generic_plan
as $$
declare
    e record;
    v_workflows uuid[];
    v_children uuid[];
    v_owners uuid[];
    v_ended integer[];
begin
    if p_succeeded then
        select array_agg(m.workflow_id) filter (where coalesce(c.ord, 1) = 1),
            array_agg(c.child) filter (where c.child is not null), array_agg(m.workflow_id) filter (where c.child is not null)
        into v_workflows, v_children, v_owners
        from skiplane.workflow_task m left join lateral unnest(m.children) with ordinality as c (child, ord) on true
        where m.id = any (p_ids) and m.shard = p_shard and m.day = p_day;
    else
        e := skiplane._ended_members(p_ids, p_day, p_shard);
        v_workflows := e.workflows;
    end if;
    if v_workflows is null then
        return;
    end if;
    perform from skiplane.workflow_state s
    where s.id = any (v_workflows) and s.shard = p_shard and s.day = p_day order by s.id for update;
    if not p_succeeded then
        perform skiplane._carry_on(e.ids, e.workflows, e.kinds, e.reasons, p_day, p_shard);
        return;
    end if;
    -- Who all these have succeeded for, told before the lock: a graph never changes.
    perform skiplane._count_ends(v_workflows, null, p_day, p_shard);
    if v_children is not null then
        select array_agg(x.child), array_agg(x.owner), array_agg(x.ended) into v_children, v_owners, v_ended
        from (select u.child, u.owner, count(*)::integer as ended from unnest(v_children, v_owners) as u (child, owner) group by 1, 2) x;
        e := skiplane._step_blocked(v_children, v_ended, null, null, null, v_owners, p_shard);
        if e.ids is not null then
            perform skiplane._carry_on(e.ids, e.workflows, e.kinds, e.reasons, p_day, p_shard);
        end if;
    end if;
end
$$;

comment on function skiplane._release_of_day(uuid[], date, smallint, boolean) is
'See _release_dependents: for the workflows of one day.';

-- One round for each step down the graph: a long chain is many rounds, not a deep recursion.
create or replace function skiplane._carry_on(
    p_ids uuid[], p_workflows uuid[], p_kinds text[], p_reasons text[], p_day date, p_shard smallint
) returns void language plpgsql volatile
    set jit = off set enable_seqscan = off set enable_nestloop = off set plan_cache_mode = force_generic_plan
as $$
declare
    v_ids uuid[] := p_ids;
    v_kinds text[] := p_kinds;
    v_reasons text[] := p_reasons;
    v_all_workflows uuid[] := p_workflows;
    v_all_kinds text[] := p_kinds;
    v_children uuid[];
    v_ended integer[];
    v_failed integer[];
    v_skipped integer[];
    v_why text[];
    v_owners uuid[];
    s record;
begin
    loop
        select array_agg(x.child), array_agg(x.ended), array_agg(x.failed), array_agg(x.skipped), array_agg(x.why), array_agg(x.workflow_id)
        into v_children, v_ended, v_failed, v_skipped, v_why, v_owners
        from (
            select c.child, m.workflow_id, count(*)::integer as ended, (count(*) filter (where u.kind in ('failed', 'cancelled')))::integer as failed,
                (count(*) filter (where u.kind = 'skipped'))::integer as skipped,
                coalesce(min(u.reason) filter (where u.kind in ('failed', 'cancelled')), min(u.reason)) as why
            from skiplane.workflow_task m
            cross join lateral unnest(m.children) as c (child)
            left join unnest(v_ids, v_kinds, v_reasons) as u (id, kind, reason) on u.id = m.id
            where m.id = any (v_ids) and m.shard = p_shard and m.day = p_day and m.children is not null
            group by c.child, m.workflow_id
        ) x;
        exit when v_children is null;
        s := skiplane._step_blocked(v_children, v_ended, v_failed, v_skipped, v_why, v_owners, p_shard);
        exit when s.ids is null;
        v_ids := s.ids;
        v_kinds := s.kinds;
        v_reasons := s.reasons;
        v_all_kinds := v_all_kinds || s.kinds;
        v_all_workflows := v_all_workflows || s.workflows;
    end loop;
    perform skiplane._count_ends(v_all_workflows, v_all_kinds, p_day, p_shard);
end
$$;

comment on function skiplane._carry_on(uuid[], uuid[], text[], text[], date, smallint) is
'Takes ends down the graph. The workflow_state rows must be held.';

-- Rows that are not there any more have been released or failed before: nothing is left to do for them.
create or replace function skiplane._step_blocked(
    p_ids uuid[], p_ended integer[], p_failed integer[], p_skipped integer[], p_why text[], p_workflows uuid[], p_shard smallint,
    out ids uuid[], out kinds text[], out reasons text[], out workflows uuid[]
) language plpgsql volatile
    set jit = off set enable_seqscan = off set enable_nestloop = off set plan_cache_mode = force_generic_plan
as $$
declare
    v_run skiplane.blocked[];
    v_days date[];
    v_fences integer[];
    v_gone integer;
    v_now timestamptz;
begin
    with gone as (
        delete from skiplane.blocked b
        using unnest(p_ids, p_ended, p_failed, p_skipped, p_why, p_workflows) as u (id, ended, failed, skipped, why, workflow_id)
        where u.id = b.id and b.id = any (p_ids) and b.shard = p_shard
            and skiplane._next_step(b.run_when, b.waiting - u.ended, b.failed + coalesce(u.failed, 0), b.skipped + coalesce(u.skipped, 0)) <> 'wait'
        returning b.id, b.day, b.fence, b.run_when, u.why, u.workflow_id, case when skiplane._next_step(
            b.run_when, b.waiting - u.ended, b.failed + coalesce(u.failed, 0), b.skipped + coalesce(u.skipped, 0)) = 'run' then b end as run,
            b.failed + coalesce(u.failed, 0) as failed
    )
    select count(*), array_agg(g.run) filter (where (g.run).id is not null),
        array_agg(g.id) filter (where (g.run).id is null), array_agg(g.day) filter (where (g.run).id is null),
        array_agg(g.fence) filter (where (g.run).id is null),
        array_agg(case when g.failed > 0 then 'failed' else 'skipped' end) filter (where (g.run).id is null),
        array_agg(case when g.failed > 0 or g.why is not null then g.why when g.run_when is null then 'a dependency was skipped'
            else 'no dependency failed' end) filter (where (g.run).id is null),
        array_agg(g.workflow_id) filter (where (g.run).id is null)
    into v_gone, v_run, ids, v_days, v_fences, kinds, reasons, workflows
    from gone g;
    if v_gone < cardinality(p_ids) then
        update skiplane.blocked b
        set waiting = b.waiting - u.ended, failed = b.failed + coalesce(u.failed, 0), skipped = b.skipped + coalesce(u.skipped, 0)
        from unnest(p_ids, p_ended, p_failed, p_skipped) as u (id, ended, failed, skipped)
        where b.id = u.id and b.id = any (p_ids) and b.shard = p_shard;
    end if;
    if v_run is not null then
        perform skiplane._release(v_run, p_shard);
    end if;
    if ids is not null then
        v_now := skiplane.clock();
        insert into skiplane.outcome (id, shard, day, status, attempt, fence, finished_at, error_type, error_message)
        select u.id, p_shard, u.day, case u.kind when 'failed' then 'FAILED' else 'CANCELLED' end::skiplane.task_status, 0, u.fence, v_now,
            case u.kind when 'failed' then 'UpstreamFailed' else 'Skipped' end, u.reason
        from unnest(ids, v_days, v_fences, kinds, reasons) as u (id, day, fence, kind, reason);
    end if;
end
$$;

comment on function skiplane._step_blocked(uuid[], integer[], integer[], integer[], text[], uuid[], smallint) is
'One step down the graph: counts ended dependencies (how many in all, failed, skipped), releases what may run, ends what cannot. The latter come back.';

-- A blocked row holds what its ready row needs; its lane may have been closed meanwhile.
create or replace function skiplane._release(p_rows skiplane.blocked[], p_shard smallint) returns void
language plpgsql volatile
    set jit = off set enable_seqscan = off set enable_nestloop = off set plan_cache_mode = force_generic_plan
as $$
declare
    v_now timestamptz;
    v_lanes bigint[] := array(select distinct r.lane from unnest(p_rows) r where r.lane is not null);
    v_open bigint[];
    v_queues text[];
begin
    perform pg_current_xact_id();
    v_now := skiplane.clock();
    if current_setting('transaction_isolation') = 'read committed' then
        select array_agg(l.lane), array_agg(distinct l.queue) into v_open, v_queues from skiplane.lane l
        where l.lane = any (v_lanes) and l.shard = p_shard and l.closed_at is null;
    end if;
    if v_open is not null then
        insert into skiplane.ready (id, shard, lane, due_at, estimate, day, attempt, fence, expires_at)
        select r.id, p_shard, r.lane, v_now, coalesce(r.estimate, 2147483647), r.day, 0, r.fence, r.expires_at
        from unnest(p_rows) as r where r.lane = any (v_open);
        perform skiplane._wake(q) from unnest(v_queues) q;
    end if;
    if v_open is null or exists (select from unnest(p_rows) r where r.lane is null or r.lane <> all (v_open)) then
        perform skiplane._release_by_task(r.id, r.day, r.fence, p_shard)
        from unnest(p_rows) r where v_open is null or r.lane is null or r.lane <> all (v_open);
    end if;
end
$$;

comment on function skiplane._release(skiplane.blocked[], smallint) is 'Makes BLOCKED tasks PENDING, or SCHEDULED where their time has not come.';

-- What has never run and is to wait for a time yet becomes SCHEDULED: whole, as any task, so its row goes.
create or replace function skiplane._release_by_task(p_id uuid, p_day date, p_fence integer, p_shard smallint) returns void
language plpgsql volatile
    set jit = off set enable_seqscan = off set plan_cache_mode = force_generic_plan
as $$
declare
    t skiplane.task;
    v_now timestamptz := skiplane.clock();
    v_delay double precision;
    v_workflow_day date := skiplane._id_day(p_id);
begin
    select * into t from skiplane.task x where x.id = p_id and x.shard = p_shard and x.day = p_day;
    select m.delay_s into v_delay from skiplane.workflow_task m where m.id = p_id and m.shard = p_shard and m.day = v_workflow_day;
    t.scheduled_at := greatest(t.scheduled_at, v_now + make_interval(secs => v_delay));
    if t.scheduled_at > v_now and p_fence = 0 then
        delete from skiplane.task x where x.id = p_id and x.shard = p_shard and x.day = p_day;
        perform skiplane._store_timer(t.id, t.scheduled_at, 'SCHEDULED', t.idempotency_key, t.payload, t, 0::smallint, 0);
        return;
    end if;
    perform skiplane._put_ready(t, v_now, 0::smallint, p_fence);
end
$$;

comment on function skiplane._release_by_task(uuid, date, integer, smallint) is
'Releases one BLOCKED task from its task row: its lane is not known, or it waits for a time.';

create or replace function skiplane._count_ends(p_workflows uuid[], p_kinds text[], p_day date, p_shard smallint) returns void
language plpgsql volatile
    set jit = off set enable_seqscan = off set enable_nestloop = off set plan_cache_mode = force_generic_plan
as $$
declare v_now timestamptz := skiplane.clock();
begin
    update skiplane.workflow_state s
    set pending = s.pending - u.ended, failed = s.failed + u.failed, cancelled = s.cancelled + u.cancelled,
        status = case when s.pending > u.ended then 'RUNNING' when s.stopped then 'CANCELLED'
            when s.failed + u.failed > 0 then 'FAILED' when s.cancelled + u.cancelled > 0 then 'CANCELLED' else 'SUCCEEDED' end,
        completed_at = case when s.pending <= u.ended then v_now end
    from (
        select w.id, count(*)::integer as ended, (count(*) filter (where w.kind = 'failed'))::integer as failed,
            (count(*) filter (where w.kind = 'cancelled'))::integer as cancelled
        from unnest(p_workflows, p_kinds) as w (id, kind) group by w.id
    ) u
    where s.id = u.id and s.id = any (p_workflows) and s.shard = p_shard and s.day = p_day;
end
$$;

comment on function skiplane._count_ends(uuid[], text[], date, smallint) is 'Counts ended tasks of workflows whose rows are held; the last one ends the workflow.';

create or replace function skiplane._release_after(p_leases skiplane.lease[], p_shard smallint) returns void
language plpgsql volatile
as $$
declare v_ids uuid[] := array(select i from unnest(p_leases) l cross join lateral unnest(l.ids) as u (i) where l.workflows);
begin
    if v_ids <> '{}' then
        perform skiplane._release_dependents(v_ids, p_shard);
    end if;
end
$$;

comment on function skiplane._release_after(skiplane.lease[], smallint) is
'_release_dependents for tasks of leases that are over: those without workflows cost nothing.';

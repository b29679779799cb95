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
begin
    if p_succeeded then
        select array_agg(m.id) as ids, array_agg(m.workflow_id) as workflows, null::text[] as kinds, null::text[] as reasons
        into e from skiplane.workflow_task m
        where m.id = any (p_ids) and m.shard = p_shard and m.day = p_day;
    else
        e := skiplane._ended_members(p_ids, p_day, p_shard);
    end if;
    if e.ids is null then
        return;
    end if;
    v_workflows := e.workflows;
    perform from skiplane.workflow_state s
    where s.id = any (v_workflows) and s.shard = p_shard and s.day = p_day order by s.id for update;
    perform skiplane._carry_on(e.ids, e.workflows, e.kinds, e.reasons, p_day, p_shard);
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
    v_parents uuid[];
    s record;
begin
    loop
        select array_agg(x.child), array_agg(x.ended), array_agg(x.failed), array_agg(x.skipped), array_agg(x.why), array_agg(x.workflow_id)
        into v_children, v_ended, v_failed, v_skipped, v_why, v_parents
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
        s := skiplane._step_blocked(v_children, v_ended, v_failed, v_skipped, v_why, v_parents, p_shard);
        exit when s.ids is null;
        v_ids := s.ids;
        v_kinds := s.kinds;
        v_reasons := s.reasons;
        v_all_kinds := coalesce(v_all_kinds, array_fill('ok'::text, array[cardinality(v_all_workflows)])) || s.kinds;
        v_all_workflows := v_all_workflows || s.workflows;
    end loop;
    perform skiplane._count_ends(v_all_workflows, v_all_kinds, p_day, p_shard);
end
$$;

comment on function skiplane._carry_on(uuid[], uuid[], text[], text[], date, smallint) is
'Takes ends down the graph. The workflow_state rows must be held. p_kinds NULL: all of them SUCCEEDED.';

-- Rows that are not there any more have been released or failed before: nothing is left to do for them.
create or replace function skiplane._step_blocked(
    p_ids uuid[], p_ended integer[], p_failed integer[], p_skipped integer[], p_why text[], p_workflows uuid[], p_shard smallint,
    out ids uuid[], out kinds text[], out reasons text[], out workflows uuid[]
) language plpgsql volatile
    set jit = off set enable_seqscan = off set enable_nestloop = off set plan_cache_mode = force_generic_plan
as $$
declare
    v_waiting uuid[];
    v_gone uuid[];
    v_run skiplane.blocked[];
    v_rows skiplane.blocked[];
    v_now timestamptz;
begin
    select array_agg(b.id) filter (where x.step = 'wait'), array_agg(b.id) filter (where x.step <> 'wait'),
        array_agg(b) filter (where x.step = 'run'), array_agg(b) filter (where x.step in ('fail', 'skip')),
        array_agg(b.id) filter (where x.step in ('fail', 'skip')),
        array_agg(case x.step when 'fail' then 'failed' else 'skipped' end) filter (where x.step in ('fail', 'skip')),
        array_agg(case x.step when 'fail' then u.why
            else coalesce(u.why, case when b.run_when is null then 'a dependency was skipped' else 'no dependency failed' end) end) filter (where x.step in ('fail', 'skip')),
        array_agg(u.workflow_id) filter (where x.step in ('fail', 'skip'))
    into v_waiting, v_gone, v_run, v_rows, ids, kinds, reasons, workflows
    from skiplane.blocked b
    join unnest(p_ids, p_ended, p_failed, p_skipped, p_why, p_workflows) as u (id, ended, failed, skipped, why, workflow_id) on u.id = b.id
    cross join lateral skiplane._next_step(b.run_when, b.waiting - u.ended, b.failed + u.failed, b.skipped + u.skipped) as x (step)
    where b.id = any (p_ids) and b.shard = p_shard;
    if v_waiting is not null then
        update skiplane.blocked b
        set waiting = b.waiting - u.ended, failed = b.failed + u.failed, skipped = b.skipped + u.skipped
        from unnest(p_ids, p_ended, p_failed, p_skipped) as u (id, ended, failed, skipped)
        where b.id = u.id and b.id = any (v_waiting) and b.shard = p_shard;
    end if;
    if v_gone is null then
        return;
    end if;
    delete from skiplane.blocked b where b.id = any (v_gone) and b.shard = p_shard;
    if v_run is not null then
        perform skiplane._release(v_run, p_shard);
    end if;
    if ids is not null then
        v_now := skiplane.clock();
        insert into skiplane.outcome (id, shard, day, status, attempt, fence, finished_at, error_type, error_message)
        select u.id, p_shard, r.day, case u.kind when 'failed' then 'FAILED' else 'CANCELLED' end::skiplane.task_status, 0, r.fence, v_now,
            case u.kind when 'failed' then 'UpstreamFailed' else 'Skipped' end, u.reason
        from unnest(ids, kinds, reasons) as u (id, kind, reason) join unnest(v_rows) as r on r.id = u.id;
    end if;
end
$$;

comment on function skiplane._step_blocked(uuid[], integer[], integer[], integer[], text[], uuid[], smallint) is
'One step down the graph: counts ended dependencies, releases what may run, ends what cannot. The latter come back.';

-- The task rows were written with the workflow; what is to wait for a time yet becomes SCHEDULED, whole, as any task.
create or replace function skiplane._release(p_rows skiplane.blocked[], p_shard smallint) returns void
language plpgsql volatile
    set jit = off set enable_seqscan = off set enable_nestloop = off set plan_cache_mode = force_generic_plan
as $$
declare
    v_now timestamptz;
    v_ids uuid[] := array(select r.id from unnest(p_rows) r);
    v_day date;
    v_later uuid[];
begin
    perform pg_current_xact_id();
    v_now := skiplane.clock();
    for v_day in select distinct r.day from unnest(p_rows) r loop
        v_later := array(
            select t.id from skiplane.task t join unnest(p_rows) as r on r.id = t.id
            where t.id = any (v_ids) and t.shard = p_shard and t.day = v_day and r.fence = 0
                and greatest(t.scheduled_at, v_now + make_interval(secs => r.delay_s)) > v_now);
        insert into skiplane.ready (id, shard, lane, due_at, estimate, day, attempt, fence, expires_at)
        select t.id, p_shard, l.lane, v_now, coalesce(t.estimate, 2147483647), t.day, 0, r.fence, t.expires_at
        from skiplane.task t
        join unnest(p_rows) as r on r.id = t.id
        join (
            select x.*, skiplane._lane_for(p_shard, x.queue, x.priority, x.tenant_id, x.task_type, x.concurrency_key) as lane
            from (
                select distinct y.queue, y.priority, y.tenant_id, y.task_type, y.concurrency_key from skiplane.task y
                where y.id = any (v_ids) and y.shard = p_shard and y.day = v_day
            ) x
        ) l on l.queue = t.queue and l.priority = t.priority and l.tenant_id = t.tenant_id and l.task_type = t.task_type
            and l.concurrency_key is not distinct from t.concurrency_key
        where t.id = any (v_ids) and t.shard = p_shard and t.day = v_day and t.id <> all (v_later);
        perform skiplane._wake(q.queue) from (
            select distinct y.queue from skiplane.task y
            where y.id = any (v_ids) and y.shard = p_shard and y.day = v_day and y.id <> all (v_later)) q;
        if v_later <> '{}' then
            perform skiplane._release_later(v_later, p_rows, v_day, v_now, p_shard);
        end if;
    end loop;
end
$$;

comment on function skiplane._release(skiplane.blocked[], smallint) is 'Makes BLOCKED tasks PENDING, or SCHEDULED where their time has not come.';

create or replace function skiplane._release_later(
    p_ids uuid[], p_rows skiplane.blocked[], p_day date, p_now timestamptz, p_shard smallint
) returns void language plpgsql volatile
    set jit = off set enable_seqscan = off set enable_nestloop = off set plan_cache_mode = force_generic_plan
as $$
declare
    t skiplane.task;
    v_delay double precision;
begin
    for t in delete from skiplane.task x where x.id = any (p_ids) and x.shard = p_shard and x.day = p_day returning * loop
        select r.delay_s into v_delay from unnest(p_rows) as r where r.id = t.id;
        t.scheduled_at := greatest(t.scheduled_at, p_now + make_interval(secs => coalesce(v_delay, 0)));
        perform skiplane._store_timer(t.id, t.scheduled_at, 'SCHEDULED', t.idempotency_key, t.payload, t, 0::smallint, 0);
    end loop;
end
$$;

comment on function skiplane._release_later(uuid[], skiplane.blocked[], date, timestamptz, smallint) is 'Makes BLOCKED tasks SCHEDULED.';

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

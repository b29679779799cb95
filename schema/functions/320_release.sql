-- What the end of a task means for those that depend on it: BLOCKED -> PENDING or SCHEDULED (released), FAILED (a
-- dependency failed) or CANCELLED (skipped: it was for a failure, and there was none).
-- Every function that ends tasks calls _release_dependents once, in the same transaction, with all the tasks that it
-- has ended or might have: an end that can be seen has been dealt with.
-- Locks: what the task was in (lease, ready or timer) first, then the workflow_state rows in the order of their ids.
-- The settings of plans are those of _release_dependents, once for all that it calls: setting them costs time.
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
    set jit = off set enable_seqscan = off set enable_nestloop = off set plan_cache_mode = force_generic_plan
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

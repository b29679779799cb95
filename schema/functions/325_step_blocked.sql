-- One step down a graph. The workflow_state rows are held by the caller, see 320.

-- Rows that are not there any more have been released or failed before: nothing is left to do for them.
create or replace function skiplane._step_blocked(
    p_ids uuid[], p_ended integer[], p_failed integer[], p_skipped integer[], p_why text[], p_workflows uuid[], p_shard smallint,
    out ids uuid[], out kinds text[], out reasons text[], out workflows uuid[]
) language plpgsql volatile
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
        perform skiplane._announce_ends(ids, d.day, p_shard, false) from (select distinct u.day from unnest(v_days) as u (day)) d;
    end if;
end
$$;

comment on function skiplane._step_blocked(uuid[], integer[], integer[], integer[], text[], uuid[], smallint) is
'One step down the graph: counts ended dependencies (how many in all, failed, skipped), releases what may run, ends what cannot. The latter come back.';

-- A blocked row holds what its ready row needs; its lane may have been closed meanwhile.
create or replace function skiplane._release(p_rows skiplane.blocked[], p_shard smallint) returns void
language plpgsql volatile
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
    perform skiplane._announce_workflows(p_workflows, p_day, p_shard, v_now);
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

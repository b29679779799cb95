-- The watchdog: leases that ran out, time-outs that their worker did not enforce, tasks that expired.
-- Bounded batches, SKIP LOCKED, leases in the order in which they end.

create or replace function skiplane.sweep_leases(
    p_limit integer default 20, p_after timestamptz default null, p_shard smallint default 0,
    out returned integer, out after timestamptz
) language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off
    set enable_sort = off set plan_cache_mode = force_generic_plan
as $$
declare
    v_now timestamptz := skiplane.clock();
    v_ended skiplane.lease[] := '{}';
    l skiplane.lease;
    v_fellows uuid[];
    v_seen uuid[] := '{}';
    v_company boolean;
begin
    returned := 0;
    for l in
        select * from skiplane.lease x
        where x.shard = p_shard and x.until < v_now and x.until >= coalesce(p_after, '-infinity')
        order by x.until limit p_limit for update skip locked
    loop
        v_fellows := skiplane._fellow_workers(l.worker_id);
        v_company := cardinality(l.ids) > 1 or l.worker_id = any (v_seen) or exists (
            select from skiplane.lease y where y.worker_id = any (v_fellows) and y.shard = p_shard
                and y.until < v_now and y.lease_id <> l.lease_id);
        v_seen := v_seen || v_fellows;
        perform skiplane._end_lease(l, jsonb_build_object('kind', 'lost', 'error_type', 'WorkerLost',
            'error_message', 'worker lost: its lease ran out' || case when v_company then ' (excused: others were lost with it)' else '' end, 'swept', true, 'excused', v_company));
        returned := returned + cardinality(l.ids);
        v_ended := v_ended || l;
    end loop;
    for l in
        select * from skiplane.lease x
        where x.shard = p_shard and x.kill_at < v_now and x.kill_at >= coalesce(p_after, '-infinity')
        order by x.kill_at limit p_limit for update skip locked
    loop
        returned := returned + skiplane._end_overdue(l, v_now);
        v_ended := v_ended || l;
    end loop;
    perform skiplane._release_after(v_ended, p_shard);
    -- A lease that commits late may end before this, but not for longer than a claim can take: the full look that
    -- callers make now and then (p_after NULL) finds it.
    -- Never past the present: the next claim may be for a shorter time than all that there are.
    after := least(v_now, (
        select x.until from skiplane.lease x where x.shard = p_shard and x.until >= coalesce(p_after, '-infinity')
        order by x.until limit 1), (
        select x.kill_at from skiplane.lease x where x.shard = p_shard and x.kill_at >= coalesce(p_after, '-infinity')
        order by x.kill_at limit 1)) - interval '5 seconds';
end
$$;

comment on function skiplane.sweep_leases(integer, timestamptz, smallint) is
'Takes tasks away from workers whose lease ran out or that let a time-out pass. The attempt counts. What was lost together with others, with a whole machine say, is excused: that uses up no retry, as often as the task has retries. From the second loss in a row on, a task waits by its retry rules. p_after: pass back what came, NULL now and then for a full look.';

create or replace function skiplane._fellow_workers(p_worker_id uuid) returns uuid[]
language sql stable
as $$
    select array_agg(distinct i) from (
        select w.worker_id from skiplane.worker v join skiplane.worker w on w.supervisor_id = v.supervisor_id
        where v.worker_id = p_worker_id
        union all
        select p_worker_id
    ) as x (i)
$$;

comment on function skiplane._fellow_workers(uuid) is 'A worker and the others of its supervisor: they run, and are lost, together.';

-- Only the tasks that are past their own time-out go; the others stay with their worker.
create or replace function skiplane._end_overdue(p_lease skiplane.lease, p_now timestamptz) returns integer
language plpgsql volatile
    set jit = off set enable_seqscan = off
as $$
declare
    v_late uuid[];
    g record;
    v_kill timestamptz;
begin
    -- Before the first heartbeat the claim stands for the start.
    select array_agg(t.id) into v_late
    from skiplane.task t
    join unnest(p_lease.ids, p_lease.started) as u (id, started) on u.id = t.id
    where t.id = any (p_lease.ids) and t.shard = p_lease.shard and t.day = any (p_lease.days)
        and coalesce(u.started, p_lease.claimed_at) + make_interval(secs => t.timeout_s + 10) < p_now
        and (u.started is not null or array_remove(p_lease.started, null) = '{}');
    if v_late is null then
        v_kill := skiplane._earliest_kill(p_lease);
        update skiplane.lease x set kill_at = case when v_kill is not null then greatest(v_kill, p_now + interval '1 second') end
        where x.lease_id = p_lease.lease_id and x.shard = p_lease.shard;
        return 0;
    end if;
    g := skiplane._leave_lease(p_lease.worker_id, p_lease.lease_id, v_late, p_lease.shard);
    perform skiplane._fail_task(u.id, p_lease.shard, u.day, u.attempt, u.fence, p_lease.worker_id,
        coalesce(u.started, p_lease.claimed_at),
        '{"kind": "timeout", "error_type": "TimeoutError", "error_message": "ran longer than timeout_seconds; stopped by the watchdog"}')
    from unnest(g.ids, g.days, g.attempts, g.fences, g.started) as u (id, day, attempt, fence, started);
    perform pg_notify(skiplane.worker_channel(p_lease.worker_id), i::text) from unnest(v_late) i;
    return cardinality(v_late);
end
$$;

comment on function skiplane._end_overdue(skiplane.lease, timestamptz) is 'Fails the tasks of a lease that are past their time-out and grace.';

create or replace function skiplane.expire_tasks(p_limit integer default 1000, p_shard smallint default 0) returns integer
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off
    set enable_sort = off set plan_cache_mode = force_generic_plan
as $$
declare
    v_now timestamptz := skiplane.clock();
    v_ids uuid[];
    r skiplane.ready;
    v_count integer := 0;
begin
    v_ids := array(
        select x.id from skiplane.ready x
        where x.expires_at is not null and x.expires_at <= v_now and x.shard = p_shard
        order by x.expires_at limit p_limit for update skip locked);
    if v_ids = '{}' then
        return 0;
    end if;
    for r in delete from skiplane.ready x where x.id = any (v_ids) and x.shard = p_shard returning * loop
        perform skiplane._end_task(r.id, p_shard, r.day, 'FAILED', r.attempt, r.fence, null, null, 'Expired',
            'not started before ' || skiplane._utc_text(r.expires_at));
        v_count := v_count + 1;
    end loop;
    perform skiplane._release_dependents(v_ids, p_shard);
    return v_count;
end
$$;

comment on function skiplane.expire_tasks(integer, smallint) is 'Ends PENDING tasks whose expires_at has passed as FAILED.';

-- Catches what a submit could not see: a worker that went idle between its look and its commit.
-- What has waited for longer was seen by the worker's claim after it began to wait: it is not for this worker.
create or replace function skiplane.wake_workers(p_shard smallint default 0) returns integer
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
begin
    return skiplane._wake_queues(skiplane.clock() - interval '2 seconds', p_shard);
end
$$;

comment on function skiplane.wake_workers(smallint) is 'Notifies queues that have both idle workers and ready tasks; answers how many.';

create or replace function skiplane._has_news(p_queue text, p_since timestamptz, p_shard smallint) returns boolean
language plpgsql volatile
    set jit = off set enable_seqscan = off
as $$
declare
    v_now timestamptz := skiplane.clock();
    v_lanes skiplane.lane_head[];
    v_home smallint;
    w record := skiplane._few_lanes_with_work(array[p_queue], null, null, p_shard);
begin
    v_lanes := w.lanes;
    if not w.few then
        w := skiplane._streams(array[p_queue], null, v_now, p_shard);
        v_lanes := array(select x from skiplane._lanes_with_work(w.queues, w.priorities, w.task_types, 64, null, p_shard) x);
    end if;
    if exists (select from unnest(v_lanes) x where (x.due_at > p_since or x.id is null) and not x.gated) then
        return true;
    elsif not exists (select from unnest(v_lanes) x where x.gated) then
        return false;
    end if;
    v_home := skiplane._home_shard();
    v_lanes := (skiplane._open_lanes(array(select x from unnest(v_lanes) x where x.gated), null, null, v_now, p_shard)).lanes;
    -- A limit that has opened since is news, too.
    return exists (
        select from unnest(v_lanes) x
        where x.due_at > p_since or exists (
            select from unnest(x.gates) g where skiplane._opened_since(g, p_since, v_home)));
end
$$;

comment on function skiplane._has_news(text, timestamptz, smallint) is
'Whether a queue has tasks that became ready since a time, or that a limit lets pass since then.';

create or replace function skiplane._opened_since(p_gate skiplane.gate, p_since timestamptz, p_home smallint)
returns boolean language plpgsql stable
    set jit = off set enable_seqscan = off set enable_bitmapscan = off
    set enable_sort = off set plan_cache_mode = force_generic_plan
as $$
declare v_name text := p_gate.name;
begin
    if p_gate.places is not null then
        return exists (
            select from skiplane.gate_release r where r.shard = p_home and r.at > p_since and r.gate = v_name);
    end if;
    -- Each part of a rate was then without a start, as far as it can be told.
    return p_gate.rate is not null and coalesce((
        select bool_and(x.at + make_interval(secs => greatest(0, (1 - x.tokens) / p_gate.rate * x.parts)) > p_since)
        from generate_series(0, 3) as p (part)
        cross join lateral (
            select y.at, y.tokens, y.parts from skiplane.gate_state y
            where y.gate = v_name and y.part = p.part and y.shard = p_home order by y.n desc limit 1) x
    ), false);
end
$$;

comment on function skiplane._opened_since(skiplane.gate, timestamptz, smallint) is
'Whether a gate that is open now was closed at a time not long ago, as far as can be told.';

create or replace function skiplane._wake_queues(p_since timestamptz, p_shard smallint) returns integer
language plpgsql volatile
    set jit = off set enable_seqscan = off
as $$
declare
    v_queue text := '';
    v_count integer := 0;
begin
    loop
        -- From queue to queue by the index, however many lanes each has.
        select l.queue into v_queue from skiplane.lane l
        where l.shard = p_shard and l.queue > v_queue order by l.queue limit 1;
        exit when v_queue is null;
        continue when not skiplane._is_waited_for(v_queue);
        if skiplane._has_news(v_queue, p_since, p_shard)
        then
            perform pg_notify(skiplane.queue_channel(v_queue), '');
            v_count := v_count + 1;
        end if;
    end loop;
    return v_count;
end
$$;

comment on function skiplane._wake_queues(timestamptz, smallint) is
'Notifies queues with idle workers and tasks that became ready since a time.';

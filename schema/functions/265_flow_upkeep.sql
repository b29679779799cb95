-- What the scheduler does for limits: makes lanes and running tasks follow changed settings, opens lanes that were left
-- out of the walk, moves breakers. Bounded batches with SKIP LOCKED, safe beside any number of the same.
-- Locks: the advisory lock of a gate (tried), then lease rows in the order of their numbers. Claims hold lease rows while
-- they try for gates, but never wait for one.

-- p_state is the last answer: a place among what is held.
create or replace function skiplane.refresh_flow(p_state jsonb default null, p_shard smallint default 0) returns jsonb
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_now timestamptz := skiplane.clock();
    v_gate text := coalesce(p_state ->> 'gate', '');
    c record;
begin
    for c in
        select x.* from skiplane.flow_change x
        where x.shard = p_shard and (x.pending or x.adopted_at is null or x.adopted_at < v_now - interval '1 second')
        order by x.n limit 20
    loop
        perform skiplane._settle_change(c.n, c.kind, c.name, c.xid, v_now, p_shard);
    end loop;
    perform skiplane._move_breakers(v_now);
    perform skiplane._open_due(v_now, p_shard);
    v_gate := skiplane._open_gates(v_gate, v_now, p_shard);
    return jsonb_build_object('gate', v_gate);
end
$$;

comment on function skiplane.refresh_flow(jsonb, smallint) is
'Makes lanes and running tasks follow changed settings, opens what limits held back, moves circuit breakers. Keep the answer and pass it with the next call.';

create or replace function skiplane._settle_change(
    p_n bigint, p_kind text, p_name text, p_xid xid8, p_now timestamptz, p_shard smallint
) returns void language plpgsql volatile
    set jit = off set enable_seqscan = off
as $$
declare
    -- Before the looks below: what began before the change has then been seen by them.
    v_settled boolean := p_xid < pg_snapshot_xmin(pg_current_snapshot());
    v_lanes bigint[];
    v_adopted boolean;
begin
    v_lanes := array(
        select x.lane from skiplane.lane x
        cross join lateral skiplane._lane_marks(x.queue, x.tenant_id, x.task_type, x.concurrency_key) m
        where x.shard = p_shard and case p_kind when 'queue' then x.queue when 'type' then x.task_type else x.tenant_id end = p_name
            and ((x.gated, x.weight, x.strict) is distinct from (m.gated, m.weight, m.strict) or x.held_by is not null)
        order by x.lane limit 1000 for update of x skip locked);
    update skiplane.lane x set gated = m.gated, weight = m.weight, strict = m.strict, held_by = null, held_until = null
    from skiplane.lane y
    cross join lateral skiplane._lane_marks(y.queue, y.tenant_id, y.task_type, y.concurrency_key) m
    where x.lane = any (v_lanes) and y.lane = x.lane and x.shard = p_shard and y.shard = p_shard;
    v_adopted := skiplane._adopt_running(p_kind, p_name, p_shard);
    if cardinality(v_lanes) = 0 and v_adopted then
        if v_settled then
            delete from skiplane.flow_change x where x.n = p_n and x.shard = p_shard;
        else
            -- A transaction that writes for long must not slow all claims: from now on what it brings is found here.
            update skiplane.flow_change x set adopted_at = p_now, pending = x.pending and x.at > p_now - interval '2 seconds'
            where x.n = p_n and x.shard = p_shard;
        end if;
        perform skiplane._wake(y.queue)
        from (
            select distinct x.queue from skiplane.lane x
            where x.shard = p_shard and case p_kind when 'queue' then x.queue when 'type' then x.task_type else x.tenant_id end = p_name) y;
    end if;
end
$$;

comment on function skiplane._settle_change(bigint, text, text, xid8, timestamptz, smallint) is
'Makes up to 1,000 lanes, and what runs, follow one change; forgets it when nobody can be unaware of it any more.';

-- A limit that is new finds tasks running: they take places, too.
create or replace function skiplane._adopt_running(p_kind text, p_name text, p_shard smallint) returns boolean
language plpgsql volatile
    set jit = off set enable_seqscan = off
as $$
declare
    v_gate text := p_kind || '|' || p_name;
    v_home smallint := skiplane._home_shard();
    v_ids uuid[];
    l skiplane.lease;
begin
    if not (case p_kind
        when 'queue' then exists (select from skiplane.queue_setting q where q.queue = p_name and q.concurrency is not null)
        when 'type' then exists (select from skiplane.task_type_setting t where t.task_type = p_name and t.concurrency is not null)
        else exists (select from skiplane.tenant_setting n where n.tenant_id = p_name and n.concurrency is not null) end)
    then
        return true;
    elsif not pg_try_advisory_xact_lock(1397442900, hashtext(v_gate)) then
        return false;
    end if;
    for l in select * from skiplane.lease x where x.shard = p_shard order by x.lease_id loop
        v_ids := array(
            select t.id from unnest(l.ids, l.days) as u (id, day)
            join skiplane.task t on t.id = u.id and t.shard = p_shard and t.day = u.day
            where case p_kind when 'queue' then t.queue when 'type' then t.task_type else t.tenant_id end = p_name
                and not exists (select from unnest(l.hold_ids, l.hold_gates) as h (id, gate)
                    where (h.id is null or h.id = t.id) and h.gate = v_gate));
        if v_ids <> '{}' then
            update skiplane.lease x
            set hold_ids = coalesce(x.hold_ids, '{}') || v_ids,
                hold_gates = coalesce(x.hold_gates, '{}') || array_fill(v_gate, array[cardinality(v_ids)])
            where x.lease_id = l.lease_id and x.shard = p_shard;
        end if;
    end loop;
    perform skiplane._recount(v_gate, v_home);
    return true;
end
$$;

comment on function skiplane._adopt_running(text, text, smallint) is
'Gives places of a limit to running tasks that have none; false when somebody else was at the gate.';

-- The lock of the gate must be held: no claim takes places meanwhile. What is given back meanwhile is still to be
-- counted in, so both are read at one instant.
create or replace function skiplane._recount(p_gate text, p_home smallint) returns integer
language plpgsql volatile
    set jit = off set enable_seqscan = off
as $$
declare
    v_held integer;
    s record;
begin
    select x.n, x.held, x.folded into s from skiplane.gate_state x
    where x.gate = p_gate and x.part = 0 and x.shard = p_home order by x.n desc limit 1;
    select coalesce(sum(case when h.id is null then cardinality(x.ids) else (h.id = any (x.ids))::integer end), 0) + (
        select coalesce(sum(r.places), 0) from skiplane.gate_release r where r.gate = p_gate and r.shard = p_home)
    into v_held
    from skiplane.lease x cross join lateral unnest(x.hold_ids, x.hold_gates) as h (id, gate)
    where h.gate = p_gate and x.hold_ids is not null;
    if v_held is distinct from s.held then
        -- From the beginning of time: the releases are all found again.
        perform skiplane._write_gate(p_gate, 0, 1, s.n, v_held, null, skiplane.clock(), coalesce(s.folded, '1:1:'), p_home);
    end if;
    return v_held - coalesce(s.held, 0);
end
$$;

comment on function skiplane._recount(text, smallint) is 'Counts the places of a gate from the leases; answers by how much it was wrong.';

create or replace function skiplane.recount_limits() returns integer
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off
as $$
declare
    v_home smallint := skiplane._home_shard();
    v_gate text := '';
    v_count integer := 0;
begin
    loop
        select x.gate into v_gate from skiplane.gate_state x where x.gate > v_gate order by x.gate limit 1;
        exit when v_gate is null;
        if v_gate not like 'rate|%' and pg_try_advisory_xact_lock(1397442900, hashtext(v_gate)) then
            v_count := v_count + (skiplane._recount(v_gate, v_home) <> 0)::integer;
        end if;
    end loop;
    return v_count;
end
$$;

comment on function skiplane.recount_limits() is
'Counts the places of all concurrency limits anew from what runs, and puts right what was wrong; answers how many were. Run it when health() tells of a limit that has drifted.';

create or replace function skiplane._drifted_limits() returns bigint
language sql stable
as $$
    select count(*) from (
        select distinct on (x.gate) x.gate, x.held, x.shard from skiplane.gate_state x
        where x.gate not like 'rate|%' order by x.gate, x.n desc) s
    left join (
        select h.gate, sum(case when h.id is null then cardinality(x.ids) else (h.id = any (x.ids))::integer end) as held
        from skiplane.lease x cross join lateral unnest(x.hold_ids, x.hold_gates) as h (id, gate)
        where x.hold_ids is not null group by h.gate) l on l.gate = s.gate
    left join (
        select r.gate, sum(r.places) as places from skiplane.gate_release r group by r.gate) r on r.gate = s.gate
    where s.held <> coalesce(l.held, 0) + coalesce(r.places, 0)
$$;

comment on function skiplane._drifted_limits() is 'Limits whose places are not those of what runs. One statement, so that it sees one instant.';

create or replace function skiplane._open_due(p_now timestamptz, p_shard smallint) returns void
language plpgsql volatile
    set jit = off set enable_seqscan = off set enable_bitmapscan = off set plan_cache_mode = force_generic_plan
as $$
begin
    perform skiplane._open_held(array(
        select l.lane from skiplane.lane l where l.shard = p_shard and l.held_by is not null and l.held_until <= p_now
        order by l.held_until limit 500 for update skip locked), p_shard);
end
$$;

comment on function skiplane._open_due(timestamptz, smallint) is 'Lets claims look again at lanes whose time has come.';

create or replace function skiplane._open_held(p_lanes bigint[], p_shard smallint) returns void
language plpgsql volatile
    set jit = off set enable_seqscan = off set enable_bitmapscan = off set plan_cache_mode = force_generic_plan
as $$
declare
    v_queues text[];
begin
    if p_lanes = '{}' then
        return;
    end if;
    v_queues := array(select distinct l.queue from skiplane.lane l where l.lane = any (p_lanes) and l.shard = p_shard);
    update skiplane.lane l set held_by = null, held_until = null where l.lane = any (p_lanes) and l.shard = p_shard;
    perform skiplane._wake(q) from unnest(v_queues) q;
end
$$;

comment on function skiplane._open_held(bigint[], smallint) is 'Puts lanes back into the walk of claims.';

-- First the gates at which a place was given back just now, then the next hundred of those that hold lanes.
create or replace function skiplane._open_gates(p_after text, p_now timestamptz, p_shard smallint) returns text
language plpgsql volatile
    set jit = off set enable_seqscan = off set enable_bitmapscan = off set plan_cache_mode = force_generic_plan
as $$
declare
    v_home smallint := skiplane._home_shard();
    v_gate text := p_after;
    v_count integer := 0;
    r record;
begin
    if not exists (select from skiplane.lane l where l.shard = p_shard and l.held_by is not null) then
        return '';
    end if;
    for r in
        select x.gate, sum(x.places)::integer as places from skiplane.gate_release x
        where x.shard = v_home and x.at > p_now - interval '2 seconds' group by x.gate
    loop
        perform skiplane._open_held(array(
            select l.lane from skiplane.lane l where l.shard = p_shard and l.held_by = r.gate
            order by l.lane limit greatest(r.places, 4) for update skip locked), p_shard);
    end loop;
    loop
        select l.held_by into v_gate from skiplane.lane l
        where l.shard = p_shard and l.held_by > v_gate order by l.held_by limit 1;
        exit when v_gate is null or v_count >= 100;
        v_count := v_count + 1;
        if skiplane._gate_opens(v_gate, p_now, p_shard, v_home) then
            perform skiplane._open_held(array(
                select l.lane from skiplane.lane l where l.shard = p_shard and l.held_by = v_gate
                order by l.lane limit 100 for update skip locked), p_shard);
        end if;
    end loop;
    return coalesce(v_gate, '');
end
$$;

comment on function skiplane._open_gates(text, timestamptz, smallint) is
'Puts lanes whose gates have room back into the walk; answers how far it came.';

create or replace function skiplane._gate_opens(p_gate text, p_now timestamptz, p_shard smallint, p_home smallint) returns boolean
language plpgsql stable
    set jit = off set enable_seqscan = off
as $$
begin
    -- By the first lane that it holds: all have the gate alike, but for what their types say of a key.
    return coalesce((
        select g.closed is null and not exists (
            select from unnest(g.gates) x cross join lateral skiplane._gate_room(x, p_now, p_home) y
            where x.name = p_gate and y.room = 0)
        from skiplane.lane l
        cross join lateral skiplane._lane_gates(l.queue, l.task_type, l.tenant_id, l.concurrency_key) g
        where l.shard = p_shard and l.held_by = p_gate order by l.lane limit 1), false);
end
$$;

comment on function skiplane._gate_opens(text, timestamptz, smallint, smallint) is 'Whether a gate that holds lanes has room again.';

-- Transitions of circuit breakers: closed -> open -> half open -> closed or open.
create or replace function skiplane._move_breakers(p_now timestamptz) returns void
language plpgsql volatile
    set jit = off set enable_seqscan = off
as $$
declare
    b record;
    v_sum record;
begin
    -- One scheduler at a time.
    if not exists (select from skiplane.breaker) and not exists (
        select from skiplane.task_type_setting t where t.breaker_threshold is not null)
        or not pg_try_advisory_xact_lock(1397442901, 0) then
        return;
    end if;
    for b in select * from skiplane.breaker x where x.state = 'open' and x.until <= p_now loop
        update skiplane.breaker x set state = 'half_open', since = p_now, until = null where x.task_type = b.task_type;
        perform skiplane._note_change('type', b.task_type, 'half_open_breaker', 'scheduler', null);
    end loop;
    for b in
        select t.task_type, t.breaker_threshold, t.breaker_window, t.breaker_minimum, t.breaker_cooldown, t.breaker_probes,
            x.state, x.since
        from skiplane.task_type_setting t left join skiplane.breaker x on x.task_type = t.task_type
        where (t.breaker_threshold is not null and x.task_type is null) or x.state = 'half_open'
    loop
        select coalesce(sum(y.succeeded), 0) as good, coalesce(sum(y.failed), 0) as bad into v_sum
        from skiplane.breaker_tally y
        where y.task_type = b.task_type and y.at > p_now - make_interval(secs => b.breaker_window)
            and (b.state is null or y.begun_at >= b.since);
        if b.state = 'half_open' and (v_sum.bad > 0 or v_sum.good >= b.breaker_probes) then
            if v_sum.bad > 0 then
                update skiplane.breaker x
                set state = 'open', since = p_now, until = p_now + make_interval(secs => b.breaker_cooldown),
                    reason = 'a probe failed'
                where x.task_type = b.task_type;
            else
                delete from skiplane.breaker x where x.task_type = b.task_type;
                delete from skiplane.breaker_tally y where y.task_type = b.task_type;
            end if;
            perform skiplane._note_change('type', b.task_type, case when v_sum.bad > 0 then 'open_breaker' else 'close_breaker' end,
                'scheduler', null);
        elsif b.state is null and v_sum.good + v_sum.bad >= b.breaker_minimum
            and v_sum.bad >= b.breaker_threshold * (v_sum.good + v_sum.bad) then
            insert into skiplane.breaker (task_type, state, since, until, reason, changed_by)
            values (b.task_type, 'open', p_now, p_now + make_interval(secs => b.breaker_cooldown),
                format('%s of %s attempts failed within %s s', v_sum.bad, v_sum.good + v_sum.bad, b.breaker_window), 'scheduler')
            on conflict do nothing;
            perform skiplane._note_change('type', b.task_type, 'open_breaker', 'scheduler',
                jsonb_build_object('failed', v_sum.bad, 'succeeded', v_sum.good));
        end if;
    end loop;
end
$$;

comment on function skiplane._move_breakers(timestamptz) is 'Opens, half opens and closes circuit breakers by what was counted.';

create or replace function skiplane.sweep_flow(p_limit integer default 1000) returns integer
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
    set jit = off
as $$
declare
    v_now timestamptz := skiplane.clock();
    v_home smallint := skiplane._home_shard();
    v_count integer := 0;
    v_part integer;
    s record;
begin
    delete from skiplane.breaker_tally k where k.ctid = any (array(
        select x.ctid from skiplane.breaker_tally x where x.at < v_now - interval '1 day' limit p_limit for update skip locked));
    get diagnostics v_part = row_count;
    v_count := v_count + v_part;
    delete from skiplane.flow_action k where k.ctid = any (array(
        select x.ctid from skiplane.flow_action x where x.at < v_now - interval '90 days' limit p_limit for update skip locked));
    get diagnostics v_part = row_count;
    v_count := v_count + v_part;
    -- Keys and tenants that nothing runs of any more. A rate's bucket is full again after an hour at the latest, or
    -- is of so slow a rate that it stays.
    for s in
        select x.gate, x.n from skiplane.gate_state x
        where x.shard = v_home and x.at < v_now - interval '1 hour' and starts_with(x.gate, 'key|') and x.held >= 0 limit p_limit
    loop
        continue when not pg_try_advisory_xact_lock(1397442900, hashtext(s.gate));
        if skiplane._recount(s.gate, v_home) = 0 and (
            select x.held from skiplane.gate_state x where x.gate = s.gate and x.part = 0 and x.shard = v_home order by x.n desc limit 1) = (
            select coalesce(sum(r.places), 0) from skiplane.gate_release r where r.gate = s.gate and r.shard = v_home)
        then
            delete from skiplane.gate_release r where r.gate = s.gate and r.shard = v_home;
            delete from skiplane.gate_state x where x.gate = s.gate and x.shard = v_home;
            v_count := v_count + 1;
        end if;
    end loop;
    return v_count;
end
$$;

comment on function skiplane.sweep_flow(integer) is 'Drops what limits and breakers do not need any more, in a bounded batch.';

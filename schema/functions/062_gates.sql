-- Limits as a claim meets them. Which gates a lane has to pass is read from the settings, and only for lanes that are
-- marked as gated. A gate is looked at without a lock to leave out what is closed; 061 enters it.
-- All gates live on one shard, so that a limit counts over all of them.
-- Functions that claims call have no settings of their own for the planner: claim_tasks has them, and each setting costs
-- microseconds at each call.

create or replace function skiplane._home_shard() returns smallint
language sql stable
as $$ select (skiplane.shard_labels())[1] $$;

comment on function skiplane._home_shard() is 'Shard on which limits are counted.';

-- Inlined by the planner: keep it one plain query. A gate with neither places nor a rate marks what is counted only.
create or replace function skiplane._lane_gates(p_queue text, p_task_type text, p_tenant_id text, p_key text)
returns table (closed text, gates skiplane.gate[])
language sql stable
as $$
    select
        case when q.paused then 'queue_paused' when t.paused then 'task_type_paused' when n.paused then 'tenant_paused'
            when b.state = 'open' then 'breaker_open' end,
        array_remove(array[
            case when q.concurrency is not null then row('queue|' || p_queue, q.concurrency, null, null)::skiplane.gate end,
            case when t.concurrency is not null then row('type|' || p_task_type, t.concurrency, null, null)::skiplane.gate end,
            case when n.concurrency is not null then row('tenant|' || p_tenant_id, n.concurrency, null, null)::skiplane.gate end,
            case when p_key <> '' then
                row('key|' || octet_length(p_tenant_id) || '|' || p_tenant_id || '|' || p_key,
                    coalesce(t.key_concurrency, 1), null, null)::skiplane.gate end,
            case when b.state = 'half_open' then row('probe|' || p_task_type, coalesce(t.breaker_probes, 1), null, null)::skiplane.gate end,
            case when t.breaker_threshold is not null or b.task_type is not null then row('breaker|' || p_task_type, null, null, null)::skiplane.gate end,
            case when t.rate is not null then row('rate|' || p_task_type, null, t.rate, t.burst)::skiplane.gate end,
            case when n.rates ? p_task_type or t.tenant_rate is not null then
                row('rate|' || octet_length(p_task_type) || '|' || p_task_type || '|' || p_tenant_id, null,
                    coalesce((n.rates -> p_task_type ->> 'rate')::double precision, t.tenant_rate),
                    coalesce((n.rates -> p_task_type ->> 'burst')::double precision, t.tenant_burst))::skiplane.gate end
        ], null)
    from (select) one
    left join skiplane.queue_setting q on q.queue = p_queue
    left join skiplane.task_type_setting t on t.task_type = p_task_type
    left join skiplane.tenant_setting n on n.tenant_id = p_tenant_id
    left join skiplane.breaker b on b.task_type = p_task_type
$$;

comment on function skiplane._lane_gates(text, text, text, text) is
'Why nothing of a lane may start at all (NULL: something may), and the gates that its tasks pass.';

create or replace function skiplane._gate_room(
    p_gate skiplane.gate, p_now timestamptz, p_home smallint, out room integer, out wait double precision, out held integer
) language plpgsql stable
as $$
declare
    s record;
    v_name text := p_gate.name;
    v_parts integer;
begin
    room := 2147483647;
    if p_gate.places is null and p_gate.rate is null then
        return;
    elsif p_gate.rate is not null then
        v_parts := skiplane._gate_parts(p_gate);
        select sum(floor(x + 1e-9)), min(greatest(0, (1 - x) / p_gate.rate * v_parts)) into room, wait
        from unnest(skiplane._part_tokens(p_gate, v_parts, p_now, p_home)) as x;
        return;
    end if;
    select x.held, x.folded into s from skiplane.gate_state x
    where x.gate = v_name and x.part = 0 and x.shard = p_home order by x.n desc limit 1;
    held := coalesce(s.held, 0);
    if held > 0 then
        held := held - coalesce((
            select sum(r.places) from skiplane.gate_release r
            where r.gate = v_name and r.shard = p_home and r.xid >= pg_snapshot_xmin(s.folded)), 0);
    end if;
    room := greatest(0, p_gate.places - held);
end
$$;

comment on function skiplane._gate_room(skiplane.gate, timestamptz, smallint) is
'How many tasks may pass a gate, seen without its lock; wait = seconds until a rate lets the next one pass.';

-- Where there are few the claim comes to their gates anyway.
create or replace function skiplane._open_lanes(
    p_lanes skiplane.lane_head[], p_back_gates text[], p_back_places integer[], p_now timestamptz, p_shard smallint,
    out lanes skiplane.lane_head[], out again double precision
) language plpgsql volatile
as $$
declare
    v_lane bigint;
    v_closed text;
    v_gates skiplane.gate[];
begin
    if cardinality(p_lanes) = 1 then
        v_lane := p_lanes[1].lane;
        select g.closed, g.gates into v_closed, v_gates
        from skiplane.lane l cross join lateral skiplane._lane_gates(l.queue, l.task_type, l.tenant_id, l.concurrency_key) g
        where l.lane = v_lane and l.shard = p_shard;
        if v_closed is null then
            lanes := p_lanes;
            lanes[1].gates := nullif(v_gates, '{}');
        end if;
        return;
    end if;
    select array_agg(row(u.lane, u.queue, u.priority, u.tenant_id, u.due_at, u.estimate, u.id, u.turn, u.weight, u.strict,
        u.gated, nullif(g.gates, '{}'))::skiplane.lane_head order by u.turn)
    into lanes
    from unnest(p_lanes) u
    left join skiplane.lane l on u.gated and l.lane = u.lane and l.shard = p_shard
    left join lateral skiplane._lane_gates(l.queue, l.task_type, l.tenant_id, l.concurrency_key) g on l.lane is not null
    where g.closed is null;
    if cardinality(lanes) > 4 then
        select o.lanes, o.again into lanes, again from skiplane._lanes_with_room(lanes, p_back_gates, p_back_places, p_now) o;
    end if;
end
$$;

comment on function skiplane._open_lanes(skiplane.lane_head[], text[], integer[], timestamptz, smallint) is
'Leaves out lanes of which nothing may start now, and tells the others their gates. again = seconds until a rate opens one. What the transaction gives back is open to it.';

create or replace function skiplane._lanes_with_room(
    p_lanes skiplane.lane_head[], p_back_gates text[], p_back_places integer[], p_now timestamptz,
    out lanes skiplane.lane_head[], out again double precision
) language plpgsql volatile
as $$
declare
    v_home smallint := skiplane._home_shard();
    v_rooms jsonb;
begin
    select jsonb_object_agg(concat(x.name, '|', x.places), jsonb_build_array(
        case when x.name = any (p_back_gates)
            then greatest(0, x.places - r.held + p_back_places[array_position(p_back_gates, x.name)]) else r.room end, r.wait))
    into v_rooms
    from (
        select distinct g.name, g.places, g.rate, g.burst from unnest(p_lanes) u cross join unnest(u.gates) g
        where g.places is not null or g.rate is not null) x
    cross join lateral skiplane._gate_room(row(x.name, x.places, x.rate, x.burst)::skiplane.gate, p_now, v_home) r;
    if v_rooms is null then
        lanes := p_lanes;
        return;
    end if;
    select array_agg(y.head order by y.turn) filter (where y.room > 0),
        min(y.wait) filter (where y.room = 0 and y.places > 0)
    into lanes, again
    from (
        select u as head, u.turn, r.room, r.wait, r.places
        from unnest(p_lanes) u
        cross join lateral (
            select coalesce(min((v_rooms -> concat(g.name, '|', g.places) ->> 0)::integer), 1) as room,
                coalesce(min((v_rooms -> concat(g.name, '|', g.places) ->> 0)::integer) filter (where g.places is not null), 1)
                    as places,
                max((v_rooms -> concat(g.name, '|', g.places) ->> 1)::double precision) as wait
            from unnest(u.gates) g
        ) r
    ) y;
end
$$;

comment on function skiplane._lanes_with_room(skiplane.lane_head[], text[], integer[], timestamptz) is
'Lanes all of whose gates have room, seen without locks; again = seconds until a rate opens one of the others.';

-- Lanes that a claim found closed are left out of the walk until their limit opens: the scheduler sees to that.
create or replace function skiplane._hold_lanes(p_lanes bigint[], p_now timestamptz, p_shard smallint) returns void
language plpgsql volatile
    set jit = off set enable_seqscan = off set enable_bitmapscan = off set plan_cache_mode = force_generic_plan
as $$
declare
    v_home smallint := skiplane._home_shard();
    v_lanes bigint[];
    v_gates text[];
    v_untils timestamptz[];
begin
    select array_agg(x.lane), array_agg(x.gate), array_agg(x.until) into v_lanes, v_gates, v_untils
    from (
        select l.lane, coalesce(case g.closed when 'queue_paused' then 'queue|' || l.queue
                when 'tenant_paused' then 'tenant|' || l.tenant_id when 'task_type_paused' then 'type|' || l.task_type
                when 'breaker_open' then 'probe|' || l.task_type end, r.name) as gate,
            p_now + make_interval(secs => least(coalesce(case when g.closed is null then r.wait end, 60), 60)) as until
        from skiplane.lane l
        cross join lateral skiplane._lane_gates(l.queue, l.task_type, l.tenant_id, l.concurrency_key) g
        left join lateral (
            select x.name, y.wait from unnest(g.gates) x cross join lateral skiplane._gate_room(x, p_now, v_home) y
            where y.room = 0 order by y.wait desc limit 1) r on true
        where l.lane = any (p_lanes) and l.shard = p_shard and l.held_by is null
        for update of l skip locked
    ) x
    where x.gate is not null;
    update skiplane.lane l set held_by = v_gates[array_position(v_lanes, l.lane)], held_until = v_untils[array_position(v_lanes, l.lane)]
    where l.lane = any (v_lanes) and l.shard = p_shard;
end
$$;

comment on function skiplane._hold_lanes(bigint[], timestamptz, smallint) is 'Takes closed lanes out of the walk of claims.';

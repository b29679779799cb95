-- Claiming: PENDING (ready) -> RUNNING (lease).
-- A claim walks the lanes of its queues from a cursor, so that fairness needs no shared counter, and starts in each
-- lane at the first position that can be live, so that rows which are dead but not yet vacuumed cost nothing.
-- Locks: ready rows, skipping what is locked; then gates (see 062), tried; nothing is waited for.

-- Where a claim begins in a lane: at its mark, or at the caller's own head where that is further. The head is believed
-- for half a second only: what was locked or not yet committed when it passed is found again after that.
-- Inlined by the planner: keep it one plain query, and not volatile.
create or replace function skiplane._lane_start(p_lane bigint, p_cursor jsonb, p_shard smallint)
returns table (due_at timestamptz, estimate integer, id uuid)
language sql stable
as $$
    select s.due_at, s.estimate, s.id from (
        (select m.due_at, m.estimate, m.id from skiplane.lane_mark m
        where m.lane = p_lane and m.shard = p_shard order by m.n desc limit 1)
        union all
        select (h.head ->> 0)::timestamptz, (h.head ->> 1)::integer, (h.head ->> 2)::uuid
        from (select p_cursor -> 'head' -> p_lane::text as head) h where h.head is not null
        union all
        select '-infinity'::timestamptz, 0, '00000000-0000-0000-0000-000000000000'::uuid
    ) s order by s.due_at desc, s.estimate desc, s.id desc limit 1
$$;

comment on function skiplane._lane_start(bigint, jsonb, smallint) is 'The position before which a lane has nothing live.';

-- The usual case: so few lanes that all are looked at, wherever the turn is, with the least work.
create or replace function skiplane._few_lanes_with_work(
    p_queues text[], p_task_types text[], p_cursor jsonb, p_shard smallint,
    out lanes skiplane.lane_head[], out few boolean, out gated boolean
) language plpgsql volatile
    set jit = off set enable_seqscan = off set enable_bitmapscan = off
    set enable_sort = off set plan_cache_mode = force_generic_plan
as $$
begin
    select array_agg(row(l.lane, l.queue, l.priority, l.tenant_id, h.due_at, h.estimate, h.id, 1, l.weight, l.strict, l.gated,
            null)::skiplane.lane_head) filter (where h.id is not null), count(*) <= 64, bool_or(l.gated and h.id is not null)
    into lanes, few, gated
    from (
        -- Settings that have just changed are asked for every lane.
        select x.*, x.limited or exists (select from skiplane.flow_change c where c.shard = p_shard and c.pending) as gated
        from (select distinct u.queue from unnest(p_queues) as u (queue)) q
        -- In the order of their index: else, beside a queue of many lanes, all lanes may be read for those of another.
        cross join lateral (
            select y.lane, y.queue, y.priority, y.tenant_id, y.task_type, y.weight, y.strict, y.gated as limited
            from skiplane.lane y
            where y.shard = p_shard and y.queue = q.queue and y.held_by is null
            order by y.priority, y.task_type, y.tenant_id, y.lane limit 65
        ) x limit 65
    ) l
    cross join lateral skiplane._lane_start(l.lane, p_cursor, p_shard) s
    left join lateral (
        select r.due_at, r.estimate, r.id from skiplane.ready r
        where (p_task_types is null or l.task_type = any (p_task_types)) and r.lane = l.lane and r.shard = p_shard
            and (r.due_at, r.estimate, r.id) >= (s.due_at, s.estimate, s.id)
        order by r.due_at, r.estimate, r.id limit 1
    ) h on true;
    if few and cardinality(lanes) > 1 then
        select array_agg(row(x.lane, x.queue, x.priority, x.tenant_id, x.due_at, x.estimate, x.id, x.turn, x.weight, x.strict,
            x.gated, null)::skiplane.lane_head order by x.turn)
        into lanes
        from (
            select u.lane, u.queue, u.priority, u.tenant_id, u.due_at, u.estimate, u.id, u.weight, u.strict, u.gated, row_number() over (
                partition by u.queue, u.priority
                order by (u.tenant_id, u.lane) <= (coalesce(c.turn ->> 0, ''), coalesce((c.turn ->> 1)::bigint, 0)),
                    u.tenant_id, u.lane) as turn
            from unnest(lanes) as u
            cross join lateral (select p_cursor -> 'turn' -> (u.queue || '|' || u.priority) as turn) c
        ) x;
    end if;
end
$$;

comment on function skiplane._few_lanes_with_work(text[], text[], jsonb, smallint) is
'Lanes with live ready rows in their turn, if the queues have at most 64 lanes; few tells. gated: limits may hold some back.';

-- Weighted priorities: each level earns its share of every claim and keeps what it could not use as credit, so that
-- small claims come out right over time; what a level cannot use the others take.
create or replace function skiplane._priority_shares(p_limit integer, p_active smallint[], p_credit jsonb)
returns table (priority smallint, share integer, credit double precision)
language plpgsql immutable
as $$
declare
    v_credit double precision[] := '{}';
    v_share integer[] := '{}';
    v_total double precision := 0;
    v_left integer := p_limit;
    v_best integer;
begin
    for i in 1 .. cardinality(p_active) loop
        v_total := v_total + case p_active[i] when 10 then 70 when 5 then 25 else 5 end;
    end loop;
    for i in 1 .. cardinality(p_active) loop
        v_credit[i] := least(p_limit, coalesce((p_credit ->> p_active[i]::text)::double precision, 0))
            + p_limit * case p_active[i] when 10 then 70 when 5 then 25 else 5 end / v_total;
        v_share[i] := least(v_left, floor(greatest(v_credit[i], 0)))::integer;
        v_left := v_left - v_share[i];
    end loop;
    while v_left > 0 loop
        v_best := 1;
        for i in 2 .. cardinality(p_active) loop
            if v_credit[i] - v_share[i] > v_credit[v_best] - v_share[v_best] + 1e-9 then
                v_best := i;
            end if;
        end loop;
        v_share[v_best] := v_share[v_best] + 1;
        v_left := v_left - 1;
    end loop;
    return query select p_active[i], v_share[i], v_credit[i] - v_share[i] from generate_subscripts(p_active, 1) i;
end
$$;

comment on function skiplane._priority_shares(integer, smallint[], jsonb) is
'Splits a claim over the priorities that have work: 70 / 25 / 5.';

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
        select x.lane, x.queue, x.priority, x.tenant_id, x.task_type, x.weight, x.strict,
            x.gated or exists (select from skiplane.flow_change c where c.shard = p_shard and c.pending) as gated
        from skiplane.lane x
        where x.shard = p_shard and x.queue = any (p_queues) and x.held_by is null limit 65
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

-- The streams of a claim: queue, priority and task type. From type to type by the index, however many lanes each has;
-- what is held back as a whole is left out here.
create or replace function skiplane._streams(
    p_queues text[], p_task_types text[], p_now timestamptz, p_shard smallint,
    out queues text[], out priorities smallint[], out task_types text[]
) language plpgsql volatile
    set jit = off set enable_seqscan = off set enable_bitmapscan = off set plan_cache_mode = force_generic_plan
as $$
declare v_home smallint := skiplane._home_shard();
begin
    select array_agg(q.queue), array_agg(p.priority), array_agg(t.task_type) into queues, priorities, task_types
    from unnest(p_queues) as q (queue)
    cross join unnest('{10,5,0}'::smallint[]) as p (priority)
    cross join lateral (
        select x.task_type from unnest(p_task_types) as x (task_type)
        union all
        (with recursive walk (task_type) as (
            (select l.task_type from skiplane.lane l
            where p_task_types is null and l.shard = p_shard and l.queue = q.queue and l.priority = p.priority and l.held_by is null
            order by l.task_type limit 1)
            union all
            select (
                select l.task_type from skiplane.lane l
                where l.shard = p_shard and l.queue = q.queue and l.priority = p.priority and l.task_type > w.task_type
                    and l.held_by is null
                order by l.task_type limit 1)
            from walk w where w.task_type is not null)
        select w.task_type from walk w where w.task_type is not null)
    ) t
    where not skiplane._is_closed(q.queue, t.task_type, p_now, v_home);
end
$$;

comment on function skiplane._streams(text[], text[], timestamptz, smallint) is
'Queue, priority and type of all lanes that a claim may look at, but for what is held back as a whole.';

create or replace function skiplane._is_closed(p_queue text, p_task_type text, p_now timestamptz, p_home smallint) returns boolean
language plpgsql stable
as $$
begin
    if not exists (select from skiplane.queue_setting q where q.queue = p_queue and q.limiting)
        and not exists (select from skiplane.task_type_setting t where t.task_type = p_task_type and t.limiting)
        and not exists (select from skiplane.breaker b where b.task_type = p_task_type) then
        return false;
    end if;
    return exists (
        select from skiplane._lane_gates(p_queue, p_task_type, '', '') g
        where g.closed is not null or exists (
            select from unnest(g.gates) x cross join lateral skiplane._gate_room(x, p_now, p_home) r
            where r.room = 0 and x.name not like 'rate|%|%|%'));
end
$$;

comment on function skiplane._is_closed(text, text, timestamptz, smallint) is
'Whether nothing of a type may start in a queue now, whoever it is for.';

-- The lanes that have something to give, in the order in which tenants get their turn: up to p_most per stream, then as
-- far as all streams of a queue and priority have been looked at, so that no tenant is passed by with one of its types.
-- The cursor is {"turn": {"<queue>|<priority>": [tenant, lane, rest]}, "head": {"<lane>": [due, estimate, id]}, "at": epoch}.
-- At most 1,000 lanes are looked at on either side of the turn. Where there are more, a row without id says how far
-- the look went: when nothing was found up to there, that is the next turn.
create or replace function skiplane._lanes_with_work(
    p_queues text[], p_task_types text[], p_most integer, p_cursor jsonb, p_now timestamptz, p_shard smallint
) returns setof skiplane.lane_head
language plpgsql volatile
    set jit = off set enable_seqscan = off set enable_bitmapscan = off
    set enable_sort = off set plan_cache_mode = force_generic_plan
as $$
declare
    s record := skiplane._streams(p_queues, p_task_types, p_now, p_shard);
    v_most integer := greatest(least(p_most, 64 / greatest(1, coalesce(cardinality(s.queues), 1)) * 3, 64), 4);
    v_unsettled boolean := exists (select from skiplane.flow_change c where c.shard = p_shard and c.pending);
begin
    return query
    with found as materialized (
        select t.queue, t.priority, t.ord as stream, c.tenant_id as turn_tenant, c.lane as turn_lane, h.lane, h.tenant_id, h.due_at,
            h.estimate, h.id, h.weight, h.strict, h.gated, h.wrapped,
            row_number() over (partition by t.ord order by h.wrapped, h.tenant_id, h.lane) as place
        from unnest(s.queues, s.priorities, s.task_types) with ordinality as t (queue, priority, task_type, ord)
        cross join lateral (
            select coalesce(p_cursor -> 'turn' -> (t.queue || '|' || t.priority) ->> 0, '') as tenant_id,
                coalesce((p_cursor -> 'turn' -> (t.queue || '|' || t.priority) ->> 1)::bigint, 0) as lane
        ) c
        left join lateral (
            select w.lane, w.tenant_id, w.weight, w.strict, w.gated, w.wrapped, r.due_at, r.estimate, r.id
            from (
                (select l.lane, l.tenant_id, l.weight, l.strict, l.gated, false as wrapped from skiplane.lane l
                where l.shard = p_shard and l.queue = t.queue and l.priority = t.priority and l.task_type = t.task_type
                    and (l.tenant_id, l.lane) > (c.tenant_id, c.lane) and l.held_by is null
                order by l.tenant_id, l.lane limit 1000)
                union all
                (select l.lane, l.tenant_id, l.weight, l.strict, l.gated, true from skiplane.lane l
                where l.shard = p_shard and l.queue = t.queue and l.priority = t.priority and l.task_type = t.task_type
                    and (l.tenant_id, l.lane) <= (c.tenant_id, c.lane) and l.held_by is null
                order by l.tenant_id, l.lane limit 1000)
            ) w
            cross join lateral skiplane._lane_start(w.lane, p_cursor, p_shard) b
            cross join lateral (
                select r.due_at, r.estimate, r.id from skiplane.ready r
                where r.lane = w.lane and r.shard = p_shard and (r.due_at, r.estimate, r.id) >= (b.due_at, b.estimate, b.id)
                order by r.due_at, r.estimate, r.id limit 1
            ) r
            limit v_most
        ) h on true
    ), ends as materialized (
        -- Where each stream's look ended short of its end.
        select f.queue, f.priority, f.wrapped, f.tenant_id, f.lane from found f where f.place = v_most
        union all
        select f.queue, f.priority, false, e.tenant_id, e.lane
        from found f
        cross join lateral (
            select l.tenant_id, l.lane from skiplane.lane l
            where l.shard = p_shard and l.queue = f.queue and l.priority = f.priority
                and l.task_type = s.task_types[f.stream] and (l.tenant_id, l.lane) > (f.turn_tenant, f.turn_lane) and l.held_by is null
            order by l.tenant_id, l.lane offset 999 limit 1
        ) e
        where f.place = 1 and not exists (select from found g where g.stream = f.stream and g.place = v_most)
    ), horizon as materialized (
        select distinct on (e.queue, e.priority) e.queue, e.priority, e.wrapped, e.tenant_id, e.lane
        from ends e order by e.queue, e.priority, e.wrapped, e.tenant_id, e.lane
    )
    select x.lane, x.queue, x.priority, x.tenant_id, x.due_at, x.estimate, x.id,
        row_number() over (partition by x.queue, x.priority order by x.id is null, x.wrapped, x.tenant_id, x.lane),
        x.weight, x.strict, x.gated or v_unsettled, null::skiplane.gate[]
    from (
        select f.lane, f.queue, f.priority, f.tenant_id, f.due_at, f.estimate, f.id, f.wrapped, f.weight, f.strict, f.gated
        from found f left join horizon h on h.queue = f.queue and h.priority = f.priority
        where f.lane is not null
            and (h.queue is null or (f.wrapped, f.tenant_id, f.lane) <= (h.wrapped, h.tenant_id, h.lane))
        union all
        select h.lane, h.queue, h.priority, h.tenant_id, null, null, null, false, 1, false, false
        from horizon h where not h.wrapped
    ) x;
end
$$;

comment on function skiplane._lanes_with_work(text[], text[], integer, jsonb, timestamptz, smallint) is
'Lanes with live ready rows, their first position, and their turn.';

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

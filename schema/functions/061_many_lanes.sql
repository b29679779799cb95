-- The walk of a claim where there are more lanes than can all be looked at.

-- The streams of a claim: queue, priority and task type. From type to type by the index, however many lanes each has;
-- what is held back as a whole is left out here.
create or replace function skiplane._streams(
    p_queues text[], p_task_types text[], p_now timestamptz, p_shard smallint,
    out queues text[], out priorities smallint[], out task_types text[]
) language plpgsql volatile
    set jit = off set enable_seqscan = off set enable_bitmapscan = off set plan_cache_mode = force_generic_plan
as $$
declare
    v_home smallint := skiplane._home_shard();
    v_queue text;
    v_priority smallint;
    v_task_type text;
begin
    if p_task_types is null and cardinality(p_queues) = 1 then
        -- The usual case is a single one.
        v_queue := p_queues[1];
        select l.priority, l.task_type into v_priority, v_task_type from skiplane.lane l
        where l.shard = p_shard and l.queue = v_queue and l.held_by is null
        order by l.priority, l.task_type limit 1;
        if not found then
            return;
        elsif not exists (
            select from skiplane.lane l
            where l.shard = p_shard and l.queue = v_queue and (l.priority, l.task_type) > (v_priority, v_task_type)
                and l.held_by is null order by l.priority, l.task_type limit 1)
        then
            if not skiplane._is_closed(v_queue, v_task_type, p_now, v_home) then
                queues := p_queues;
                priorities := array[v_priority];
                task_types := array[v_task_type];
            end if;
            return;
        end if;
    end if;
    select array_agg(q.queue), array_agg(t.priority), array_agg(t.task_type) into queues, priorities, task_types
    from unnest(p_queues) as q (queue)
    cross join lateral (
        select p.priority, x.task_type from unnest('{10,5,0}'::smallint[]) as p (priority) cross join unnest(p_task_types) as x (task_type)
        union all
        (with recursive walk (priority, task_type) as (
            (select l.priority, l.task_type from skiplane.lane l
            where p_task_types is null and l.shard = p_shard and l.queue = q.queue and l.held_by is null
            order by l.priority, l.task_type limit 1)
            union all
            select n.priority, n.task_type from walk w
            cross join lateral (
                select l.priority, l.task_type from skiplane.lane l
                where l.shard = p_shard and l.queue = q.queue and (l.priority, l.task_type) > (w.priority, w.task_type)
                    and l.held_by is null
                order by l.priority, l.task_type limit 1) n)
        select w.priority, w.task_type from walk w)
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
    if not exists (select from skiplane.queue_setting x where x.queue = p_queue and x.limiting)
        and not exists (select from skiplane.task_type_setting x where x.task_type = p_task_type and x.limiting)
        and not exists (select from skiplane.breaker x where x.task_type = p_task_type) then
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
    p_queues text[], p_priorities smallint[], p_task_types text[], p_most integer, p_cursor jsonb, p_shard smallint
) returns setof skiplane.lane_head
language plpgsql volatile
    set jit = off set enable_seqscan = off set enable_bitmapscan = off
    set enable_sort = off set plan_cache_mode = force_generic_plan
as $$
declare
    v_most integer := greatest(least(p_most, 64 / greatest(1, coalesce(cardinality(p_queues), 1)) * 3, 64), 4);
    v_unsettled boolean := exists (select from skiplane.flow_change c where c.shard = p_shard and c.pending);
begin
    return query
    with found as materialized (
        select t.queue, t.priority, t.ord as stream, c.tenant_id as turn_tenant, c.lane as turn_lane, h.lane, h.tenant_id, h.due_at,
            h.estimate, h.id, h.weight, h.strict, h.gated, h.wrapped,
            row_number() over (partition by t.ord order by h.wrapped, h.tenant_id, h.lane) as place
        from unnest(p_queues, p_priorities, p_task_types) with ordinality as t (queue, priority, task_type, ord)
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
                and l.task_type = p_task_types[f.stream] and (l.tenant_id, l.lane) > (f.turn_tenant, f.turn_lane) and l.held_by is null
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

comment on function skiplane._lanes_with_work(text[], smallint[], text[], integer, jsonb, smallint) is
'Lanes with live ready rows, their first position, and their turn.';

-- The usual case of many tenants is one stream without limits, each tenant with one lane of it: found and locked in one
-- statement, a share for each, until there is enough. Where that is not the case, sure is false, and what was locked is
-- looked at again in the general way.
create or replace function skiplane._take_stream(
    p_queue text, p_priority smallint, p_task_type text, p_limit integer, p_cursor jsonb, p_now timestamptz, p_shard smallint,
    out rows tid[], out turn jsonb, out gated boolean, out sure boolean
) language plpgsql volatile
    set jit = off set enable_seqscan = off set enable_bitmapscan = off
    set enable_sort = off set plan_cache_mode = force_generic_plan
as $$
declare
    v_turn jsonb := p_cursor -> 'turn' -> (p_queue || '|' || p_priority);
    v_tenant text := coalesce(v_turn ->> 0, '');
    v_lane bigint := coalesce((v_turn ->> 1)::bigint, 0);
    -- What the tenant that was served last has still to get.
    v_rest integer := (v_turn ->> 2)::integer;
    v_rounds integer := ceil(p_limit / 64.0);
    v_lanes bigint[];
    v_tenants text[];
    v_shares integer[];
    v_count integer;
    v_given integer;
begin
    select array_agg(h.ctid), array_agg(h.lane), array_agg(h.tenant_id), array_agg(h.share), bool_or(h.gated),
        bool_and(h.lane = h.lane_before or h.tenant_id <> h.tenant_before)
    into rows, v_lanes, v_tenants, v_shares, gated, sure
    from (
        select f.*, lag(f.lane, 1, f.lane) over () as lane_before, lag(f.tenant_id) over () as tenant_before
        from (
            select r.ctid, w.lane, w.tenant_id, w.gated, w.share
            from (
                (select l.lane, l.tenant_id, l.gated,
                    case when v_rest is not null and l.tenant_id = v_tenant then v_rest else l.weight * v_rounds end as share
                from skiplane.lane l
                where l.shard = p_shard and l.queue = p_queue and l.priority = p_priority and l.task_type = p_task_type
                    and (l.tenant_id, l.lane) > (v_tenant, v_lane) and l.held_by is null
                order by l.tenant_id, l.lane limit 1000)
                union all
                (select l.lane, l.tenant_id, l.gated, l.weight * v_rounds from skiplane.lane l
                where l.shard = p_shard and l.queue = p_queue and l.priority = p_priority and l.task_type = p_task_type
                    and (l.tenant_id, l.lane) <= (v_tenant, v_lane) and l.held_by is null
                order by l.tenant_id, l.lane limit 1000)
            ) w
            left join lateral (
                select m.due_at, m.estimate, m.id from skiplane.lane_mark m
                where m.lane = w.lane and m.shard = p_shard order by m.n desc limit 1) b on true
            cross join lateral (
                select r.ctid from skiplane.ready r
                where r.lane = w.lane and r.shard = p_shard and (r.due_at, r.estimate, r.id) >= (coalesce(b.due_at, '-infinity'),
                    coalesce(b.estimate, 0), coalesce(b.id, '00000000-0000-0000-0000-000000000000'))
                    and (r.expires_at is null or r.expires_at > p_now)
                order by r.due_at, r.estimate, r.id limit w.share
                for update skip locked
            ) r
            limit p_limit
        ) f
    ) h;
    v_count := coalesce(cardinality(rows), 0);
    if v_count = 0 or gated or not sure or v_tenants[1] = v_tenants[v_count] and v_lanes[1] <> v_lanes[v_count] then
        sure := false;
        return;
    elsif v_count < p_limit and (
        exists (select from unnest(v_lanes, v_shares) as u (lane, share) group by u.lane having count(*) >= max(u.share))
        or exists (
            select from skiplane.lane l
            where l.shard = p_shard and l.queue = p_queue and l.priority = p_priority and l.task_type = p_task_type
                and (l.tenant_id, l.lane) > (v_tenant, v_lane) and l.held_by is null
            order by l.tenant_id, l.lane offset 999 limit 1))
    then
        -- Somebody has more, or not all were looked at before it came round.
        sure := false;
        return;
    end if;
    v_given := cardinality(array_positions(v_lanes, v_lanes[v_count]));
    turn := case when v_given < v_shares[v_count] and v_count = p_limit
        then jsonb_build_array(v_tenants[v_count], 0, v_shares[v_count] - v_given)
        else jsonb_build_array(v_tenants[v_count], v_lanes[v_count]) end;
end
$$;

comment on function skiplane._take_stream(text, smallint, text, integer, jsonb, timestamptz, smallint) is
'Locks the next tasks of one queue, priority and type, tenants in turn, and gives the next turn; sure is false where that takes more care.';

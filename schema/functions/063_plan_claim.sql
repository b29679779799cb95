-- How a claim is shared out over the lanes that it found: planned without locks.

-- How many of each lane one tenant gives, in exact order over its lanes. Reads without locks: others may be
-- taking the same rows, then the lock below takes the next ones of the lane.
create or replace function skiplane._merge_lanes(
    p_lanes skiplane.lane_head[], p_limit integer, p_now timestamptz, p_shard smallint
) returns integer[] language plpgsql volatile
    set jit = off set enable_seqscan = off set enable_bitmapscan = off
    set enable_sort = off set plan_cache_mode = force_generic_plan
as $$
begin
    if cardinality(p_lanes) = 1 then
        return array[p_limit];
    end if;
    return array(
        select count(x.lane)::integer
        from unnest(p_lanes) with ordinality as l (lane, queue, priority, tenant_id, due_at, estimate, id, turn, weight, strict, gated, gates, ord)
        left join (
            select u.lane from unnest(p_lanes) as u
            cross join lateral (
                select r.due_at, r.estimate, r.id from skiplane.ready r
                where r.lane = u.lane and r.shard = p_shard and (r.due_at, r.estimate, r.id) >= (u.due_at, u.estimate, u.id)
                    and (r.expires_at is null or r.expires_at > p_now)
                order by r.due_at, r.estimate, r.id limit p_limit
            ) r
            order by r.due_at, r.estimate, r.id limit p_limit
        ) x on x.lane = l.lane
        group by l.ord order by l.ord
    );
end
$$;

comment on function skiplane._merge_lanes(skiplane.lane_head[], integer, timestamptz, smallint) is
'Share of each lane in the next p_limit tasks of a tenant.';

-- The usual case of many tenants: one queue and priority, and one lane of each. NULL where it is another.
create or replace function skiplane._plan_even(
    p_lanes skiplane.lane_head[], p_left integer, p_dry boolean[], p_turn jsonb, out wants integer[], out turn jsonb
) language plpgsql volatile
    set plan_cache_mode = force_generic_plan
as $$
declare
    v_rest integer := case when p_turn ->> 0 = p_lanes[1].tenant_id then (p_turn ->> 2)::integer end;
begin
    select case when bool_and(x.even) then array_agg(x.give order by x.ord) end,
        (array_agg(case when x.give < x.quantum then jsonb_build_array(x.tenant_id, 0, x.quantum - x.give)
            else jsonb_build_array(x.tenant_id, x.lane) end order by x.ord desc) filter (where x.give > 0))[1]
    into wants, turn
    from (
        select y.ord, y.lane, y.tenant_id, y.quantum, y.even,
            least(y.quantum, greatest(0, p_left - (sum(y.quantum) over (order by y.ord) - y.quantum)))::integer as give
        from (
            select l.ord, l.lane, l.tenant_id,
                case when p_dry[l.ord] then 0 when l.ord = 1 and v_rest is not null then v_rest
                    else l.weight * ceil(p_left::double precision / sum(l.weight) filter (where not p_dry[l.ord]) over ())::integer end as quantum,
                l.queue = p_lanes[1].queue and l.priority = p_lanes[1].priority
                    and l.tenant_id <> lag(l.tenant_id, 1, p_lanes[cardinality(p_lanes)].tenant_id) over (order by l.ord) as even
            from unnest(p_lanes) with ordinality
                as l (lane, queue, priority, tenant_id, due_at, estimate, id, turn, weight, strict, gated, gates, ord)
        ) y
    ) x;
end
$$;

comment on function skiplane._plan_even(skiplane.lane_head[], integer, boolean[], jsonb) is
'How many to take of each lane where there are one queue and priority and each tenant has one lane, and the next turn.';

-- How many to take of each lane: priorities by their shares (or in strict order), then tenants in turn by deficit round
-- robin, then the lanes of one tenant in exact order. What a turn could not give for want of room in the claim is kept
-- in the cursor as [tenant, 0, rest]: the next claim begins with it.
-- p_got is what this claim has of each lane already, p_dry says which have no more.
create or replace function skiplane._plan_claim(
    p_lanes skiplane.lane_head[], p_left integer, p_first boolean, p_now timestamptz, p_shard smallint,
    p_got integer[], inout p_dry boolean[], inout p_credit jsonb, inout p_turn jsonb, out wants integer[]
) language plpgsql volatile
as $$
declare
    v_active smallint[];
    v_open bigint[];
    v_credit jsonb := '{}';
    v_rest integer;
    v_quantum integer;
    v_give integer;
    v_sum integer;
    v_place integer;
    v_counts integer[];
    v_queue text;
    v_turn jsonb;
    v_before jsonb;
    s record;
    g record;
begin
    v_queue := p_lanes[1].queue || '|' || p_lanes[1].priority;
    g := skiplane._plan_even(p_lanes, p_left, p_dry, case when p_first then p_turn -> v_queue end);
    if g.wants is not null then
        wants := case when true = any (p_dry) and not false = any (p_dry) then null else g.wants end;
        if p_first and g.turn is not null then
            p_turn := coalesce(p_turn, '{}') || jsonb_build_object(v_queue, g.turn);
            p_credit := jsonb_build_object(p_lanes[1].priority, least(p_left, coalesce((p_credit ->> p_lanes[1].priority::text)::double precision, 0)));
        end if;
        return;
    end if;
    wants := array_fill(0, array[cardinality(p_lanes)]);
    select array_agg(distinct x.priority order by x.priority desc), array_agg(x.ord) into v_active, v_open
    from (
        select l.priority, l.ord, l.strict and l.priority < max(l.priority) over (partition by l.queue) as below
        from unnest(p_lanes) with ordinality
            as l (lane, queue, priority, tenant_id, due_at, estimate, id, turn, weight, strict, gated, gates, ord)
        where not p_dry[l.ord]
    ) x where not x.below;
    if v_active is null then
        wants := null;
        return;
    end if;
    for s in select * from skiplane._priority_shares(p_left, v_active, p_credit) loop
        -- Also where the share is nothing: what is left over adds up to a turn.
        v_credit := v_credit || jsonb_build_object(s.priority::text, s.credit);
        v_rest := s.share;
        v_queue := null;
        continue when v_rest = 0;
        for g in
            select x.*, ceil(s.share::numeric / sum(x.weight) over ())::integer as rounds
            from (
                select l.queue, l.tenant_id, max(l.lane) as last, min(l.turn) as turn, min(l.weight) as weight,
                    array_agg(l.ord order by l.turn) as places,
                    sum(p_got[l.ord])::integer as got
                from unnest(p_lanes) with ordinality
                    as l (lane, queue, priority, tenant_id, due_at, estimate, id, turn, weight, strict, gated, gates, ord)
                where l.priority = s.priority and l.ord = any (v_open)
                group by l.queue, l.tenant_id
            ) x order by x.turn
        loop
            exit when v_rest <= 0;
            v_quantum := g.weight * g.rounds;
            if p_first then
                v_before := p_turn -> (g.queue || '|' || s.priority);
                if v_before ->> 0 = g.tenant_id and v_before ->> 2 is not null then
                    v_quantum := (v_before ->> 2)::integer;
                end if;
            end if;
            v_give := least(v_quantum, v_rest);
            -- Reading sees the rows that this claim has locked, too: it asks for both together.
            if cardinality(g.places) = 1 then
                wants[g.places[1]] := v_give;
                v_rest := v_rest - v_give;
            else
                v_counts := skiplane._merge_lanes(array(select p_lanes[x] from unnest(g.places) with ordinality as u (x, ord) order by u.ord),
                    v_give + g.got, p_now, p_shard);
                v_sum := 0;
                for i in 1 .. cardinality(v_counts) loop
                    v_place := g.places[i];
                    wants[v_place] := greatest(0, v_counts[i] - p_got[v_place]);
                    v_sum := v_sum + wants[v_place];
                end loop;
                if v_sum < v_give then
                    foreach v_place in array g.places loop
                        p_dry[v_place] := true;
                    end loop;
                end if;
                v_rest := v_rest - v_sum;
            end if;
            if p_first then
                if v_queue <> g.queue then
                    p_turn := coalesce(p_turn, '{}') || jsonb_build_object(v_queue || '|' || s.priority, v_turn);
                end if;
                v_queue := g.queue;
                v_turn := case when v_give < v_quantum then jsonb_build_array(g.tenant_id, 0, v_quantum - v_give)
                    else jsonb_build_array(g.tenant_id, g.last) end;
            end if;
        end loop;
        if v_queue is not null then
            p_turn := coalesce(p_turn, '{}') || jsonb_build_object(v_queue || '|' || s.priority, v_turn);
        end if;
    end loop;
    if p_first then
        p_credit := v_credit;
    end if;
end
$$;

comment on function skiplane._plan_claim(
    skiplane.lane_head[], integer, boolean, timestamptz, smallint, integer[], boolean[], jsonb, jsonb
) is 'Splits a claim over lanes: wants has a number for each, or is NULL when none has more.';

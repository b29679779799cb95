-- How a claim takes from the lanes that it found: locked as 063_plan_claim has planned.

-- An array of ctids of locked rows, not a subquery in the DELETE: the planner may re-run a subquery with LIMIT and
-- take more than was asked for.
create or replace function skiplane._lock_ready(
    p_lane skiplane.lane_head, p_limit integer, p_now timestamptz, p_shard smallint
) returns tid[] language plpgsql volatile
    set jit = off set enable_seqscan = off set enable_bitmapscan = off
    set enable_sort = off set plan_cache_mode = force_generic_plan
as $$
declare
    v_due timestamptz := p_lane.due_at;
    v_estimate integer := p_lane.estimate;
    v_id uuid := p_lane.id;
    v_lane bigint := p_lane.lane;
begin
    return array(
        select r.ctid from skiplane.ready r
        where r.lane = v_lane and r.shard = p_shard and (r.due_at, r.estimate, r.id) >= (v_due, v_estimate, v_id)
            and (r.expires_at is null or r.expires_at > p_now)
        order by r.due_at, r.estimate, r.id limit p_limit
        for update skip locked
    );
end
$$;

comment on function skiplane._lock_ready(skiplane.lane_head, integer, timestamptz, smallint) is
'Locks the first rows of a lane that nobody else holds.';

-- What is in p_rows is this claim's already and is seen again: so many more are asked for, and left out of the answer.
create or replace function skiplane._lock_lanes(
    p_lanes skiplane.lane_head[], p_wants integer[], p_got integer[], p_rows tid[], p_now timestamptz, p_shard smallint,
    out locked tid[], out counts integer[]
) language plpgsql volatile
    set jit = off set enable_seqscan = off set enable_bitmapscan = off
    set enable_sort = off set plan_cache_mode = force_generic_plan
as $$
declare
    v_places integer[];
    v_again boolean := p_rows <> '{}';
    v_place integer;
    v_locked tid[] := '{}';
begin
    if cardinality(p_lanes) = 1 and not v_again then
        locked := case when p_wants[1] > 0 then skiplane._lock_ready(p_lanes[1], p_wants[1], p_now, p_shard) else '{}' end;
        counts := array[cardinality(locked)];
        return;
    end if;
    select array_agg(x.place), array_agg(x.ctid) into v_places, locked
    from (
        select l.lane, l.due_at, l.estimate, l.id, l.ord::integer as ord, p_wants[l.ord] + p_got[l.ord] as most
        from unnest(p_lanes) with ordinality
            as l (lane, queue, priority, tenant_id, due_at, estimate, id, turn, weight, strict, gated, gates, ord)
        where p_wants[l.ord] > 0 offset 0
    ) h
    cross join lateral (
        select h.ord as place, r.ctid from skiplane.ready r
        where r.lane = h.lane and r.shard = p_shard and (r.due_at, r.estimate, r.id) >= (h.due_at, h.estimate, h.id)
            and (r.expires_at is null or r.expires_at > p_now)
        order by r.due_at, r.estimate, r.id limit h.most
        for update skip locked
    ) x;
    locked := coalesce(locked, '{}');
    if not v_again and cardinality(locked) = (select sum(w) from unnest(p_wants) as w) then
        counts := p_wants;
        return;
    end if;
    counts := array_fill(0, array[cardinality(p_lanes)]);
    for i in 1 .. cardinality(locked) loop
        v_place := v_places[i];
        if v_again and (locked[i] = any (p_rows) or counts[v_place] >= p_wants[v_place]) then
            continue;
        end if;
        counts[v_place] := counts[v_place] + 1;
        if v_again then
            v_locked := v_locked || locked[i];
        end if;
    end loop;
    if v_again then
        locked := v_locked;
    end if;
end
$$;

comment on function skiplane._lock_lanes(skiplane.lane_head[], integer[], integer[], tid[], timestamptz, smallint) is
'Locks the first rows of lanes that nobody else holds, as many of each as wanted.';

-- Lanes without limits: locks what the plan says, and plans again while somebody could not give its share.
create or replace function skiplane._take_free(
    p_lanes skiplane.lane_head[], p_limit integer, p_now timestamptz, p_shard smallint,
    inout p_credit jsonb, inout p_turn jsonb, out rows tid[]
) language plpgsql volatile
as $$
declare
    v_got integer[] := array_fill(0, array[cardinality(p_lanes)]);
    v_dry boolean[] := array_fill(false, array[cardinality(p_lanes)]);
    p record;
    t record;
begin
    rows := '{}';
    for v_round in 1 .. 8 loop
        p := skiplane._plan_claim(
            p_lanes, p_limit - cardinality(rows), v_round = 1, p_now, p_shard, v_got, v_dry, p_credit, p_turn);
        exit when p.wants is null;
        v_dry := p.p_dry;
        p_credit := p.p_credit;
        p_turn := p.p_turn;
        t := skiplane._lock_lanes(p_lanes, p.wants, v_got, rows, p_now, p_shard);
        rows := rows || t.locked;
        exit when cardinality(rows) >= p_limit;
        for i in 1 .. cardinality(p_lanes) loop
            v_got[i] := v_got[i] + t.counts[i];
            v_dry[i] := v_dry[i] or t.counts[i] < p.wants[i];
        end loop;
    end loop;
end
$$;

comment on function skiplane._take_free(skiplane.lane_head[], integer, timestamptz, smallint, jsonb, jsonb) is
'Locks the next tasks of lanes that have no limits: priorities by weight, tenants in turn.';

create or replace function skiplane._use_gates(
    p_gates skiplane.gate[], p_count integer, p_names text[], p_passes skiplane.gate_pass[]
) returns skiplane.gate_pass[] language plpgsql immutable
as $$
declare
    x skiplane.gate;
    v_place integer;
    v_pass skiplane.gate_pass;
begin
    foreach x in array p_gates loop
        continue when x.places is null and x.rate is null;
        v_place := array_position(p_names, x.name);
        v_pass := p_passes[v_place];
        v_pass.taken := v_pass.taken + p_count;
        p_passes[v_place] := v_pass;
    end loop;
    return p_passes;
end
$$;

comment on function skiplane._use_gates(skiplane.gate[], integer, text[], skiplane.gate_pass[]) is
'Takes places and tokens of gates that were entered; a negative number gives them back.';

-- The same with limits. Gates are entered here, one by one
-- as they are needed, and written when all is taken.
create or replace function skiplane._take_lanes(
    p_lanes skiplane.lane_head[], p_limit integer, p_shard smallint, p_back_gates text[],
    inout p_back_places integer[], inout p_now timestamptz, inout p_credit jsonb, inout p_turn jsonb,
    out rows tid[], out contended boolean, out again double precision
) language plpgsql volatile
as $$
declare
    v_got integer[] := array_fill(0, array[cardinality(p_lanes)]);
    v_dry boolean[] := array_fill(false, array[cardinality(p_lanes)]);
    v_names text[] := '{}';
    v_entered skiplane.gate[] := '{}';
    v_passes skiplane.gate_pass[] := '{}';
    v_pass skiplane.gate_pass;
    v_home smallint := skiplane._home_shard();
    v_gates skiplane.gate[];
    v_wants integer[];
    v_asked integer[];
    v_want integer;
    v_new integer;
    v_place integer;
    x skiplane.gate;
    p record;
    t record;
begin
    rows := '{}';
    contended := false;
    for v_round in 1 .. 8 loop
        p := skiplane._plan_claim(
            p_lanes, p_limit - cardinality(rows), v_round = 1, p_now, p_shard, v_got, v_dry, p_credit, p_turn);
        exit when p.wants is null;
        v_wants := p.wants;
        v_dry := p.p_dry;
        p_credit := p.p_credit;
        p_turn := p.p_turn;
        v_asked := v_wants;
        for i in 1 .. cardinality(p_lanes) loop
            v_want := v_wants[i];
            continue when v_want = 0;
            v_gates := p_lanes[i].gates;
            foreach x in array coalesce(v_gates, '{}') loop
                continue when x.places is null and x.rate is null;
                v_place := array_position(v_names, x.name);
                if v_place is null then
                    v_names := v_names || x.name;
                    v_entered := v_entered || x;
                    v_passes := v_passes || skiplane._look_at_gate(x, p_back_gates, p_back_places, v_home);
                    v_place := cardinality(v_names);
                end if;
                v_pass := v_passes[v_place];
                if skiplane._pass_room(x, v_pass) < v_want then
                    v_pass := skiplane._enter_gate(x, v_pass, v_want, v_home);
                    v_passes[v_place] := v_pass;
                    p_now := greatest(p_now, v_pass.at);
                    contended := contended or v_pass.missed;
                    v_want := least(v_want, skiplane._pass_room(x, v_pass));
                end if;
                if v_want <= 0 then
                    again := least(again, case when x.rate is not null then greatest(0, v_pass.wait) end);
                    exit;
                end if;
            end loop;
            v_asked[i] := greatest(v_want, 0);
            if v_want > 0 and v_gates is not null then
                v_passes := skiplane._use_gates(v_gates, v_want, v_names, v_passes);
            end if;
        end loop;
        -- All lanes in one statement, each with its own limit.
        t := skiplane._lock_lanes(p_lanes, v_asked, v_got, rows, p_now, p_shard);
        rows := rows || t.locked;
        for i in 1 .. cardinality(p_lanes) loop
            v_new := t.counts[i];
            v_got[i] := v_got[i] + v_new;
            if v_new < v_wants[i] then
                v_dry[i] := true;
            end if;
            if v_new < v_asked[i] and p_lanes[i].gates is not null then
                v_passes := skiplane._use_gates(p_lanes[i].gates, v_new - v_asked[i], v_names, v_passes);
            end if;
        end loop;
        exit when cardinality(rows) >= p_limit;
    end loop;
    for i in 1 .. cardinality(v_passes) loop
        v_new := skiplane._leave_gate(v_entered[i], v_passes[i], v_home);
        v_place := array_position(p_back_gates, v_names[i]);
        if v_place is not null then
            p_back_places[v_place] := v_new;
        end if;
    end loop;
end
$$;

comment on function skiplane._take_lanes(
    skiplane.lane_head[], integer, smallint, text[], integer[], timestamptz, jsonb, jsonb
) is 'Locks the next tasks of lanes: priorities by weight, tenants in turn, never more than limits let pass. contended: somebody else was at a gate; again: seconds until a rate lets the next one pass. The time comes back as it was when the gates were entered, and the places that are still to be given back.';

-- Claims that have more to look at than the usual few lanes without limits.

-- Where a claim takes from many lanes, each is emptied slowly, and the scheduler's marks are enough.
create or replace function skiplane._moved_cursor(p_cursor jsonb, p_lanes skiplane.lane_head[], p_turn jsonb, p_credit jsonb)
returns jsonb language sql immutable
as $$
    select p_cursor || jsonb_build_object('turn', coalesce(p_turn, '{}'), 'credit', coalesce(p_credit, '{}'), 'head', (
        select jsonb_object_agg(l.lane, jsonb_build_array(l.due_at, l.estimate, l.id)) from unnest(p_lanes) l where cardinality(p_lanes) <= 16))
$$;

comment on function skiplane._moved_cursor(jsonb, skiplane.lane_head[], jsonb, jsonb) is 'The cursor after a claim of these lanes.';

-- One lane: nothing to share out.
create or replace function skiplane._take_lane(
    p_lane skiplane.lane_head, p_limit integer, p_shard smallint, p_back_gates text[],
    inout p_back_places integer[], inout p_now timestamptz, out rows tid[], out contended boolean, out again double precision
) language plpgsql volatile
as $$
declare
    v_home smallint := skiplane._home_shard();
    v_asked integer := p_limit;
    v_entered skiplane.gate[] := '{}';
    v_passes skiplane.gate_pass[] := '{}';
    v_pass skiplane.gate_pass;
    v_left integer;
    x skiplane.gate;
begin
    rows := '{}';
    contended := false;
    foreach x in array coalesce(p_lane.gates, '{}') loop
        continue when x.places is null and x.rate is null;
        v_pass := skiplane._enter_gate(x, skiplane._look_at_gate(x, p_back_gates, p_back_places, v_home), v_asked, v_home);
        v_entered := v_entered || x;
        v_passes := v_passes || v_pass;
        p_now := greatest(p_now, v_pass.at);
        contended := contended or v_pass.missed;
        v_asked := least(v_asked, skiplane._pass_room(x, v_pass));
        if v_asked <= 0 then
            again := case when x.rate is not null then greatest(0, v_pass.wait) end;
            exit;
        end if;
    end loop;
    if v_asked > 0 then
        rows := skiplane._lock_ready(p_lane, v_asked, p_now, p_shard);
    end if;
    for i in 1 .. cardinality(v_passes) loop
        v_pass := v_passes[i];
        v_pass.taken := cardinality(rows);
        v_left := skiplane._leave_gate(v_entered[i], v_pass, v_home);
        if v_pass.name = any (p_back_gates) then
            p_back_places[array_position(p_back_gates, v_pass.name)] := v_left;
        end if;
    end loop;
end
$$;

comment on function skiplane._take_lane(skiplane.lane_head, integer, smallint, text[], integer[], timestamptz) is
'Locks the next tasks of one lane, never more than its limits let pass; answers as _take_lanes.';

-- A claim of lanes of which some have gates. Where others are just at the gates, it tries again for some milliseconds
-- before it goes home with nothing.
create or replace function skiplane._claim_gated(
    p_lanes skiplane.lane_head[], p_limit integer, inout p_cursor jsonb, inout p_now timestamptz, p_shard smallint,
    p_back_gates text[], inout p_back_places integer[], out lanes skiplane.lane_head[], out rows tid[]
) language plpgsql volatile
as $$
declare
    v_again double precision;
    o record;
    s record;
begin
    rows := '{}';
    for v_try in 1 .. 10 loop
        o := skiplane._open_lanes(p_lanes, p_back_gates, p_back_places, p_now, p_shard);
        lanes := o.lanes;
        if lanes is null then
            p_cursor := p_cursor || case when o.again is null then '{}' else jsonb_build_object('again', o.again) end;
            return;
        elsif cardinality(lanes) = 1 then
            s := skiplane._take_lane(lanes[1], p_limit, p_shard, p_back_gates, p_back_places, p_now);
        else
            s := skiplane._take_lanes(lanes, p_limit, p_shard, p_back_gates, p_back_places, p_now,
                p_cursor -> 'credit', p_cursor -> 'turn');
        end if;
        rows := s.rows;
        p_back_places := s.p_back_places;
        exit when rows <> '{}' or not s.contended;
        perform pg_sleep(0.001);
        p_now := skiplane.clock();
    end loop;
    if rows = '{}' then
        v_again := case when s.contended then 0.01 else least(s.again, o.again) end;
        p_cursor := p_cursor || case when v_again is null then '{}' else jsonb_build_object('again', v_again) end;
        return;
    end if;
    p_now := s.p_now;
    if cardinality(lanes) = 1 then
        p_cursor := p_cursor || jsonb_build_object('head', jsonb_build_object(
            lanes[1].lane, jsonb_build_array(lanes[1].due_at, lanes[1].estimate, lanes[1].id)));
    else
        p_cursor := skiplane._moved_cursor(p_cursor, lanes, s.p_turn, s.p_credit);
    end if;
end
$$;

comment on function skiplane._claim_gated(skiplane.lane_head[], integer, jsonb, timestamptz, smallint, text[], integer[]) is
'Locks tasks of lanes with limits. again in the cursor: seconds after which a claim may find more.';

-- A claim where there are more lanes than can be looked at. Where only empty or closed lanes were seen the turn goes on
-- from there; where not even these, it starts again.
create or replace function skiplane._claim_many(
    p_queues text[], p_task_types text[], p_limit integer, inout p_cursor jsonb, inout p_now timestamptz, p_shard smallint,
    out lanes skiplane.lane_head[], out rows tid[], out gated boolean
) language plpgsql volatile
as $$
declare
    v_passed jsonb;
    v_last jsonb;
    v_again double precision;
    v_unsure boolean := false;
    s record;
    w record;
begin
    rows := '{}';
    gated := false;
    s := skiplane._streams(p_queues, p_task_types, p_now, p_shard);
    -- Believed as long as the heads are.
    if not p_cursor ? 'many' then
        p_cursor := p_cursor || '{"many": true}';
    end if;
    if cardinality(s.queues) = 1 and p_cursor -> 'many' = 'true' then
        w := skiplane._take_stream(s.queues[1], s.priorities[1], s.task_types[1], p_limit, p_cursor, p_now, p_shard);
        if w.sure then
            rows := w.rows;
            p_cursor := p_cursor || jsonb_build_object('turn', jsonb_build_object(concat(s.queues[1], '|', s.priorities[1]), w.turn),
                'credit', '{}'::jsonb);
            return;
        elsif w.gated then
            p_cursor := p_cursor || '{"many": "gated"}';
        end if;
        -- Tenants with two lanes: with few tenants in sight some would get two shares where others get one.
        v_unsure := true;
    end if;
    for v_look in 1 .. 8 loop
        if v_look > 1 then
            s := skiplane._streams(p_queues, p_task_types, p_now, p_shard);
        end if;
        select array_agg(l order by l.turn) filter (where l.id is not null),
            jsonb_object_agg(l.queue || '|' || l.priority, case when l.id is null then jsonb_build_array(l.tenant_id, l.lane) end)
                filter (where l.turn = 1),
            jsonb_object_agg(l.queue || '|' || l.priority, jsonb_build_array(l.tenant_id, l.lane) order by l.turn)
                filter (where l.id is not null),
            bool_or(l.gated)
        into lanes, v_passed, v_last, gated
        from skiplane._lanes_with_work(s.queues, s.priorities, s.task_types, case when v_look = 1 and not v_unsure then p_limit else 64 end,
            p_cursor, p_shard) l;
        if gated then
            w := skiplane._claim_gated(lanes, p_limit, p_cursor, p_now, p_shard, null, null);
            v_again := least(v_again, (w.p_cursor ->> 'again')::double precision);
            if 2 * coalesce(cardinality(w.lanes), 0) <= cardinality(lanes) then
                perform skiplane._hold_lanes(array(
                    select l.lane from unnest(lanes) l
                    where l.gated and not exists (select from unnest(w.lanes) o where o.lane = l.lane)), p_now, p_shard);
            end if;
            if w.lanes is null then
                -- All that was seen is closed: look behind it.
                p_cursor := p_cursor || jsonb_build_object('turn', coalesce(p_cursor -> 'turn', '{}') || v_last);
                lanes := null;
                continue;
            end if;
            lanes := w.lanes;
            rows := w.rows;
            p_now := w.p_now;
            p_cursor := w.p_cursor;
        elsif lanes <> '{}' then
            w := skiplane._take_free(lanes, p_limit, p_now, p_shard, p_cursor -> 'credit', p_cursor -> 'turn');
            rows := w.rows;
            p_cursor := skiplane._moved_cursor(p_cursor, lanes, w.p_turn, w.p_credit);
        end if;
        exit;
    end loop;
    p_cursor := p_cursor || jsonb_build_object('turn', coalesce((
        select jsonb_object_agg(t.key, t.value) from jsonb_each(p_cursor -> 'turn') t where v_passed ? t.key), '{}')
        || coalesce(jsonb_strip_nulls(v_passed), '{}'));
    if rows = '{}' and v_again is not null then
        p_cursor := p_cursor || jsonb_build_object('again', v_again);
    end if;
end
$$;

comment on function skiplane._claim_many(text[], text[], integer, jsonb, timestamptz, smallint) is
'Locks tasks where there are more than 64 lanes.';

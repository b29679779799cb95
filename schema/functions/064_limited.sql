-- Claims that have more to look at than the usual few lanes without limits.

-- Where a claim takes from many lanes, each is emptied slowly, and the scheduler's marks are enough.
create or replace function skiplane._moved_cursor(p_cursor jsonb, p_lanes skiplane.lane_head[], p_turn jsonb, p_credit jsonb)
returns jsonb language sql immutable
as $$
    select p_cursor || jsonb_build_object('turn', coalesce(p_turn, '{}'), 'credit', coalesce(p_credit, '{}'), 'head', (
        select jsonb_object_agg(l.lane, jsonb_build_array(l.due_at, l.estimate, l.id)) from unnest(p_lanes) l where cardinality(p_lanes) <= 16))
$$;

comment on function skiplane._moved_cursor(jsonb, skiplane.lane_head[], jsonb, jsonb) is 'The cursor after a claim of these lanes.';

-- A claim of lanes of which some have gates. Where others are just at the gates, it tries again for some milliseconds
-- before it goes home with nothing.
create or replace function skiplane._claim_gated(
    p_lanes skiplane.lane_head[], p_limit integer, inout p_cursor jsonb, inout p_now timestamptz, p_shard smallint,
    out lanes skiplane.lane_head[], out rows tid[]
) language plpgsql volatile
as $$
declare
    v_contended boolean := false;
    v_again double precision;
    o record;
    s record;
begin
    rows := '{}';
    for v_try in 1 .. 10 loop
        o := skiplane._open_lanes(p_lanes, p_now, p_shard);
        lanes := o.lanes;
        exit when lanes is null;
        s := skiplane._take_lanes(lanes, p_limit, p_shard, true, p_now, p_cursor -> 'credit', p_cursor -> 'turn');
        rows := s.rows;
        v_contended := s.contended;
        v_again := s.again;
        exit when rows <> '{}' or not v_contended;
        perform pg_sleep(0.001);
        p_now := skiplane.clock();
    end loop;
    if rows <> '{}' then
        p_now := s.p_now;
        p_cursor := skiplane._moved_cursor(p_cursor, lanes, s.p_turn, s.p_credit);
    elsif v_contended or v_again is not null or o.again is not null then
        p_cursor := p_cursor || jsonb_build_object('again', case when v_contended then 0.01 else least(v_again, o.again) end);
    end if;
end
$$;

comment on function skiplane._claim_gated(skiplane.lane_head[], integer, jsonb, timestamptz, smallint) is
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
    w record;
begin
    rows := '{}';
    for v_look in 1 .. 8 loop
        -- Believed as long as the heads are.
        p_cursor := p_cursor || '{"many": true}';
        select array_agg(l order by l.turn) filter (where l.id is not null),
            jsonb_object_agg(l.queue || '|' || l.priority, case when l.id is null then jsonb_build_array(l.tenant_id, l.lane) end)
                filter (where l.turn = 1),
            jsonb_object_agg(l.queue || '|' || l.priority, jsonb_build_array(l.tenant_id, l.lane) order by l.turn)
                filter (where l.id is not null),
            bool_or(l.gated)
        into lanes, v_passed, v_last, gated
        from skiplane._lanes_with_work(p_queues, p_task_types, case v_look when 1 then p_limit else 64 end, p_cursor, p_now, p_shard) l;
        if gated then
            w := skiplane._claim_gated(lanes, p_limit, p_cursor, p_now, p_shard);
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
            w := skiplane._take_lanes(lanes, p_limit, p_shard, false, p_now, p_cursor -> 'credit', p_cursor -> 'turn');
            rows := w.rows;
            p_now := w.p_now;
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

-- The claim itself.

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

-- How many to take of each lane: priorities by their shares (or in strict order), then tenants in turn by deficit round
-- robin, then the lanes of one tenant in exact order. What a turn could not give for want of room in the claim is kept
-- in the cursor as [tenant, 0, rest]: the next claim begins with it.
-- p_got is what this claim has of each lane already, p_dry says which have no more.
create or replace function skiplane._plan_claim(
    p_lanes skiplane.lane_head[], p_left integer, p_first boolean, p_now timestamptz, p_shard smallint,
    inout p_got integer[], inout p_dry boolean[], inout p_credit jsonb, inout p_turn jsonb, out wants integer[]
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
    v_turn jsonb;
    s record;
    g record;
begin
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
        continue when v_rest = 0;
        for g in
            select x.*, ceil(s.share::numeric / sum(x.weight) over ())::integer as rounds
            from (
                select l.queue, l.tenant_id, max(l.lane) as last, min(l.turn) as turn, min(l.weight) as weight,
                    array_agg(p_lanes[l.ord] order by l.turn) as lanes, array_agg(l.ord order by l.turn) as places,
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
                v_turn := p_turn -> (g.queue || '|' || s.priority);
                if v_turn ->> 0 = g.tenant_id and v_turn ->> 2 is not null then
                    v_quantum := (v_turn ->> 2)::integer;
                end if;
            end if;
            v_give := least(v_quantum, v_rest);
            -- Reading sees the rows that this claim has locked, too: it asks for both together.
            v_counts := skiplane._merge_lanes(g.lanes, v_give + g.got, p_now, p_shard);
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
            if p_first then
                p_turn := coalesce(p_turn, '{}') || jsonb_build_object(g.queue || '|' || s.priority,
                    case when v_give < v_quantum then jsonb_build_array(g.tenant_id, 0, v_quantum - v_give)
                        else jsonb_build_array(g.tenant_id, g.last) end);
            end if;
        end loop;
    end loop;
    if p_first then
        p_credit := v_credit;
    end if;
end
$$;

comment on function skiplane._plan_claim(
    skiplane.lane_head[], integer, boolean, timestamptz, smallint, integer[], boolean[], jsonb, jsonb
) is 'Splits a claim over lanes: wants has a number for each, or is NULL when none has more.';

-- Locks what the plan says, and plans again while somebody could not give its share. Gates are entered here, one by one
-- as they are needed, and written when all is taken.
create or replace function skiplane._take_lanes(
    p_lanes skiplane.lane_head[], p_limit integer, p_shard smallint,
    inout p_now timestamptz, inout p_credit jsonb, inout p_turn jsonb, out rows tid[], out contended boolean, out again double precision
) language plpgsql volatile
as $$
declare
    v_got integer[] := array_fill(0, array[cardinality(p_lanes)]);
    v_dry boolean[] := array_fill(false, array[cardinality(p_lanes)]);
    v_names text[] := '{}';
    v_passes skiplane.gate_pass[] := '{}';
    v_pass skiplane.gate_pass;
    v_home smallint;
    v_gates skiplane.gate[];
    v_wants integer[];
    v_want integer;
    v_new integer;
    v_place integer;
    v_part tid[];
    x skiplane.gate;
    p record;
begin
    rows := '{}';
    contended := false;
    for v_round in 1 .. 8 loop
        if cardinality(p_lanes) = 1 then
            -- Nothing to share out; the turns and credits stay as they are.
            v_wants := array[p_limit];
        else
            p := skiplane._plan_claim(
                p_lanes, p_limit - cardinality(rows), v_round = 1, p_now, p_shard, v_got, v_dry, p_credit, p_turn);
            exit when p.wants is null;
            v_wants := p.wants;
            v_dry := p.p_dry;
            p_credit := p.p_credit;
            p_turn := p.p_turn;
        end if;
        for i in 1 .. cardinality(p_lanes) loop
            v_want := v_wants[i];
            continue when v_want = 0;
            v_gates := p_lanes[i].gates;
            foreach x in array coalesce(v_gates, '{}') loop
                continue when x.places is null and x.rate is null;
                v_place := array_position(v_names, x.name);
                if v_place is null then
                    v_home := coalesce(v_home, skiplane._home_shard());
                    v_pass := skiplane._enter_gate(x, v_home);
                    v_names := v_names || x.name;
                    v_passes := v_passes || v_pass;
                    p_now := greatest(p_now, v_pass.at);
                    contended := contended or not v_pass.mine;
                else
                    v_pass := v_passes[v_place];
                end if;
                v_want := case when not v_pass.mine then 0
                    when x.rate is not null then least(v_want, floor(v_pass.tokens + 1e-9)::integer)
                    else least(v_want, greatest(0, x.places - v_pass.held)) end;
                if v_want = 0 then
                    if v_pass.mine and x.rate is not null then
                        again := least(again, greatest(0, (1 - v_pass.tokens) / x.rate));
                    end if;
                    exit;
                end if;
            end loop;
            v_new := 0;
            if v_want > 0 then
                v_part := skiplane._lock_ready(p_lanes[i], v_got[i] + v_want, p_now, p_shard);
                if v_got[i] > 0 then
                    v_part := array(select t from unnest(v_part) as t where t <> all (rows) limit v_want);
                end if;
                v_new := cardinality(v_part);
                rows := rows || v_part;
                v_got[i] := v_got[i] + v_new;
            end if;
            if v_new < v_wants[i] then
                v_dry[i] := true;
            end if;
            if v_new > 0 and v_gates is not null then
                foreach x in array v_gates loop
                    continue when x.places is null and x.rate is null;
                    v_place := array_position(v_names, x.name);
                    v_pass := v_passes[v_place];
                    if x.rate is not null then
                        v_pass.tokens := v_pass.tokens - v_new;
                    else
                        v_pass.held := v_pass.held + v_new;
                    end if;
                    v_pass.changed := true;
                    v_passes[v_place] := v_pass;
                end loop;
            end if;
        end loop;
        exit when cardinality(rows) >= p_limit or cardinality(p_lanes) = 1;
    end loop;
    foreach v_pass in array v_passes loop
        if v_pass.changed then
            perform skiplane._leave_gate(v_pass, v_home);
        end if;
    end loop;
end
$$;

comment on function skiplane._take_lanes(skiplane.lane_head[], integer, smallint, timestamptz, jsonb, jsonb) is
'Locks the next tasks of lanes: priorities by weight, tenants in turn, never more than limits let pass. contended: somebody else was at a gate; again: seconds until a rate lets the next one pass. The time comes back as it was when the gates were entered.';

create or replace function skiplane._check_claim(
    p_worker_id uuid, p_queues text[], p_limit integer, p_lease_seconds double precision
) returns void language plpgsql immutable
as $$
begin
    if p_worker_id is null or p_limit is null or p_lease_seconds is null or p_queues is null then
        perform skiplane._refuse('SK001', case when p_worker_id is null then 'worker_id' when p_queues is null then 'queues'
            when p_limit is null then 'limit' else 'lease_seconds' end, null, 'worker, queues, limit and lease must be given', 'give all four');
    end if;
    perform skiplane._check_number('limit', p_limit, 1, 10000);
    perform skiplane._check_number('lease_seconds', p_lease_seconds, 0.1, 86400);
end
$$;

comment on function skiplane._check_claim(uuid, text[], integer, double precision) is 'Refuses what no claim can be made with.';

create or replace function skiplane._moved_cursor(p_cursor jsonb, p_lanes skiplane.lane_head[], p_turn jsonb, p_credit jsonb)
returns jsonb language sql immutable
as $$
    select p_cursor || jsonb_build_object('turn', coalesce(p_turn, '{}'), 'credit', coalesce(p_credit, '{}'), 'head', (
        select jsonb_object_agg(l.lane, jsonb_build_array(l.due_at, l.estimate, l.id)) from unnest(p_lanes) l))
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
        s := skiplane._take_lanes(lanes, p_limit, p_shard, p_now, p_cursor -> 'credit', p_cursor -> 'turn');
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
            w := skiplane._take_lanes(lanes, p_limit, p_shard, p_now, p_cursor -> 'credit', p_cursor -> 'turn');
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

create or replace function skiplane.claim_tasks(
    p_worker_id uuid, p_queues text[], p_limit integer default 1, p_task_types text[] default null,
    p_lease_seconds double precision default 10, p_cursor jsonb default null, p_shard smallint default 0,
    out lease_id bigint, out tasks text, out cursor jsonb
) language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off set plan_cache_mode = force_generic_plan
as $$
declare
    v_now timestamptz := skiplane.clock();
    v_lanes skiplane.lane_head[];
    v_rows tid[] := '{}';
    v_gated boolean := false;
    w record;
    s record;
begin
    if (p_worker_id is not null and p_queues is not null and p_limit between 1 and 10000
        and p_lease_seconds between 0.1 and 86400) is not true then
        perform skiplane._check_claim(p_worker_id, p_queues, p_limit, p_lease_seconds);
    end if;
    if coalesce(abs(extract(epoch from v_now) - (p_cursor ->> 'at')::double precision), 1) >= 0.5 then
        p_cursor := coalesce(p_cursor, '{}') - '{head,many,again}'::text[] || jsonb_build_object('at', extract(epoch from v_now));
    elsif p_cursor ? 'again' then
        p_cursor := p_cursor - 'again';
    end if;
    if not p_cursor ? 'many' then
        w := skiplane._few_lanes_with_work(p_queues, p_task_types, p_cursor, p_shard);
        v_lanes := w.lanes;
        v_gated := w.gated;
    end if;
    if p_cursor ? 'many' or not w.few then
        w := skiplane._claim_many(p_queues, p_task_types, p_limit, p_cursor, v_now, p_shard);
        v_lanes := w.lanes;
        v_rows := w.rows;
        v_now := w.p_now;
        v_gated := w.gated;
        p_cursor := w.p_cursor;
    elsif v_gated then
        w := skiplane._claim_gated(v_lanes, p_limit, p_cursor, v_now, p_shard);
        v_lanes := w.lanes;
        v_rows := w.rows;
        v_now := w.p_now;
        p_cursor := w.p_cursor;
    elsif cardinality(v_lanes) = 1 then
        -- Nothing to share out; the turns and credits stay as they are.
        v_rows := skiplane._lock_ready(v_lanes[1], p_limit, v_now, p_shard);
        p_cursor := p_cursor || jsonb_build_object('head', jsonb_build_object(
            v_lanes[1].lane, jsonb_build_array(v_lanes[1].due_at, v_lanes[1].estimate, v_lanes[1].id)));
    elsif v_lanes <> '{}' then
        s := skiplane._take_lanes(v_lanes, p_limit, p_shard, v_now, p_cursor -> 'credit', p_cursor -> 'turn');
        v_rows := s.rows;
        p_cursor := skiplane._moved_cursor(p_cursor, v_lanes, s.p_turn, s.p_credit);
    end if;
    if v_rows <> '{}' then
        s := skiplane._lease_rows(v_rows, v_lanes, p_worker_id, p_lease_seconds, v_now, p_shard, v_gated);
        lease_id := s.lease_id;
        tasks := s.tasks;
    end if;
    cursor := p_cursor;
end
$$;

comment on function skiplane.claim_tasks(uuid, text[], integer, text[], double precision, jsonb, smallint) is
'Takes up to p_limit ready tasks of the queues (of p_task_types, NULL = any) under one lease of p_lease_seconds. tasks is a JSON array; lease_id is NULL when there was nothing. Pass cursor back as p_cursor with the next call: it holds the turns of tenants and priorities. Finish with finish_tasks, extend with heartbeat.';

-- Of one day: a partition is only left out of a plan by an equation with its key, not by an array of days.
create or replace function skiplane._day_document(
    p_ids uuid[], p_day date, p_attempts smallint[], p_fences integer[], p_shard smallint,
    out places bigint[], out parts text[], out least_timeout double precision
) language plpgsql volatile
    set jit = off set enable_seqscan = off set enable_indexscan = on set enable_bitmapscan = off set plan_cache_mode = force_generic_plan
as $$
begin
    select array_agg(u.ord order by u.ord), min(t.timeout_s), array_agg(concat(
        '{"task_id":"', t.id, '","task_type":', to_json(t.task_type), ',"attempt":', u.attempt, ',"fence":', u.fence,
        ',"queue":', to_json(t.queue), ',"payload":', t.payload, ',"timeout_seconds":' || t.timeout_s,
        case when t.tenant_id <> 'default' then ',"tenant_id":' || to_json(t.tenant_id) end,
        ',"metadata":' || t.metadata::text, ',"max_retries":' || t.max_retries, ',"workflow_id":"' || t.workflow_id || '"',
        case when u.fence > 1 then ',"checkpoint":' || (
            select c.checkpoint::text from skiplane.checkpoint c where c.id = t.id and c.shard = p_shard) end,
        '}') order by u.ord)
    into places, least_timeout, parts
    from skiplane.task t
    join unnest(p_ids, p_attempts, p_fences) with ordinality as u (id, attempt, fence, ord) on u.id = t.id
    where t.id = any (p_ids) and t.shard = p_shard and t.day = p_day;
end
$$;

comment on function skiplane._day_document(uuid[], date, smallint[], integer[], smallint) is
'What a worker needs of claimed tasks of one day, as JSON objects with their places.';

create or replace function skiplane._claim_document(
    p_ids uuid[], p_days date[], p_attempts smallint[], p_fences integer[], p_shard smallint,
    out tasks text, out least_timeout double precision
) language plpgsql volatile
as $$
declare
    v_places bigint[] := '{}';
    v_parts text[] := '{}';
    d record;
begin
    if p_days[1] = all (p_days) then
        d := skiplane._day_document(p_ids, p_days[1], p_attempts, p_fences, p_shard);
        tasks := '[' || array_to_string(d.parts, ',') || ']';
        least_timeout := d.least_timeout;
        return;
    end if;
    for d in
        select x.* from (select distinct y.day from unnest(p_days) as y (day)) y
        cross join lateral skiplane._day_document(p_ids, y.day, p_attempts, p_fences, p_shard) x
    loop
        v_places := v_places || d.places;
        v_parts := v_parts || d.parts;
        least_timeout := least(least_timeout, d.least_timeout);
    end loop;
    select '[' || string_agg(u.part, ',' order by u.place) || ']' into tasks from unnest(v_places, v_parts) as u (place, part);
end
$$;

comment on function skiplane._claim_document(uuid[], date[], smallint[], integer[], smallint) is
'What a worker needs of claimed tasks, as a JSON array in their order, and the least of their time-outs.';

-- Which task holds a place of which limit.
create or replace function skiplane._holds(
    p_ids uuid[], p_lanes bigint[], p_heads skiplane.lane_head[], out ids uuid[], out gates text[]
) language sql immutable
as $$
    select array_agg(u.id), array_agg(g.name)
    from unnest(p_ids, p_lanes) as u (id, lane)
    join unnest(p_heads) h on h.lane = u.lane
    cross join unnest(h.gates) g
    where g.rate is null
$$;

comment on function skiplane._holds(uuid[], bigint[], skiplane.lane_head[]) is
'Pairs of a task and a limit of which it holds a place, or by which its end is counted; NULL when there are none.';

-- Moves locked ready rows into a lease and reads what the worker needs. The attempt is counted here: a task that
-- kills its worker never comes to a later place.
-- The rows are reached by ctid and nothing else: while statistics say that the table is small, a walk over a whole index
-- looks cheaper than a look at a few rows, and that walk comes to all that is dead.
create or replace function skiplane._lease_rows(
    p_rows tid[], p_lanes skiplane.lane_head[], p_worker_id uuid, p_lease_seconds double precision, p_now timestamptz,
    p_shard smallint, p_gated boolean, out lease_id bigint, out tasks text
) language plpgsql volatile
    set jit = off set enable_seqscan = off set enable_indexscan = off set enable_bitmapscan = off
    set plan_cache_mode = force_generic_plan
as $$
declare
    v_ids uuid[];
    v_days date[];
    v_attempts smallint[];
    v_fences integer[];
    v_lanes bigint[];
    v_holders uuid[];
    v_gates text[];
    h record;
    d record;
begin
    with gone as (
        delete from skiplane.ready r where r.ctid = any (p_rows) and r.shard = p_shard
        returning r.id, r.day, r.attempt + 1 as attempt, r.fence + 1 as fence, r.lane, r.due_at, r.estimate
    )
    select array_agg(g.id), array_agg(g.day), array_agg(g.attempt), array_agg(g.fence), array_agg(g.lane)
    into v_ids, v_days, v_attempts, v_fences, v_lanes
    from (
        -- What the walk knows of the lanes, not their table: a join with that may be planned as a look at all of them.
        select g.* from gone g left join unnest(p_lanes) l on l.lane = g.lane
        order by l.priority desc, g.due_at, g.estimate, g.id
    ) g;
    if v_ids is null then
        return;
    end if;
    lease_id := nextval('skiplane.lease_number');
    d := skiplane._claim_document(v_ids, v_days, v_attempts, v_fences, p_shard);
    tasks := d.tasks;
    if p_gated then
        h := skiplane._holds(v_ids, v_lanes, p_lanes);
        v_holders := h.ids;
        v_gates := h.gates;
    end if;
    insert into skiplane.lease (
        lease_id, shard, worker_id, until, claimed_at, kill_at, ids, days, attempts, fences, started, hold_ids, hold_gates)
    values (lease_id, p_shard, p_worker_id, p_now + make_interval(secs => p_lease_seconds), p_now,
        p_now + make_interval(secs => d.least_timeout + 10), v_ids, v_days, v_attempts, v_fences,
        array_fill(null::timestamptz, array[cardinality(v_ids)]), v_holders, v_gates);
end
$$;

comment on function skiplane._lease_rows(tid[], skiplane.lane_head[], uuid, double precision, timestamptz, smallint, boolean) is
'Turns locked ready rows into a lease and their document.';

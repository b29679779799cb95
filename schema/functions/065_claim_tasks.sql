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
        from unnest(p_lanes) with ordinality as l (lane, queue, priority, tenant_id, due_at, estimate, id, turn, ord)
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

-- Takes p_limit tasks of the lanes given, which are of one priority: tenants in turn, with equal shares, then whoever
-- has more takes what the others left. p_cursor comes back with the next turn.
create or replace function skiplane._take_lanes(
    p_lanes skiplane.lane_head[], p_limit integer, p_now timestamptz, p_shard smallint,
    out rows tid[], inout p_turn jsonb
) language plpgsql volatile
as $$
declare
    v_tenants integer;
    v_quantum integer;
    v_want integer;
    v_counts integer[];
    v_part tid[];
    g record;
begin
    rows := '{}';
    if cardinality(p_lanes) = 1 then
        rows := skiplane._lock_ready(p_lanes[1], p_limit, p_now, p_shard);
        return;
    end if;
    select count(distinct (l.queue, l.tenant_id)) into v_tenants from unnest(p_lanes) l;
    v_quantum := greatest(1, ceil(p_limit::numeric / v_tenants))::integer;
    for v_round in 1 .. 2 loop
        for g in
            select l.queue, l.tenant_id, l.priority, max(l.lane) as last, min(l.turn) as turn, array_agg(l order by l.turn) as lanes
            from unnest(p_lanes) l group by 1, 2, 3 order by turn
        loop
            exit when cardinality(rows) >= p_limit;
            -- The second look sees the rows that this transaction has locked: it asks for both together.
            v_want := case v_round when 1 then least(v_quantum, p_limit - cardinality(rows))
                else v_quantum + p_limit - cardinality(rows) end;
            v_counts := skiplane._merge_lanes(g.lanes, v_want, p_now, p_shard);
            for i in 1 .. cardinality(g.lanes) loop
                if v_counts[i] > 0 then
                    v_part := skiplane._lock_ready(g.lanes[i], v_counts[i], p_now, p_shard);
                    if v_round = 2 then
                        v_part := array(select x from unnest(v_part) x where x <> all (rows) limit p_limit - cardinality(rows));
                    end if;
                    rows := rows || v_part;
                end if;
            end loop;
            if v_round = 1 then
                p_turn := coalesce(p_turn, '{}')
                    || jsonb_build_object(g.queue || '|' || g.priority, jsonb_build_array(g.tenant_id, g.last));
            end if;
        end loop;
        exit when cardinality(rows) >= p_limit or v_tenants = 1;
    end loop;
end
$$;

comment on function skiplane._take_lanes(skiplane.lane_head[], integer, timestamptz, smallint, jsonb) is
'Locks the next tasks of one priority, tenants in turn.';

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

create or replace function skiplane.claim_tasks(
    p_worker_id uuid, p_queues text[], p_limit integer default 1, p_task_types text[] default null,
    p_lease_seconds double precision default 10, p_cursor jsonb default null, p_shard smallint default 0,
    out lease_id bigint, out tasks text, out cursor jsonb
) language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off
as $$
declare
    v_now timestamptz := skiplane.clock();
    v_lanes skiplane.lane_head[];
    v_rows tid[] := '{}';
    v_turn jsonb;
    v_passed jsonb;
    v_credit jsonb := '{}';
    v_active smallint[];
    v_few boolean := false;
    w record;
    s record;
    p record;
begin
    if (p_worker_id is not null and p_queues is not null and p_limit between 1 and 10000
        and p_lease_seconds between 0.1 and 86400) is not true then
        perform skiplane._check_claim(p_worker_id, p_queues, p_limit, p_lease_seconds);
    end if;
    if coalesce(abs(extract(epoch from v_now) - (p_cursor ->> 'at')::double precision), 1) >= 0.5 then
        p_cursor := coalesce(p_cursor, '{}') - '{head,many}'::text[] || jsonb_build_object('at', extract(epoch from v_now));
    end if;
    v_turn := p_cursor -> 'turn';
    if not p_cursor ? 'many' then
        w := skiplane._few_lanes_with_work(p_queues, p_task_types, p_cursor, p_shard);
        v_lanes := w.lanes;
        v_few := w.few;
    end if;
    if not v_few then
        -- Believed as long as the heads are.
        p_cursor := p_cursor || '{"many": true}';
        select array_agg(l order by l.turn) filter (where l.id is not null),
            jsonb_object_agg(l.queue || '|' || l.priority, case when l.id is null then jsonb_build_array(l.tenant_id, l.lane) end)
                filter (where l.turn = 1)
        into v_lanes, v_passed
        from skiplane._lanes_with_work(p_queues, p_task_types, p_cursor, p_shard) l;
    end if;
    if cardinality(v_lanes) = 1 then
        -- Nothing to share out; the turns and credits stay as they are.
        v_rows := skiplane._lock_ready(v_lanes[1], p_limit, v_now, p_shard);
        p_cursor := p_cursor || jsonb_build_object('head', jsonb_build_object(
            v_lanes[1].lane, jsonb_build_array(v_lanes[1].due_at, v_lanes[1].estimate, v_lanes[1].id)));
    elsif v_lanes <> '{}' then
        select array_agg(distinct l.priority order by l.priority desc) into v_active from unnest(v_lanes) l;
        -- Again while a priority could not use its share (it has too little, or others were quicker): the rest take it.
        for v_round in 1 .. 1 + cardinality(v_active) loop
            for s in select * from skiplane._priority_shares(p_limit - cardinality(v_rows), v_active, p_cursor -> 'credit') loop
                if v_round = 1 then
                    -- Also where the share is nothing: what is left over adds up to a turn.
                    v_credit := v_credit || jsonb_build_object(s.priority::text, s.credit);
                end if;
                continue when s.share = 0;
                -- A second look sees the rows that this transaction has locked: it asks for both together.
                p := skiplane._take_lanes(array(select l from unnest(v_lanes) l where l.priority = s.priority order by l.turn),
                    s.share + case v_round when 1 then 0 else cardinality(v_rows) end, v_now, p_shard, v_turn);
                if v_round > 1 then
                    p.rows := array(select x from unnest(p.rows) x where x <> all (v_rows) limit s.share);
                end if;
                if cardinality(p.rows) < s.share then
                    v_active := array_remove(v_active, s.priority);
                end if;
                v_rows := v_rows || p.rows;
                v_turn := p.p_turn;
            end loop;
            exit when cardinality(v_rows) >= p_limit or v_active = '{}';
        end loop;
        p_cursor := p_cursor || jsonb_build_object('turn', coalesce(v_turn, '{}'), 'credit', v_credit, 'head', (
            select jsonb_object_agg(l.lane, jsonb_build_array(l.due_at, l.estimate, l.id)) from unnest(v_lanes) l));
    end if;
    if not v_few then
        -- Where only empty lanes were seen the turn goes on from there; where not even these, it starts again.
        p_cursor := p_cursor || jsonb_build_object('turn', coalesce((
            select jsonb_object_agg(t.key, t.value) from jsonb_each(p_cursor -> 'turn') t where v_passed ? t.key), '{}')
            || coalesce(jsonb_strip_nulls(v_passed), '{}'));
    end if;
    if v_rows <> '{}' then
        s := skiplane._lease_rows(v_rows, v_lanes, p_worker_id, p_lease_seconds, v_now, p_shard);
        lease_id := s.lease_id;
        tasks := s.tasks;
    end if;
    cursor := p_cursor;
end
$$;

comment on function skiplane.claim_tasks(uuid, text[], integer, text[], double precision, jsonb, smallint) is
'Takes up to p_limit ready tasks of the queues (of p_task_types, NULL = any) under one lease of p_lease_seconds. tasks is a JSON array, where "lost": true marks what may have killed its last process (run it apart); lease_id is NULL when there was nothing. Pass cursor back as p_cursor with the next call: it holds the turns of tenants and priorities. Finish with finish_tasks, extend with heartbeat.';

-- Of one day: a partition is only left out of a plan by an equation with its key, not by an array of days.
create or replace function skiplane._day_document(
    p_ids uuid[], p_day date, p_attempts smallint[], p_fences integer[], p_shard smallint,
    out places bigint[], out parts text[], out least_timeout double precision, out workflows boolean, out callbacks boolean
) language plpgsql volatile
    set jit = off set enable_seqscan = off set enable_indexscan = on set enable_bitmapscan = off set plan_cache_mode = force_generic_plan
as $$
begin
    select array_agg(u.ord order by u.ord), min(t.timeout_s), bool_or(t.callback_url is not null), array_agg(concat(
        '{"task_id":"', t.id, '","task_type":', to_json(t.task_type), ',"attempt":', u.attempt, ',"fence":', u.fence,
        ',"queue":', to_json(t.queue), ',"payload":', t.payload, ',"timeout_seconds":' || t.timeout_s,
        case when t.tenant_id <> 'default' then ',"tenant_id":' || to_json(t.tenant_id) end,
        case when t.scheduled_at > t.created_at then ',"due":' || extract(epoch from t.scheduled_at) end,
        ',"metadata":' || t.metadata::text, ',"max_retries":' || t.max_retries, ',"workflow_id":"' || t.workflow_id || '"',
        case when u.fence > 1 then ',"checkpoint":' || (
            select c.checkpoint::text from skiplane.checkpoint c where c.id = t.id and c.shard = p_shard) end,
        case when u.fence > 1 and skiplane._is_suspect(t.id, p_shard, t.day) then ',"lost":true' end,
        '}') order by u.ord), bool_or(t.workflow_id is not null)
    into places, least_timeout, callbacks, parts, workflows
    from skiplane.task t
    join unnest(p_ids, p_attempts, p_fences) with ordinality as u (id, attempt, fence, ord) on u.id = t.id
    where t.id = any (p_ids) and t.shard = p_shard and t.day = p_day;
end
$$;

comment on function skiplane._day_document(uuid[], date, smallint[], integer[], smallint) is
'What a worker needs of claimed tasks of one day, as JSON objects with their places, and whether workflows are among them.';

create or replace function skiplane._claim_document(
    p_ids uuid[], p_days date[], p_attempts smallint[], p_fences integer[], p_shard smallint,
    out tasks text, out least_timeout double precision, out workflows boolean, out callbacks boolean
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
        workflows := d.workflows;
        callbacks := d.callbacks;
        return;
    end if;
    for d in
        select x.* from (select distinct y.day from unnest(p_days) as y (day)) y
        cross join lateral skiplane._day_document(p_ids, y.day, p_attempts, p_fences, p_shard) x
    loop
        v_places := v_places || d.places;
        v_parts := v_parts || d.parts;
        least_timeout := least(least_timeout, d.least_timeout);
        workflows := coalesce(workflows, false) or coalesce(d.workflows, false);
        callbacks := coalesce(callbacks, false) or coalesce(d.callbacks, false);
    end loop;
    select '[' || string_agg(u.part, ',' order by u.place) || ']' into tasks from unnest(v_places, v_parts) as u (place, part);
end
$$;

comment on function skiplane._claim_document(uuid[], date[], smallint[], integer[], smallint) is
'What a worker needs of claimed tasks, as a JSON array in their order, the least of their time-outs, and whether workflows and tasks with a callback_url are among them.';

-- Moves locked ready rows into a lease and reads what the worker needs. The attempt is counted here: a task that
-- kills its worker never comes to a later place.
-- The rows are reached by ctid and nothing else: while statistics say that the table is small, a walk over a whole index
-- looks cheaper than a look at a few rows, and that walk comes to all that is dead.
create or replace function skiplane._lease_rows(
    p_rows tid[], p_lanes skiplane.lane_head[], p_worker_id uuid, p_lease_seconds double precision, p_now timestamptz,
    p_shard smallint, out lease_id bigint, out tasks text
) language plpgsql volatile
    set jit = off set enable_seqscan = off set enable_indexscan = off set enable_bitmapscan = off
    set plan_cache_mode = force_generic_plan
as $$
declare
    v_ids uuid[];
    v_days date[];
    v_attempts smallint[];
    v_fences integer[];
    d record;
begin
    with gone as (
        delete from skiplane.ready r where r.ctid = any (p_rows) and r.shard = p_shard
        returning r.id, r.day, r.attempt + 1 as attempt, r.fence + 1 as fence, r.lane, r.due_at, r.estimate
    )
    select array_agg(g.id), array_agg(g.day), array_agg(g.attempt), array_agg(g.fence)
    into v_ids, v_days, v_attempts, v_fences
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
    insert into skiplane.lease (
        lease_id, shard, worker_id, until, claimed_at, kill_at, ids, days, attempts, fences, started, workflows, callbacks)
    values (lease_id, p_shard, p_worker_id, p_now + make_interval(secs => p_lease_seconds), p_now,
        p_now + make_interval(secs => d.least_timeout + 10), v_ids, v_days, v_attempts, v_fences,
        array_fill(null::timestamptz, array[cardinality(v_ids)]), coalesce(d.workflows, false), coalesce(d.callbacks, false));
end
$$;

comment on function skiplane._lease_rows(tid[], skiplane.lane_head[], uuid, double precision, timestamptz, smallint) is
'Turns locked ready rows into a lease and their document.';

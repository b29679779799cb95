-- The claim itself.

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

-- p_back_gates and p_back_places are what the finish in the same transaction gives back of limits.
create or replace function skiplane._claim(
    p_worker_id uuid, p_queues text[], p_limit integer, p_task_types text[], p_lease_seconds double precision,
    p_cursor jsonb, p_shard smallint, p_back_gates text[], p_back_places integer[],
    out lease_id bigint, out tasks text, out cursor jsonb
) language plpgsql volatile
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
        -- The look at many lanes must find open what this transaction gives back.
        if p_back_gates is not null then
            perform skiplane._give_back(p_back_gates, p_back_places);
            p_back_gates := null;
        end if;
        w := skiplane._claim_many(p_queues, p_task_types, p_limit, p_cursor, v_now, p_shard);
        v_lanes := w.lanes;
        v_rows := w.rows;
        v_now := w.p_now;
        v_gated := w.gated;
        p_cursor := w.p_cursor;
    elsif v_gated then
        w := skiplane._claim_gated(v_lanes, p_limit, p_cursor, v_now, p_shard, p_back_gates, p_back_places);
        v_lanes := w.lanes;
        v_rows := w.rows;
        v_now := w.p_now;
        p_cursor := w.p_cursor;
        p_back_places := w.p_back_places;
    elsif cardinality(v_lanes) = 1 then
        -- Nothing to share out; the turns and credits stay as they are.
        v_rows := skiplane._lock_ready(v_lanes[1], p_limit, v_now, p_shard);
        p_cursor := p_cursor || jsonb_build_object('head', jsonb_build_object(
            v_lanes[1].lane, jsonb_build_array(v_lanes[1].due_at, v_lanes[1].estimate, v_lanes[1].id)));
    elsif v_lanes <> '{}' then
        s := skiplane._take_free(v_lanes, p_limit, v_now, p_shard, p_cursor -> 'credit', p_cursor -> 'turn');
        v_rows := s.rows;
        p_cursor := skiplane._moved_cursor(p_cursor, v_lanes, s.p_turn, s.p_credit);
    end if;
    if v_rows <> '{}' then
        s := skiplane._lease_rows(v_rows, v_lanes, p_worker_id, p_lease_seconds, v_now, p_shard, v_gated);
        lease_id := s.lease_id;
        tasks := s.tasks;
    end if;
    if p_back_gates is not null and 0 < any (p_back_places) then
        perform skiplane._give_back(p_back_gates, p_back_places);
    end if;
    cursor := p_cursor;
end
$$;

comment on function skiplane._claim(
    uuid, text[], integer, text[], double precision, jsonb, smallint, text[], integer[]
) is 'claim_tasks, with the places of limits that its transaction has to give back: it takes of them first.';

create or replace function skiplane.claim_tasks(
    p_worker_id uuid, p_queues text[], p_limit integer default 1, p_task_types text[] default null,
    p_lease_seconds double precision default 10, p_cursor jsonb default null, p_shard smallint default 0,
    out lease_id bigint, out tasks text, out cursor jsonb
) language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
begin
    select c.lease_id, c.tasks, c.cursor into lease_id, tasks, cursor
    from skiplane._claim(p_worker_id, p_queues, p_limit, p_task_types, p_lease_seconds, p_cursor, p_shard, null, null) c;
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

-- Which task holds a place of which limit; NULL stands for all of them.
create or replace function skiplane._holds(
    p_ids uuid[], p_lanes bigint[], p_heads skiplane.lane_head[], out ids uuid[], out gates text[]
) language plpgsql immutable
as $$
declare
    v_count integer := cardinality(p_ids);
    x skiplane.gate;
begin
    if cardinality(p_heads) = 1 then
        foreach x in array coalesce(p_heads[1].gates, '{}') loop
            if x.rate is null then
                ids := ids || null::uuid;
                gates := gates || x.name;
            end if;
        end loop;
        return;
    end if;
    select array_agg(y.id), array_agg(y.name) into ids, gates
    from (
        select distinct case when count(*) over (partition by g.name) < v_count then u.id end as id, g.name
        from unnest(p_ids, p_lanes) as u (id, lane)
        join unnest(p_heads) h on h.lane = u.lane
        cross join unnest(h.gates) g
        where g.rate is null
    ) y;
end
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
    -- Only where there can be several priorities.
    v_heads skiplane.lane_head[] := case when cardinality(p_lanes) > 1 then p_lanes end;
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
        select g.* from gone g left join unnest(v_heads) l on l.lane = g.lane
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
        lease_id, shard, worker_id, until, claimed_at, kill_at, ids, days, attempts, fences, started, workflows, callbacks,
        hold_ids, hold_gates)
    values (lease_id, p_shard, p_worker_id, p_now + make_interval(secs => p_lease_seconds), p_now,
        p_now + make_interval(secs => d.least_timeout + 10), v_ids, v_days, v_attempts, v_fences,
        array_fill(null::timestamptz, array[cardinality(v_ids)]), coalesce(d.workflows, false), coalesce(d.callbacks, false),
        v_holders, v_gates);
end
$$;

comment on function skiplane._lease_rows(tid[], skiplane.lane_head[], uuid, double precision, timestamptz, smallint, boolean) is
'Turns locked ready rows into a lease and their document.';

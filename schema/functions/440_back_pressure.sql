-- How much may come in: rates of tenants, caps of queues. Counted in slices and from rollups, never per request.
-- Settings: submissions_per_second (1000), submission_burst (one second's worth), queue_soft_cap (8 million) and
-- queue_hard_cap (10 million) waiting tasks of one queue.

create or replace function skiplane._setting_number(p_name text, p_default double precision) returns double precision
language sql stable
as $$ select coalesce((select (s.value #>> '{}')::double precision from skiplane.setting s where s.name = p_name), p_default) $$;

comment on function skiplane._setting_number(text, double precision) is 'A number of the settings, or its default.';

create or replace function skiplane.take_submissions(
    p_tenant_id text, p_needed integer, p_wanted integer default 0, out granted integer, out retry_after double precision
) language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_now timestamptz;
    v_rate double precision := skiplane._setting_number('submissions_per_second', 1000);
    v_burst double precision := greatest(1, skiplane._setting_number('submission_burst', v_rate));
    v_tokens double precision;
begin
    insert into skiplane.submission_budget (tenant_id, tokens, at) values (p_tenant_id, v_burst, skiplane.clock())
    on conflict (tenant_id) do nothing;
    select b.tokens, b.at into v_tokens, v_now from skiplane.submission_budget b where b.tenant_id = p_tenant_id for no key update;
    -- The clock after the lock: time that another one has counted must not be counted again.
    v_tokens := least(v_burst, v_tokens + v_rate * greatest(0, extract(epoch from skiplane.clock() - v_now)));
    v_now := greatest(v_now, skiplane.clock());
    if v_tokens >= least(p_needed, v_burst) then
        -- More than fits into the bucket is let in when it is full, and paid off afterwards.
        granted := greatest(p_needed, least(p_wanted, ceil(v_rate / 20), floor(v_tokens))::integer);
        retry_after := 0;
    else
        granted := 0;
        retry_after := (least(p_needed, v_burst) - v_tokens) / greatest(v_rate, 0.001);
    end if;
    update skiplane.submission_budget b set tokens = v_tokens - granted, at = v_now where b.tenant_id = p_tenant_id;
end
$$;

comment on function skiplane.take_submissions(text, integer, integer) is
'Takes p_needed submissions out of a tenant''s budget, or up to p_wanted, at most a twentieth of a second''s worth, to have some in hand. granted = 0: none are left; retry_after says in how many seconds p_needed will be.';

create or replace function skiplane.overflow_queue(p_queue text) returns text
language sql immutable parallel safe
as $$ select case when right(p_queue, 9) <> '~overflow' and octet_length(p_queue) <= 191 then p_queue || '~overflow' end $$;

comment on function skiplane.overflow_queue(text) is
'Where low-priority submissions to a queue wait while it is over its soft cap; NULL when it has none.';

create or replace function skiplane._queue_depths() returns table (queue text, depth bigint)
language sql stable
as $$
    select q.queue, sum(q.depth)::bigint
    from (select distinct on (x.shard) x.queues from skiplane.depth x order by x.shard, x.n desc) d
    cross join lateral jsonb_to_recordset(d.queues) as q (queue text, depth bigint)
    group by q.queue
$$;

comment on function skiplane._queue_depths() is 'Waiting tasks per queue, as last counted.';

create or replace function skiplane.queue_pressure() returns table (queue text, depth bigint, pressure text)
language sql volatile security definer set search_path = pg_catalog, pg_temp
as $$
    select d.queue, d.depth, case when d.depth >= skiplane._setting_number('queue_hard_cap', 10000000) then 'full' else 'high' end
    from skiplane._queue_depths() d
    where d.depth >= least(skiplane._setting_number('queue_soft_cap', 8000000), skiplane._setting_number('queue_hard_cap', 10000000))
$$;

comment on function skiplane.queue_pressure() is
'Queues over their soft cap (high: low priority goes to the overflow queue) or their hard cap (full: nothing is taken).';

create or replace function skiplane.return_overflow(p_limit integer default 1000, p_shard smallint default 0) returns integer
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off
as $$
declare
    q record;
    l record;
    v_ids uuid[];
    v_now timestamptz;
    v_count integer := 0;
begin
    perform pg_current_xact_id();
    v_now := skiplane.clock();
    for q in
        select distinct x.queue, left(x.queue, -9) as base from skiplane.lane x
        where x.shard = p_shard and right(x.queue, 9) = '~overflow' order by 1
    loop
        -- With some room below the cap, so that tasks do not go to and fro.
        continue when coalesce((select d.depth from skiplane._queue_depths() d where d.queue = q.base), 0)
            >= 0.9 * skiplane._setting_number('queue_soft_cap', 8000000);
        for l in
            select x.lane, x.priority, x.tenant_id, x.task_type, nullif(x.concurrency_key, '') as concurrency_key
            from skiplane.lane x where x.shard = p_shard and x.queue = q.queue order by x.lane
        loop
            exit when v_count >= p_limit;
            v_ids := array(
                select r.id from skiplane.ready r where r.lane = l.lane and r.shard = p_shard
                order by r.due_at, r.estimate, r.id limit p_limit - v_count for update skip locked);
            continue when v_ids = '{}';
            perform skiplane._move_ready(v_ids, skiplane._lane_for(
                p_shard, q.base, l.priority, l.tenant_id, l.task_type, l.concurrency_key), q.base, v_now, p_shard);
            v_count := v_count + cardinality(v_ids);
        end loop;
        perform skiplane._wake(q.base);
    end loop;
    return v_count;
end
$$;

comment on function skiplane.return_overflow(integer, smallint) is
'Moves up to p_limit tasks from overflow queues back to queues that have room again.';

create or replace function skiplane._move_ready(p_ids uuid[], p_lane bigint, p_queue text, p_now timestamptz, p_shard smallint)
returns void language plpgsql volatile
    set jit = off set enable_seqscan = off set plan_cache_mode = force_generic_plan
as $$
declare
    v_rows skiplane.ready[];
    v_days date[];
begin
    with gone as (delete from skiplane.ready r where r.id = any (p_ids) and r.shard = p_shard returning r.*)
    select array_agg(g::skiplane.ready), array_agg(distinct g.day) into v_rows, v_days from gone g;
    update skiplane.task t set queue = p_queue
    where t.id = any (p_ids) and t.shard = p_shard and t.day = any (v_days);
    -- Due now and not before: the low-water mark of the lane may be past their old places.
    insert into skiplane.ready (id, shard, lane, due_at, estimate, day, attempt, fence, expires_at)
    select u.id, p_shard, p_lane, p_now, u.estimate, u.day, u.attempt, u.fence, u.expires_at from unnest(v_rows) u;
end
$$;

comment on function skiplane._move_ready(uuid[], bigint, text, timestamptz, smallint) is 'Moves PENDING tasks to another lane.';

-- What became due: SCHEDULED and RETRYING (timer) -> PENDING.
-- Locks: timer rows, skipping what is locked, in order of due time.

create or replace function skiplane.promote_tasks(
    p_limit integer default 1000, p_after timestamptz default null, p_shard smallint default 0,
    out promoted integer, out next_due_seconds double precision, out after timestamptz
) language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off
as $$
declare
    v_now timestamptz;
    v_rows skiplane.timer[];
    v_next timestamptz;
begin
    perform pg_current_xact_id();
    v_now := skiplane.clock();
    v_rows := skiplane._take_due(coalesce(p_after, '-infinity'), v_now, p_limit, p_shard);
    promoted := coalesce(cardinality(v_rows), 0);
    if promoted > 0 then
        perform skiplane._activate(v_rows, v_now, p_shard);
    end if;
    -- What commits late with a time that has passed lies above the settled time.
    -- Nor may it pass what is due but was beyond the limit.
    after := nullif(greatest(p_after, least(skiplane._settled_at(p_shard), v_now - interval '1 second', (
        select r.due_at from unnest(v_rows) r order by r.due_at offset p_limit - 1 limit 1))), '-infinity');
    select least(
        (select w.due_at from skiplane.timer w
        where w.shard = p_shard and w.due_at > v_now and w.due_at < v_now + interval '1 minute' order by w.due_at limit 1),
        (select w.due_at from skiplane.timer_far w where w.shard = p_shard and w.due_at > v_now order by w.due_at limit 1))
    into v_next;
    next_due_seconds := case when promoted >= p_limit then 0
        -- greatest() ignores NULL: without a next one there is nothing to say.
        when v_next is not null then greatest(0, extract(epoch from v_next - skiplane.clock())) end;
end
$$;

comment on function skiplane.promote_tasks(integer, timestamptz, smallint) is
'Makes due tasks PENDING, earliest first, and wakes idle workers. Answers how many, in how many seconds the next is due (NULL: none within a minute), and the time to pass as p_after with the next call (NULL looks everywhere).';

create or replace function skiplane._take_due(p_after timestamptz, p_now timestamptz, p_limit integer, p_shard smallint)
returns skiplane.timer[] language plpgsql volatile
    set jit = off set enable_seqscan = off set enable_bitmapscan = off
    set enable_sort = off set plan_cache_mode = force_generic_plan
as $$
declare
    v_ids uuid[];
    v_first timestamptz;
    v_rows skiplane.timer[];
    v_far skiplane.timer[];
begin
    select array_agg(x.id), min(x.due_at) into v_ids, v_first from (
        select w.id, w.due_at from skiplane.timer w
        where w.shard = p_shard and w.due_at >= p_after and w.due_at <= p_now
        order by w.due_at limit p_limit for update skip locked) x;
    if v_ids is not null then
        with gone as (
            delete from skiplane.timer w
            where w.id = any (v_ids) and w.shard = p_shard and w.due_at >= v_first and w.due_at <= p_now returning w.*)
        select array_agg(g::skiplane.timer) into v_rows from gone g;
    end if;
    -- Rows that lie beyond the partitions, or lay there when maintenance was late.
    select array_agg(x.id), min(x.due_at) into v_ids, v_first from (
        select w.id, w.due_at from skiplane.timer_far w
        where w.shard = p_shard and w.due_at >= p_after and w.due_at <= p_now
        order by w.due_at limit p_limit for update skip locked) x;
    if v_ids is not null then
        -- With bounds, whichever index is taken: an empty table's statistics do not know of the dead rows.
        with gone as (
            delete from skiplane.timer_far w
            where w.id = any (v_ids) and w.shard = p_shard and w.due_at >= v_first and w.due_at <= p_now returning w.*)
        select array_agg(row(g.*)::skiplane.timer) into v_far from gone g;
    end if;
    return v_rows || v_far;
end
$$;

comment on function skiplane._take_due(timestamptz, timestamptz, integer, smallint) is 'Takes due rows out of the timers.';

create or replace function skiplane._activate(p_rows skiplane.timer[], p_now timestamptz, p_shard smallint) returns void
language plpgsql volatile
as $$
declare v_day date := skiplane._active_day(p_now);
begin
    insert into skiplane.task
    select t.* from unnest(p_rows) w cross join lateral skiplane._timer_task(w, v_day) t where w.status = 'SCHEDULED';
    insert into skiplane.ready (id, shard, lane, due_at, estimate, day, attempt, fence, expires_at)
    select w.id, p_shard, l.lane, p_now, coalesce(w.estimate, 2147483647), coalesce(w.day, v_day), w.attempt, w.fence, w.expires_at
    from unnest(p_rows) w
    join (
        select x.*, skiplane._lane_for(p_shard, x.queue, x.priority, x.tenant_id, x.task_type, x.concurrency_key) as lane
        from (select distinct r.queue, r.priority, r.tenant_id, r.task_type, r.concurrency_key from unnest(p_rows) r) x
    ) l on l.queue = w.queue and l.priority = w.priority and l.tenant_id = w.tenant_id and l.task_type = w.task_type
        and l.concurrency_key is not distinct from w.concurrency_key;
    perform skiplane._wake(x.queue) from (select distinct r.queue from unnest(p_rows) r) x;
end
$$;

comment on function skiplane._activate(skiplane.timer[], timestamptz, smallint) is 'Makes waiting rows PENDING.';

-- Depth of queues, as rollups: counting is the one thing here whose cost grows with the backlog, so it is done by
-- the scheduler alone, for at most 2 % of the time.

create or replace function skiplane.refresh_depth(p_shard smallint default 0) returns double precision
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_begun timestamptz := clock_timestamp();
    v_queues jsonb;
    v_types jsonb;
    v_tenants jsonb;
begin
    with lanes as materialized (
        select l.queue, l.priority, l.task_type, l.tenant_id, c.depth, c.oldest,
            l.held_by is not null or q.paused is true or t.paused is true or n.paused is true or b.state is not distinct from 'open' as held
        from skiplane.lane l
        left join skiplane.queue_setting q on q.queue = l.queue
        left join skiplane.task_type_setting t on t.task_type = l.task_type
        left join skiplane.tenant_setting n on n.tenant_id = l.tenant_id
        left join skiplane.breaker b on b.task_type = l.task_type
        join (
            select r.lane, count(*) as depth, min(r.due_at) as oldest from skiplane.ready r
            where r.shard = p_shard group by r.lane) c on c.lane = l.lane
        where l.shard = p_shard
    )
    select (
        select jsonb_agg(jsonb_build_object('queue', x.queue, 'priority', x.priority, 'depth', x.depth,
            'oldest', skiplane._utc_text(x.oldest), 'held', x.held, 'oldest_free', skiplane._utc_text(x.oldest_free))
            order by x.queue, x.priority desc)
        from (
            select l.queue, l.priority, sum(l.depth)::bigint as depth, min(l.oldest) as oldest,
                coalesce(sum(l.depth) filter (where l.held), 0)::bigint as held, min(l.oldest) filter (where not l.held) as oldest_free
            from lanes l group by 1, 2) x), (
        -- The thousand with most: a name for everybody would make the row as long as the list of tenants.
        select jsonb_object_agg(x.task_type, x.depth)
        from (select l.task_type, sum(l.depth)::bigint as depth from lanes l group by 1 order by 2 desc limit 1000) x), (
        select jsonb_object_agg(x.tenant_id, x.depth)
        from (select l.tenant_id, sum(l.depth)::bigint as depth from lanes l group by 1 order by 2 desc limit 1000) x)
    into v_queues, v_types, v_tenants;
    insert into skiplane.depth (shard, at, queues, task_types, tenants)
    values (p_shard, skiplane.clock(), coalesce(v_queues, '[]'), coalesce(v_types, '{}'), coalesce(v_tenants, '{}'));
    delete from skiplane.depth d where d.shard = p_shard and d.at < skiplane.clock() - interval '1 hour';
    return greatest(1, 50 * extract(epoch from clock_timestamp() - v_begun));
end
$$;

comment on function skiplane.refresh_depth(smallint) is 'Counts the ready tasks per queue and priority, and how many of them are held back (paused, breaker open, left out by claims); answers in how many seconds to count again.';

-- Depth of queues, as rollups: counting is the one thing here whose cost grows with the backlog, so it is done by
-- the scheduler alone, for at most 2 % of the time.

create or replace function skiplane.refresh_depth(p_shard smallint default 0) returns double precision
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_begun timestamptz := clock_timestamp();
    v_queues jsonb;
begin
    select jsonb_agg(jsonb_build_object('queue', x.queue, 'priority', x.priority, 'depth', x.depth,
        'oldest', skiplane._utc_text(x.oldest)) order by x.queue, x.priority desc)
    into v_queues
    from (
        select l.queue, l.priority, sum(c.depth)::bigint as depth, min(c.oldest) as oldest
        from skiplane.lane l
        join (
            select r.lane, count(*) as depth, min(r.due_at) as oldest from skiplane.ready r
            where r.shard = p_shard group by r.lane) c on c.lane = l.lane
        where l.shard = p_shard group by 1, 2
    ) x;
    insert into skiplane.depth (shard, at, queues) values (p_shard, skiplane.clock(), coalesce(v_queues, '[]'));
    delete from skiplane.depth d where d.shard = p_shard and d.at < skiplane.clock() - interval '1 hour';
    return greatest(1, 50 * extract(epoch from clock_timestamp() - v_begun));
end
$$;

comment on function skiplane.refresh_depth(smallint) is 'Counts the ready tasks per queue and priority; answers in how many seconds to count again.';

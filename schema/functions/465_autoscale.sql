-- How many workers a queue needs. For one queue:
--   slots = greatest(running, busy) + waiting x seconds_per_task / catch_up_seconds
--   running: tasks that are leased now; busy: ends per second over the last five minutes x their mean duration.
--   waiting: ready tasks, as last counted, without those that no worker could start (paused, breaker open, left out by claims).
--   seconds_per_task: a sample of the waiting tasks by their estimates, those without one by the mean of the last five
--     minutes; 1 when nothing is known.
--   catch_up_seconds: what is left of the target after the wait of the oldest task, at least a tenth of the target.
--   At most the queue's concurrency limit.
--   desired_workers = ceil(slots / slots_per_worker), from p_min_workers to p_max_workers.

create or replace function skiplane._queue_seconds(p_queue text, p_known double precision) returns double precision
language plpgsql stable
    set jit = off set enable_seqscan = off set enable_bitmapscan = off set plan_cache_mode = force_generic_plan
as $$
declare v_seconds double precision;
begin
    -- The first ten of twenty lanes: a bounded look, whatever the backlog, also when a thousand queues are asked for.
    select avg(case when r.estimate = 2147483647 then p_known else r.estimate / 1000.0 end) into v_seconds
    from (
        select x.lane, x.shard from unnest(skiplane.shard_labels()) as s (shard)
        cross join lateral (
            select l.lane, l.shard from skiplane.lane l
            where l.shard = s.shard and l.queue = p_queue and l.held_by is null order by l.priority desc, l.task_type desc, l.tenant_id desc, l.lane desc
            limit 20) x
    ) y
    cross join lateral (
        select z.estimate from skiplane.ready z
        where z.lane = y.lane and z.shard = y.shard order by z.due_at, z.estimate, z.id limit 10) r;
    return greatest(0.001, coalesce(v_seconds, p_known));
end
$$;

comment on function skiplane._queue_seconds(text, double precision) is
'Mean seconds of the tasks that wait in a queue: their estimates, p_known where there is none.';

create or replace function skiplane._queue_running() returns table (queue text, running bigint)
language sql volatile
    set jit = off set enable_seqscan = off
as $$
    select t.queue, count(*)
    from (select l.shard, l.ids, l.days from skiplane.lease l limit 100000) l
    cross join lateral unnest(l.ids, l.days) as u (id, day)
    join skiplane.task t on t.id = u.id and t.shard = l.shard and t.day = u.day
    group by t.queue
$$;

comment on function skiplane._queue_running() is 'Leased tasks per queue. Costs what runs, not what waits.';

create or replace function skiplane._queue_loads(p_queues text[], p_now timestamptz) returns table (
    queue text, depth bigint, held bigint, oldest timestamptz, running bigint, ends_per_second double precision,
    busy double precision, seconds_per_task double precision, workers bigint, slots_per_worker double precision, concurrency integer
) language sql volatile
as $$
    with depths as (
        select e ->> 'queue' as queue, sum((e ->> 'depth')::bigint) as depth, coalesce(sum((e ->> 'held')::bigint), 0) as held,
            min((e ->> 'oldest_free')::timestamptz) as oldest
        from skiplane._last_depths() d
        cross join lateral jsonb_array_elements(d.queues) s cross join lateral jsonb_array_elements(s) e
        group by 1
    ), ends as (
        select r.queue, sum(r.succeeded + r.failed + r.cancelled + r.dead) / 300.0 as per_second,
            sum(r.run_ms) / 1000.0 / nullif(sum(r.started), 0) as seconds
        from skiplane.rollup r where r.span = 60 and r.at >= p_now - interval '5 minutes' and r.at <= p_now group by 1
    ), running as (
        select x.queue, x.running from skiplane._queue_running() x
    ), fleet as (
        select q.queue, count(*) as workers, avg(w.concurrency) as slots
        from skiplane.workers w cross join lateral unnest(w.queues) as q (queue) where w.status = 'RUNNING' group by 1
    ), names as (
        select u.queue from unnest(p_queues) as u (queue)
        union
        select x.queue from (
            select d.queue from depths d union select r.queue from running r union select f.queue from fleet f
            order by 1 limit 1000) x where p_queues is null
    )
    select n.queue, coalesce(d.depth, 0)::bigint, coalesce(d.held, 0)::bigint, d.oldest, coalesce(r.running, 0),
        coalesce(e.per_second, 0), coalesce(e.per_second * e.seconds, 0), skiplane._queue_seconds(n.queue, coalesce(e.seconds, 1)),
        coalesce(f.workers, 0), f.slots::double precision, s.concurrency
    from names n
    left join depths d on d.queue = n.queue
    left join ends e on e.queue = n.queue
    left join running r on r.queue = n.queue
    left join fleet f on f.queue = n.queue
    left join skiplane.queue_setting s on s.queue = n.queue
$$;

comment on function skiplane._queue_loads(text[], timestamptz) is
'What autoscale reckons with, for the named queues, or for up to 1000 with tasks or workers.';

create or replace function skiplane.autoscale(
    p_queues text[] default null, p_target_seconds double precision default 60, p_slots_per_worker integer default null,
    p_min_workers integer default 0, p_max_workers integer default 100
) returns jsonb language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_now timestamptz := skiplane.clock();
    v_found jsonb;
    v_slots double precision;
    v_workers double precision;
begin
    perform skiplane._check_name('queue', q) from unnest(p_queues) q;
    perform skiplane._check_number('queue', cardinality(p_queues), 1, 100);
    perform skiplane._check_number('target_seconds', p_target_seconds, 1, 86400);
    perform skiplane._check_number('slots_per_worker', p_slots_per_worker, 1, 10000);
    perform skiplane._check_number('min_workers', p_min_workers, 0, 10000);
    perform skiplane._check_number('max_workers', p_max_workers, p_min_workers, 10000);
    select coalesce(jsonb_agg(jsonb_build_object('queue', x.queue, 'desired_workers', least(p_max_workers, greatest(p_min_workers,
                ceil(least(x.slots / x.each, 1e9)))), 'slots', round(x.slots::numeric, 3), 'slots_per_worker', round(x.each::numeric, 3),
            'depth', x.depth, 'held', x.held, 'running', x.running, 'oldest_seconds', round(x.age::numeric, 3),
            'ends_per_second', round(x.ends_per_second::numeric, 3), 'seconds_per_task', round(x.seconds_per_task::numeric, 3),
            'workers', x.workers) order by x.queue), '[]'), coalesce(sum(x.slots), 0), coalesce(sum(x.slots / x.each), 0)
    into v_found, v_slots, v_workers
    from (
        select l.*, y.age, coalesce(p_slots_per_worker, l.slots_per_worker, 10)::double precision as each,
            least(l.concurrency, greatest(l.running, l.busy) + greatest(0, l.depth - l.held) * l.seconds_per_task
                / greatest(p_target_seconds - y.age, p_target_seconds / 10)) as slots
        from skiplane._queue_loads(p_queues, v_now) l
        cross join lateral (select coalesce(greatest(0, extract(epoch from v_now - l.oldest)), 0)::double precision as age) y
    ) x;
    return jsonb_build_object(
        'desired_workers', least(p_max_workers, greatest(p_min_workers, ceil(least(v_workers, 1e9)))),
        'slots', round(v_slots::numeric, 3), 'target_seconds', p_target_seconds, 'queues', v_found,
        'counted_at', (select skiplane._utc_text(min(x.at)) from (
            select distinct on (d.shard) d.at from skiplane.depth d order by d.shard, d.n desc) x));
end
$$;

comment on function skiplane.autoscale(text[], double precision, integer, integer, integer) is
'How many workers the queues need so that what waits has started within p_target_seconds: for each and for all together. slots = greatest(running, ends per second x their mean duration over the last 5 minutes) + waiting tasks x seconds per task / what is left of the target (at least a tenth of it), at most the queue''s concurrency limit; desired_workers = slots / slots per worker (p_slots_per_worker, or the mean of its workers, or 10), rounded up, from p_min_workers to p_max_workers. Tasks that no worker could start (paused, breaker open, left out by claims for want of room) do not count. p_queues NULL: up to 1000 queues with tasks or workers.';

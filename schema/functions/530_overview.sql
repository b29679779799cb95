-- What the dashboard shows live. Each function reads rollups, or a bounded number of rows.

create or replace function skiplane.recent_totals(p_seconds integer default 3600) returns setof jsonb
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off
as $$
declare v_now timestamptz := skiplane.clock();
begin
    perform skiplane._check_number('seconds', p_seconds, 10, 10800);
    return query
    select jsonb_build_object('at', extract(epoch from t.at)::bigint, 'succeeded', t.succeeded, 'failed', t.failed,
        'cancelled', t.cancelled, 'dead', t.dead, 'retried', t.retried, 'waits', t.waits, 'runs', t.runs)
    from skiplane.rollup_total t
    where t.at >= v_now - make_interval(secs => p_seconds) order by t.at;
end
$$;

comment on function skiplane.recent_totals(integer) is
'What ended in each ten seconds of the last p_seconds (3 hours at most), with histograms of waiting and running times.';

create or replace function skiplane.recent_outcomes(p_within text default null, p_seconds integer default 3600) returns setof jsonb
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off
as $$
declare v_since timestamptz := skiplane.clock() - make_interval(secs => p_seconds);
begin
    perform skiplane._check_number('seconds', p_seconds, 60, 86400);
    return query
    select jsonb_build_object('at', extract(epoch from r.at)::bigint, 'succeeded', sum(r.succeeded), 'failed', sum(r.failed),
        'cancelled', sum(r.cancelled), 'dead', sum(r.dead), 'retried', sum(r.retried), 'started', sum(r.started),
        'wait_ms', sum(r.wait_ms), 'run_ms', sum(r.run_ms))
    from skiplane.rollup r
    where r.span = 60 and r.at >= v_since and (p_within is null or r.tenant_id = p_within)
    group by r.at order by r.at;
end
$$;

comment on function skiplane.recent_outcomes(text, integer) is 'What ended in each minute of the last p_seconds (a day at most), of one tenant or all.';

create or replace function skiplane.depth_history(p_queue text default null, p_points integer default 60) returns setof jsonb
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off
as $$
declare
    v_now timestamptz := skiplane.clock();
begin
    perform skiplane._check_number('points', p_points, 2, 360);
    -- The counts of an hour are many and wide: the newest of each step only is opened.
    return query
    select jsonb_build_object('at', extract(epoch from min(d.at))::bigint, 'depth', coalesce(sum(q.depth), 0),
        'oldest_seconds', max(extract(epoch from d.at - q.oldest)))
    from (
        select max(x.n) as n, x.shard, floor(extract(epoch from x.at) * p_points / 3600) as step
        from skiplane.depth x where x.at > v_now - interval '1 hour' group by x.shard, 3
    ) s
    join skiplane.depth d on d.n = s.n and d.shard = s.shard
    left join lateral jsonb_to_recordset(d.queues) as q (queue text, depth bigint, oldest timestamptz)
        on p_queue is null or q.queue = p_queue
    group by s.step order by s.step;
end
$$;

comment on function skiplane.depth_history(text, integer) is 'Waiting tasks over the last hour, of one queue or all, in p_points steps.';

create or replace function skiplane.worker_tasks(p_worker_id uuid, p_limit integer default 100) returns setof text
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off
as $$
begin
    perform skiplane._check_number('limit', p_limit, 1, 1000);
    return query
    select ((d.document - '{cursor,payload,result}'::text[]) || jsonb_build_object('progress', (
            select jsonb_build_object('share', c.share, 'message', c.message) from skiplane.checkpoint c
            where c.id = d.task_id and c.shard = skiplane.task_shard(d.task_id) and c.share is not null)))::text
    from skiplane._documents(array(
        select u.id from skiplane.lease l, unnest(l.ids) as u (id)
        where l.worker_id = p_worker_id order by u.id limit p_limit)) d
    where d.status = 'RUNNING' order by d.task_id;
end
$$;

comment on function skiplane.worker_tasks(uuid, integer) is 'Documents of tasks that a worker holds, the oldest first.';

create or replace function skiplane.fleet(p_limit integer default 500) returns setof jsonb
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare v_now timestamptz := skiplane.clock();
begin
    return query
    select jsonb_build_object('worker_id', w.worker_id, 'name', w.name, 'status', w.status, 'queues', w.queues,
        'task_types', w.task_types, 'concurrency', w.concurrency, 'holding', w.holding, 'host', w.host, 'pid', w.pid,
        'started_at', skiplane._utc_text(w.started_at), 'heartbeat_at', skiplane._utc_text(w.heartbeat_at),
        'silent_seconds', extract(epoch from v_now - w.heartbeat_at))
    from skiplane.workers w order by w.name, w.started_at limit p_limit;
end
$$;

comment on function skiplane.fleet(integer) is 'The worker processes as documents, by name.';

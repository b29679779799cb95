-- What the REST API measures of the whole database, for Prometheus.

create or replace function skiplane.measurements() returns jsonb
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_now timestamptz := skiplane.clock();
begin
    return jsonb_build_object(
        'queues', coalesce((
            select jsonb_agg(jsonb_build_object('queue', q.queue, 'priority', skiplane._priority_name(q.priority), 'depth', q.depth,
                'oldest_seconds', extract(epoch from v_now - q.oldest_waiting)) order by q.depth desc)
            from (select x.* from skiplane.queues x order by x.depth desc limit 300) q), '[]'),
        'workers', coalesce((
            select jsonb_object_agg(w.status, jsonb_build_object('count', w.n, 'concurrency', w.concurrency, 'holding', w.holding))
            from (
                select x.status, count(*) as n, sum(x.concurrency) as concurrency, sum(x.holding) as holding
                from skiplane.workers x group by x.status) w), '{}'),
        'dead_letters', (select count(*) from (select from skiplane.dead limit 100000) d),
        'counters', (
            select jsonb_object_agg(p.parent, coalesce(s.n, 0))
            from (values ('task'), ('outcome'), ('attempt')) p (parent)
            cross join lateral (
                select sum(a.n_tup_ins) as n from pg_partition_tree(to_regclass('skiplane.' || p.parent)) t
                join pg_stat_all_tables a on a.relid = t.relid) s),
        'dead_rows', (
            select coalesce(jsonb_object_agg(a.relname, a.n_dead_tup), '{}') from pg_stat_all_tables a
            where a.schemaname = 'skiplane' and a.relname in ('ready', 'lease', 'lane', 'lane_mark', 'worker')),
        'oldest_snapshot_seconds', coalesce((
            select extract(epoch from v_now - min(a.xact_start)) from pg_stat_activity a
            where a.backend_xmin is not null and a.datname = current_database() and a.pid <> pg_backend_pid()), 0),
        'timer_days_ahead', greatest(0, skiplane._timer_horizon() - skiplane._utc_day(v_now)),
        'notification_queue_usage', pg_notification_queue_usage());
end
$$;

comment on function skiplane.measurements() is
'Depth and age per queue and priority, the fleet, dead letters (up to 100000), rows ever inserted, dead rows of hot tables, age of the oldest snapshot: numbers whose cost does not grow with the backlog.';

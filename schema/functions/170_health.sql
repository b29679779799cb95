-- Housekeeping of small tables, and what doctor looks at.

create or replace function skiplane.sweep_history(p_limit integer default 1000) returns integer
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_now timestamptz := skiplane.clock();
    v_keep interval := make_interval(days => (select (value #>> '{}')::integer from skiplane.setting where name = 'retention_days'));
    v_count integer := 0;
    v_part integer;
begin
    delete from skiplane.idempotency k where k.ctid = any (array(
        select x.ctid from skiplane.idempotency x where x.created_at < v_now - v_keep limit p_limit for update skip locked));
    get diagnostics v_part = row_count;
    v_count := v_count + v_part;
    delete from skiplane.checkpoint k where k.ctid = any (array(
        select x.ctid from skiplane.checkpoint x where x.updated_at < v_now - v_keep limit p_limit for update skip locked));
    get diagnostics v_part = row_count;
    v_count := v_count + v_part;
    delete from skiplane.action k where k.ctid = any (array(
        select x.ctid from skiplane.action x where x.at < v_now - v_keep limit p_limit for update skip locked));
    get diagnostics v_part = row_count;
    v_count := v_count + v_part;
    delete from skiplane.watermark k where k.ctid = any (array(
        select x.ctid from skiplane.watermark x where x.at < v_now - interval '10 minutes' order by x.shard, x.n limit p_limit));
    get diagnostics v_part = row_count;
    v_count := v_count + v_part;
    -- A worker that has not been heard of for ten leases and holds nothing is gone.
    delete from skiplane.worker w where w.heartbeat_at < v_now - make_interval(secs => greatest(60, 10 * w.lease_seconds))
        and not exists (select from skiplane.lease l where l.worker_id = w.worker_id);
    return v_count;
end
$$;

comment on function skiplane.sweep_history(integer) is
'Drops old idempotency keys, checkpoints, actions, samples and workers in a bounded batch: call until it answers 0.';

create or replace function skiplane.health() returns table (check_name text, ok boolean, detail text)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_now timestamptz := skiplane.clock();
    v_ahead integer := skiplane._timer_horizon() - skiplane._utc_day(v_now);
    v_count bigint;
    v_age interval;
begin
    return query select 'partitions_ahead', skiplane._has_partition('task', skiplane._utc_day(v_now) + 1) and v_ahead >= 1,
        format('%s days of timer partitions are ready', v_ahead);
    select count(*) into v_count from skiplane.lease l where l.until < v_now - interval '10 seconds';
    return query select 'orphan_leases', v_count = 0, format('%s leases ran out over 10 s ago: is a scheduler running?', v_count);
    select max(v_now - w.due_at) into v_age from (
        select x.due_at from skiplane.timer x where x.due_at < v_now order by x.due_at limit 1) w;
    return query select 'overdue_timers', coalesce(v_age < interval '5 seconds', true),
        format('oldest overdue timer: %s', coalesce(v_age::text, 'none'));
    select max(v_now - w.next_fire_time) into v_age from (
        select x.next_fire_time from skiplane.schedule x
        where x.next_fire_time < v_now order by x.next_fire_time limit 1) w;
    return query select 'overdue_schedules', coalesce(v_age < interval '5 seconds', true),
        format('oldest overdue schedule: %s', coalesce(v_age::text, 'none'));
    select count(*) into v_count from skiplane.timer_far f where f.due_at < v_now + interval '1 day';
    return query select 'far_timers', v_count = 0, format('%s tasks due within a day lie outside the partitions', v_count);
    select v_now - max(w.at) into v_age from skiplane.watermark w where w.at > v_now - interval '1 hour';
    return query select 'scheduler', coalesce(v_age < interval '10 seconds', false),
        format('last scheduler tick: %s', coalesce(v_age::text || ' ago', 'none within an hour'));
    select v_now - min(a.xact_start) into v_age from pg_stat_activity a
    where a.backend_xmin is not null and a.pid <> pg_backend_pid() and a.datname = current_database();
    return query select 'held_snapshot', coalesce(v_age < interval '1 minute', true),
        format('oldest transaction: %s', coalesce(v_age::text, 'none'));
end
$$;

comment on function skiplane.health() is 'What can be told from inside the database: one row per check.';

-- Failure analytics: which types fail, how often, with what errors, since when. From rollups alone: minutes for up to a
-- day back, hours beyond.

create or replace function skiplane.failure_analytics(
    p_within text default null, p_seconds double precision default 86400, p_task_type text default null,
    p_queue text default null, p_tenant_id text default null, p_fingerprint text default null, p_limit integer default 50
) returns jsonb language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off
as $$
declare
    v_now timestamptz := skiplane.clock();
    v_tenant text := coalesce(p_within, p_tenant_id);
    v_span integer := case when p_seconds <= 86400 then 60 else 3600 end;
    v_since timestamptz;
    v_step double precision;
    v_types jsonb;
    v_errors jsonb;
    v_over_time jsonb;
begin
    perform skiplane._check_within(p_within, coalesce(p_tenant_id, p_within));
    perform skiplane._check_number('seconds', p_seconds, 60, 31536000);
    perform skiplane._check_number('limit', p_limit, 1, 500);
    v_since := to_timestamp(floor(extract(epoch from v_now - make_interval(secs => p_seconds)) / v_span) * v_span);
    v_step := greatest(v_span, ceil(p_seconds / 60 / v_span) * v_span);
    select coalesce(jsonb_agg(to_jsonb(x) order by x.failed + x.dead + x.retried desc, x.task_type), '[]') into v_types
    from (
        select r.task_type, sum(r.succeeded) as succeeded, sum(r.failed) as failed, sum(r.dead) as dead,
            sum(r.cancelled) as cancelled, sum(r.retried) as retried,
            case when sum(r.started) > 0 then round((sum(r.run_ms) / sum(r.started))::numeric, 2) end as mean_run_ms
        from skiplane.rollup r
        where r.span = v_span and r.at >= v_since and (v_tenant is null or r.tenant_id = v_tenant)
            and (p_task_type is null or r.task_type = p_task_type) and (p_queue is null or r.queue = p_queue)
        group by r.task_type order by sum(r.failed + r.dead + r.retried) desc, r.task_type limit p_limit
    ) x;
    select coalesce(jsonb_agg(to_jsonb(x) order by x.errors desc, x.fingerprint), '[]') into v_errors
    from (
        select e.fingerprint, e.errors, e.task_types, e.task_id, k.error_type, k.message,
            skiplane._utc_text(k.first_seen) as first_seen, skiplane._utc_text(e.last_seen) as last_seen
        from (
            select r.fingerprint, sum(r.errors) as errors, max(r.last_seen) as last_seen, max(r.task_id::text) as task_id,
                (array_agg(distinct r.task_type))[1:20] as task_types
            from skiplane.rollup_error r
            where r.span = v_span and r.at >= v_since and (v_tenant is null or r.tenant_id = v_tenant)
                and (p_task_type is null or r.task_type = p_task_type) and (p_queue is null or r.queue = p_queue)
                and (p_fingerprint is null or r.fingerprint = p_fingerprint)
            group by r.fingerprint order by sum(r.errors) desc, r.fingerprint limit p_limit
        ) e
        cross join lateral (
            select min(x.error_type) as error_type, min(x.message) as message, min(x.first_seen) as first_seen
            from skiplane.error_kind x where x.fingerprint = e.fingerprint) k
    ) x;
    select coalesce(jsonb_agg(jsonb_build_object('at', skiplane._utc_text(to_timestamp(x.at)), 'errors', x.errors) order by x.at), '[]')
    into v_over_time
    from (
        select (floor(extract(epoch from r.at) / v_step) * v_step)::bigint as at, sum(r.errors) as errors
        from skiplane.rollup_error r
        where r.span = v_span and r.at >= v_since and (v_tenant is null or r.tenant_id = v_tenant)
            and (p_task_type is null or r.task_type = p_task_type) and (p_queue is null or r.queue = p_queue)
            and (p_fingerprint is null or r.fingerprint = p_fingerprint)
        group by 1
    ) x;
    return jsonb_build_object('since', skiplane._utc_text(v_since), 'until', skiplane._utc_text(v_now), 'step_seconds', v_step,
        'types', v_types, 'errors', v_errors, 'over_time', v_over_time);
end
$$;

comment on function skiplane.failure_analytics(text, double precision, text, text, text, text, integer) is
'Failures of the last p_seconds: {since, until, step_seconds, types: [{task_type, succeeded, failed, dead, cancelled, retried, mean_run_ms}], errors: [{fingerprint, error_type, message, errors, task_types, first_seen, last_seen, task_id}], over_time: [{at, errors}]}. Attempts that failed count as errors, also when a retry succeeded. Counted some seconds late; to the hour when it is over a day.';

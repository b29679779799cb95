-- Reading schedules.

create or replace function skiplane._schedule_options(s skiplane.schedule) returns jsonb
language sql stable
as $$
    select jsonb_build_object(
        'cron_expression', s.expression, 'timezone', s.zone, 'overlap_policy', s.overlap_policy,
        'missed_policy', s.missed_policy, 'missed_limit', s.missed_limit, 'jitter_seconds', s.jitter_s,
        'start_at', skiplane._utc_text(s.start_at), 'end_at', skiplane._utc_text(s.end_at), 'enabled', s.status <> 'PAUSED',
        'task_type', s.task_type, 'queue', s.queue, 'priority', skiplane._priority_name(s.priority),
        'max_retries', coalesce(s.max_retries, 3), 'retry_backoff', coalesce(s.retry_backoff, 'exponential'),
        'retry_delay_seconds', coalesce(s.retry_delay_s, 5), 'retry_max_delay_seconds', coalesce(s.retry_max_delay_s, 3600),
        'retry_jitter', coalesce(s.retry_jitter, 'equal'), 'timeout_seconds', s.timeout_s,
        'estimated_duration_seconds', s.estimate / 1000.0, 'concurrency_key', s.concurrency_key,
        'callback_url', s.callback_url, 'metadata', s.metadata)
$$;

comment on function skiplane._schedule_options(skiplane.schedule) is 'What a caller may choose about a schedule, as create_cron_task takes it.';

create or replace function skiplane._schedule_document(s skiplane.schedule) returns jsonb
language sql stable
as $$
    select jsonb_build_object('cron_id', s.id, 'name', s.name, 'payload', s.payload, 'status', s.status, 'reason', s.reason,
        'next_fire_time', skiplane._utc_text(s.next_fire_time), 'last_fire_time', skiplane._utc_text(s.last_fire_time),
        'last_fired_at', skiplane._utc_text(s.last_fired_at), 'last_task_id', s.last_task_id, 'queued', s.queued,
        'tenant_id', s.tenant_id, 'owner', s.owner, 'version', s.version, 'created_at', skiplane._utc_text(s.created_at), 'cursor', s.id)
        || skiplane._schedule_options(s)
$$;

comment on function skiplane._schedule_document(skiplane.schedule) is 'A schedule as every door shows it.';

create or replace function skiplane.find_cron_task(p_name text, p_tenant_id text default 'default') returns uuid
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off
as $$
declare v_id uuid;
begin
    select s.id into v_id from skiplane.schedule s where s.tenant_id = p_tenant_id and s.name = p_name limit 1;
    if v_id is null then
        perform skiplane._refuse('SK002', 'name', p_name, 'no schedule has this name', 'list_cron_tasks shows what there is');
    end if;
    return v_id;
end
$$;

comment on function skiplane.find_cron_task(text, text) is 'The id of the schedule of a name; SK002 when there is none.';

create or replace function skiplane.get_cron_task(p_cron_id uuid) returns jsonb
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off
as $$
declare s skiplane.schedule;
begin
    select * into s from skiplane.schedule x where x.id = p_cron_id and x.shard = skiplane.task_shard(p_cron_id);
    if s.id is null then
        perform skiplane._refuse('SK002', 'cron_id', p_cron_id::text, 'no schedule has this id', 'look the id up with list_cron_tasks');
    end if;
    return skiplane._schedule_document(s) || jsonb_build_object('actions', (
        select coalesce(jsonb_agg(jsonb_build_object('at', skiplane._utc_text(a.at), 'actor', a.actor, 'verb', a.verb,
            'detail', a.detail) order by a.n), '[]')
        from skiplane.action a where a.task_id = s.id and a.shard = s.shard));
end
$$;

comment on function skiplane.get_cron_task(uuid) is 'One schedule with what was done to it; SK002 when unknown.';

create or replace function skiplane.list_cron_tasks(
    p_status text default null, p_task_type text default null, p_tenant_id text default null, p_limit integer default 50,
    p_cursor text default null
) returns setof jsonb language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off
as $$
declare v_before uuid := skiplane._read_cursor(p_cursor);
begin
    perform skiplane._check_number('limit', p_limit, 1, 1000);
    if p_status is not null then
        perform skiplane._check_choice('status', p_status, '{ACTIVE,PAUSED,INVALID,ENDED}');
    end if;
    if p_status <> 'ACTIVE' then
        -- These few have an index of their own.
        return query select skiplane._schedule_document(s) from skiplane.schedule s
        where s.status = p_status and s.status <> 'ACTIVE' and s.id < v_before
            and (p_task_type is null or s.task_type = p_task_type) and (p_tenant_id is null or s.tenant_id = p_tenant_id)
        order by s.id desc limit p_limit;
        return;
    end if;
    return query select skiplane._schedule_document(s) from skiplane.schedule s
    where s.id < v_before and (p_status is null or s.status = p_status)
        and (p_task_type is null or s.task_type = p_task_type) and (p_tenant_id is null or s.tenant_id = p_tenant_id)
    order by s.id desc limit p_limit;
end
$$;

comment on function skiplane.list_cron_tasks(text, text, text, integer, text) is
'Schedules, newest first. The next page: pass the cursor of the last one. p_limit is 1 to 1000.';

create or replace function skiplane.list_fires(
    p_cron_id uuid, p_before timestamptz default null, p_limit integer default 50
) returns setof jsonb language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off
as $$
begin
    perform skiplane._check_number('limit', p_limit, 1, 1000);
    return query
    select jsonb_build_object('cron_id', f.schedule_id, 'fire_time', skiplane._utc_text(f.fire_time),
        'fired_at', skiplane._utc_text(f.fired_at), 'outcome', f.outcome, 'task_id', f.task_id, 'reason', f.reason)
    from skiplane.fire f
    where f.schedule_id = p_cron_id and f.shard = skiplane.task_shard(p_cron_id)
        and f.fire_time < coalesce(p_before, 'infinity')
    order by f.fire_time desc, f.day desc limit p_limit;
end
$$;

comment on function skiplane.list_fires(uuid, timestamptz, integer) is
'History of a schedule, the latest fire time first; the next page: pass the last fire_time as p_before. Kept as long as the history of tasks.';

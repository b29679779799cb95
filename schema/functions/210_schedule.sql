-- What callers do to schedules. Each locks the schedule's row first; the scheduler skips a locked row and comes back.

create or replace function skiplane._store_schedule(p_schedule skiplane.schedule, p_now timestamptz, p_actor text)
returns skiplane.schedule language plpgsql volatile
    set jit = off set enable_seqscan = off
as $$
declare s skiplane.schedule := p_schedule;
begin
    if s.end_at <= p_now then
        perform skiplane._refuse('SK001', 'end_at', s.end_at::text, 'end_at has passed', 'give a later end_at, or none');
    end if;
    s.shard := skiplane._pick_shard(s.tenant_id, s.name);
    s.id := skiplane._new_id(s.shard, p_now);
    s.since := p_now;
    s.created_at := p_now;
    s.version := 1;
    s.queued := 0;
    s.next_fire_time := skiplane._check_next(s.next_fire_time, s, p_now);
    insert into skiplane.schedule select s.* on conflict (tenant_id, name, shard) do nothing;
    if not found then
        perform skiplane._refuse('SK003', 'name', s.name, 'there is a schedule of this name', 'edit that one, or take another name');
    end if;
    perform skiplane._log_action(s.id, p_actor, 'create', case when s.owner is not null then jsonb_build_object('owner', s.owner) end);
    return s;
end
$$;

comment on function skiplane._store_schedule(skiplane.schedule, timestamptz, text) is
'Stores a schedule that _read_schedule has checked; its next_fire_time is what the caller has computed.';

create or replace function skiplane.create_cron_task(
    p_name text, p_cron_expression text, p_task_type text, p_payload jsonb default '{}', p_timezone text default 'UTC',
    p_overlap_policy text default 'skip', p_missed_policy text default 'once', p_missed_limit integer default 10,
    p_enabled boolean default true, p_jitter_seconds double precision default 0,
    p_start_at timestamptz default null, p_end_at timestamptz default null,
    p_queue text default 'default', p_priority text default 'medium', p_max_retries integer default 3,
    p_retry_backoff text default 'exponential', p_retry_delay_seconds double precision default 5,
    p_retry_max_delay_seconds double precision default 3600, p_retry_jitter text default 'equal',
    p_timeout_seconds double precision default null, p_estimated_duration_seconds double precision default null,
    p_concurrency_key text default null, p_callback_url text default null, p_metadata jsonb default null,
    p_next_fire_time timestamptz default null, p_actor text default null
) returns jsonb language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off
as $$
declare
    v_now timestamptz := skiplane.clock();
    s skiplane.schedule;
begin
    perform skiplane._check_name('name', p_name);
    perform skiplane._check_time('start_at', p_start_at);
    perform skiplane._check_time('end_at', p_end_at);
    perform skiplane._check_number('jitter_seconds', p_jitter_seconds, 0, 86400);
    s := skiplane._read_schedule(skiplane._without_nulls(jsonb_build_object(
        'cron_expression', p_cron_expression, 'timezone', p_timezone, 'overlap_policy', p_overlap_policy,
        'missed_policy', p_missed_policy, 'missed_limit', p_missed_limit, 'jitter_seconds', p_jitter_seconds,
        'start_at', skiplane._utc_text(p_start_at), 'end_at', skiplane._utc_text(p_end_at), 'enabled', p_enabled,
        'task_type', p_task_type, 'queue', p_queue, 'priority', p_priority, 'max_retries', p_max_retries,
        'retry_backoff', p_retry_backoff, 'retry_delay_seconds', p_retry_delay_seconds,
        'retry_max_delay_seconds', p_retry_max_delay_seconds, 'retry_jitter', p_retry_jitter,
        'timeout_seconds', p_timeout_seconds, 'estimated_duration_seconds', p_estimated_duration_seconds,
        'concurrency_key', p_concurrency_key, 'callback_url', p_callback_url, 'metadata', p_metadata)), v_now);
    perform skiplane._check_json('payload', p_payload::text, 1048576);
    s.payload := coalesce(p_payload, 'null')::json;
    s.name := p_name;
    s.next_fire_time := p_next_fire_time;
    return skiplane._schedule_document(skiplane._store_schedule(s, v_now, p_actor));
end
$$;

comment on function skiplane.create_cron_task(
    text, text, text, jsonb, text, text, text, integer, boolean, double precision, timestamptz, timestamptz, text, text, integer,
    text, double precision, double precision, text, double precision, double precision, text, text, jsonb, timestamptz, text
) is 'Creates a schedule: SELECT skiplane.create_cron_task(''nightly'', ''0 3 * * *'', ''cleanup'', p_timezone => ''Europe/Berlin''). Within a second the scheduler reads the expression and sets next_fire_time, or marks the schedule INVALID with the reason. p_cron_expression: 5 fields, 6 with seconds last, or @daily and the like. p_overlap_policy (the task before has not ended): skip, queue or cancel_running. p_missed_policy (no scheduler ran for over a minute): skip, once (the last one) or all (the last p_missed_limit, one after the other). p_jitter_seconds delays each task by a random time. Options of the task as in submit_task. p_next_fire_time is for callers that have computed it. SK001 for bad input, SK003 when the name is taken.';

create or replace function skiplane.edit_cron_task(
    p_cron_id uuid, p_version integer, p_changes jsonb, p_next_fire_time timestamptz default null, p_actor text default null
) returns jsonb language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off
as $$
declare
    v_now timestamptz;
    s skiplane.schedule := skiplane._lock_schedule(p_cron_id);
    n skiplane.schedule;
    v_retimed boolean := p_changes ?| '{cron_expression,timezone,start_at,end_at,enabled}';
begin
    v_now := skiplane.clock();
    if p_version is distinct from s.version then
        perform skiplane._refuse('SK005', 'version', p_version::text, format('the schedule has version %s by now', s.version),
            'read the schedule again and repeat the edit');
    end if;
    if p_changes is null or p_changes = '{}' then
        perform skiplane._refuse('SK001', 'changes', p_changes::text, 'nothing to change', 'give at least one field');
    end if;
    n := skiplane._read_schedule(skiplane._without_nulls(
        skiplane._schedule_options(s) || (p_changes - 'payload')), v_now);
    if n.tenant_id <> s.tenant_id then
        perform skiplane._refuse('SK001', 'metadata.tenant_id', n.tenant_id, 'a schedule stays with its tenant',
            'create one for the other tenant');
    end if;
    n.payload := s.payload;
    if p_changes ? 'payload' then
        perform skiplane._check_json('payload', (p_changes -> 'payload')::text, 1048576);
        n.payload := (p_changes -> 'payload')::json;
    end if;
    if v_retimed and n.end_at <= v_now then
        perform skiplane._refuse('SK001', 'end_at', n.end_at::text, 'end_at has passed', 'give a later end_at, or none');
    end if;
    n.last_fire_time := s.last_fire_time;
    if v_retimed then
        n.next_fire_time := skiplane._check_next(p_next_fire_time, n, v_now);
        n.since := v_now;
    else
        n.status := s.status;
        n.reason := s.reason;
        n.next_fire_time := s.next_fire_time;
        n.since := s.since;
    end if;
    update skiplane.schedule x set
        expression = n.expression, zone = n.zone, status = n.status, reason = n.reason, next_fire_time = n.next_fire_time,
        since = n.since, overlap_policy = n.overlap_policy, missed_policy = n.missed_policy, missed_limit = n.missed_limit,
        jitter_s = n.jitter_s, start_at = n.start_at, end_at = n.end_at, task_type = n.task_type, payload = n.payload,
        queue = n.queue, priority = n.priority, concurrency_key = n.concurrency_key, estimate = n.estimate,
        max_retries = n.max_retries, retry_backoff = n.retry_backoff, retry_delay_s = n.retry_delay_s,
        retry_max_delay_s = n.retry_max_delay_s, retry_jitter = n.retry_jitter, timeout_s = n.timeout_s,
        callback_url = n.callback_url, metadata = n.metadata, version = s.version + 1
    where x.id = s.id and x.shard = s.shard;
    perform skiplane._log_action(s.id, p_actor, 'edit', jsonb_build_object('changes', p_changes, 'version', s.version + 1,
        -- Nulls are not kept.
        'without', (select jsonb_agg(e.key) from jsonb_each(p_changes) e where e.value = 'null')));
    return skiplane.get_cron_task(s.id);
end
$$;

comment on function skiplane.edit_cron_task(uuid, integer, jsonb, timestamptz, text) is
'Changes a schedule: p_changes has fields as in create_cron_task (all but name), null takes one back to its default. p_version is the version that the caller saw: SK005 when it is another by now. After a change of cron_expression, timezone, start_at, end_at or enabled, fires are counted from now on; an edit makes nothing fire.';

create or replace function skiplane.pause_cron_task(p_cron_id uuid, p_reason text default null, p_actor text default null)
returns jsonb language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off
as $$
declare s skiplane.schedule := skiplane._lock_schedule(p_cron_id);
begin
    if s.status <> 'PAUSED' then
        update skiplane.schedule x set status = 'PAUSED', reason = skiplane._clean_text(p_reason, 1000), next_fire_time = null,
            version = s.version + 1
        where x.id = s.id and x.shard = s.shard;
        perform skiplane._log_action(s.id, p_actor, 'pause', jsonb_build_object('reason', p_reason));
    end if;
    return skiplane.get_cron_task(s.id);
end
$$;

comment on function skiplane.pause_cron_task(uuid, text, text) is
'Stops a schedule from firing until resume_cron_task. Tasks that it has made go on.';

create or replace function skiplane.resume_cron_task(
    p_cron_id uuid, p_next_fire_time timestamptz default null, p_actor text default null
) returns jsonb language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off
as $$
declare
    s skiplane.schedule := skiplane._lock_schedule(p_cron_id);
    v_now timestamptz := skiplane.clock();
begin
    if s.status <> 'ACTIVE' then
        s.status := 'ACTIVE';
        s.next_fire_time := skiplane._check_next(p_next_fire_time, s, v_now);
        update skiplane.schedule x set status = s.status, reason = null, next_fire_time = s.next_fire_time, since = v_now,
            version = s.version + 1
        where x.id = s.id and x.shard = s.shard;
        perform skiplane._log_action(s.id, p_actor, 'resume', null);
    end if;
    return skiplane.get_cron_task(s.id);
end
$$;

comment on function skiplane.resume_cron_task(uuid, timestamptz, text) is
'Lets a paused schedule fire again, from now on: what it would have fired meanwhile is not made up for.';

create or replace function skiplane.delete_cron_task(p_cron_id uuid, p_actor text default null)
returns jsonb language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off
as $$
declare
    s skiplane.schedule := skiplane._lock_schedule(p_cron_id);
    v_id uuid;
begin
    for v_id in
        delete from skiplane.schedule_queue q where q.schedule_id = s.id and q.shard = s.shard returning q.task_id
    loop
        perform skiplane._cancel_if_active(v_id, 'its schedule was deleted');
    end loop;
    delete from skiplane.schedule x where x.id = s.id and x.shard = s.shard;
    perform skiplane._log_action(s.id, p_actor, 'delete', jsonb_build_object('name', s.name));
    return skiplane._schedule_document(s);
end
$$;

comment on function skiplane.delete_cron_task(uuid, text) is
'Deletes a schedule and cancels its tasks that wait for an earlier one; other tasks that it has made go on. Answers with what it was.';

create or replace function skiplane.run_cron_task(p_cron_id uuid, p_actor text default null)
returns jsonb language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off
as $$
declare
    s skiplane.schedule := skiplane._lock_schedule(p_cron_id);
    v_now timestamptz;
    v_id uuid;
begin
    perform pg_current_xact_id();
    v_now := skiplane.clock();
    v_id := skiplane._new_id(s.shard, v_now);
    perform skiplane._activate(array[skiplane._schedule_task(s, v_id, v_now, v_now, v_now)], v_now, s.shard);
    insert into skiplane.fire (schedule_id, fire_time, shard, day, fired_at, outcome, task_id, reason)
    values (s.id, v_now, s.shard, skiplane._fire_day(v_now), v_now, 'manual', v_id, 'by ' || coalesce(left(p_actor, 200), session_user));
    if skiplane._has_ended(s.last_task_id) and s.queued = 0 then
        update skiplane.schedule x set last_task_id = v_id where x.id = s.id and x.shard = s.shard;
    end if;
    perform skiplane._log_action(s.id, p_actor, 'run', jsonb_build_object('task_id', v_id));
    return skiplane.get_task(v_id);
end
$$;

comment on function skiplane.run_cron_task(uuid, text) is
'Submits the task of a schedule now, whatever its state, its policies and its next fire time, none of which change. Answers with the task.';

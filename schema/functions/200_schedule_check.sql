-- The rules for schedules, for every door: the template of the task is checked as a submission is. What needs a
-- calendar (does the expression mean anything, does it ever fire, is the zone one of IANA's) is known to the scheduler
-- and to the Python doors: SQL callers' rows wait for it with next_fire_time NULL.

create or replace function skiplane._schedule_fields() returns text[]
language sql immutable parallel safe
as $$
    select array['cron_expression', 'timezone', 'overlap_policy', 'missed_policy', 'missed_limit', 'jitter_seconds',
        'start_at', 'end_at', 'enabled']
$$;

comment on function skiplane._schedule_fields() is 'Fields of a schedule that a task does not have.';

create or replace function skiplane._check_expression(p_expression text, p_zone text) returns void
language plpgsql immutable
as $$
begin
    if p_expression is null or p_expression !~ '[^[:space:]]' or length(p_expression) > 200 or p_expression ~ E'[^ -~\\t]' then
        perform skiplane._refuse('SK001', 'cron_expression', p_expression, 'cron_expression is not usable',
            'give 5 fields, such as 0 3 * * *, in at most 200 characters');
    end if;
    -- Names only: an offset would be read with the sign of POSIX.
    if p_zone is null or length(p_zone) > 100 or p_zone !~ '^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+){0,2}$' then
        perform skiplane._refuse('SK001', 'timezone', p_zone, 'timezone is not a name', 'give an IANA name such as Europe/Berlin or UTC');
    end if;
end
$$;

comment on function skiplane._check_expression(text, text) is 'Refuses what cannot be a cron expression or a zone.';

-- Every field but name and payload, with defaults for what is absent.
create or replace function skiplane._read_schedule(p_object jsonb, p_now timestamptz) returns skiplane.schedule
language plpgsql volatile
as $$
declare
    s skiplane.schedule;
    t skiplane.task;
begin
    perform skiplane._check_fields(p_object, skiplane._schedule_fields() || array['task_type', 'queue', 'priority', 'max_retries',
        'retry_backoff', 'retry_delay_seconds', 'retry_max_delay_seconds', 'retry_jitter', 'timeout_seconds',
        'estimated_duration_seconds', 'concurrency_key', 'callback_url', 'metadata'], 'schedule');
    t := skiplane._object_template(p_object - skiplane._schedule_fields(), p_now);
    s.expression := skiplane._text_field(p_object, 'cron_expression', null);
    s.zone := skiplane._text_field(p_object, 'timezone', 'UTC');
    perform skiplane._check_expression(s.expression, s.zone);
    s.overlap_policy := skiplane._text_field(p_object, 'overlap_policy', 'skip');
    perform skiplane._check_choice('overlap_policy', s.overlap_policy, '{skip,queue,cancel_running}');
    s.missed_policy := skiplane._text_field(p_object, 'missed_policy', 'once');
    perform skiplane._check_choice('missed_policy', s.missed_policy, '{skip,once,all}');
    s.missed_limit := skiplane._integer_field(p_object, 'missed_limit', 10);
    perform skiplane._check_number('missed_limit', s.missed_limit, 1, 1000);
    s.jitter_s := skiplane._number_field(p_object, 'jitter_seconds', 0);
    perform skiplane._check_number('jitter_seconds', s.jitter_s, 0, 86400);
    s.start_at := skiplane._time_field(p_object, 'start_at');
    perform skiplane._check_time('start_at', s.start_at);
    s.end_at := skiplane._time_field(p_object, 'end_at');
    perform skiplane._check_time('end_at', s.end_at);
    if s.end_at <= s.start_at then
        perform skiplane._refuse('SK001', 'end_at', s.end_at::text, 'end_at is not after start_at', 'give a later end_at, or none');
    end if;
    if p_object ? 'enabled' and jsonb_typeof(p_object -> 'enabled') <> 'boolean' then
        perform skiplane._refuse('SK001', 'enabled', p_object ->> 'enabled', 'enabled is not true or false', 'give a JSON boolean');
    end if;
    s.status := case when (p_object -> 'enabled')::boolean is false then 'PAUSED' else 'ACTIVE' end;
    s.task_type := t.task_type;
    s.tenant_id := t.tenant_id;
    s.queue := t.queue;
    s.priority := t.priority;
    s.concurrency_key := t.concurrency_key;
    s.estimate := t.estimate;
    s.max_retries := t.max_retries;
    s.retry_backoff := t.retry_backoff;
    s.retry_delay_s := t.retry_delay_s;
    s.retry_max_delay_s := t.retry_max_delay_s;
    s.retry_jitter := t.retry_jitter;
    s.timeout_s := t.timeout_s;
    s.callback_url := t.callback_url;
    s.metadata := t.metadata;
    return s;
end
$$;

comment on function skiplane._read_schedule(jsonb, timestamptz) is 'Checks the fields of a schedule and of its task.';

create or replace function skiplane._check_next(p_next timestamptz, p_schedule skiplane.schedule, p_now timestamptz) returns timestamptz
language plpgsql volatile
as $$
begin
    -- A minute for the way from the clock to here.
    if p_next < p_now - interval '1 minute' or p_next > p_now + interval '500 years' or p_next < p_schedule.start_at or p_next > p_schedule.end_at then
        perform skiplane._refuse('SK001', 'next_fire_time', p_next::text, 'next_fire_time is no fire time of this schedule',
            'leave it out: the scheduler computes it');
    end if;
    return case when p_schedule.status = 'ACTIVE' and p_next > coalesce(p_schedule.last_fire_time, '-infinity') then p_next end;
end
$$;

comment on function skiplane._check_next(timestamptz, skiplane.schedule, timestamptz) is
'The first fire time that a caller has computed, if the schedule is one that fires.';

create or replace function skiplane._without_nulls(p_object jsonb) returns jsonb
language sql immutable
as $$
    select coalesce((select jsonb_object_agg(e.key, e.value) from jsonb_each(p_object) e where e.value <> 'null'), '{}')
$$;

comment on function skiplane._without_nulls(jsonb) is 'An object without its fields that are null; what is inside of them stays.';

create or replace function skiplane._lock_schedule(p_id uuid) returns skiplane.schedule
language plpgsql volatile
    set jit = off set enable_seqscan = off
as $$
declare s skiplane.schedule;
begin
    select * into s from skiplane.schedule x where x.id = p_id and x.shard = skiplane.task_shard(p_id) for update;
    if s.id is null then
        perform skiplane._refuse('SK002', 'cron_id', p_id::text, 'no schedule has this id', 'look the id up with list_cron_tasks');
    end if;
    return s;
end
$$;

comment on function skiplane._lock_schedule(uuid) is 'The schedule, locked against the scheduler and other editors; SK002 when there is none.';

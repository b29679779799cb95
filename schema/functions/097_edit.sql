-- The two halves of an edit: what the task becomes, and where it waits then.

create or replace function skiplane._edited(p_task skiplane.task, p_changes jsonb, p_now timestamptz) returns skiplane.task
language plpgsql volatile
as $$
declare
    t skiplane.task := p_task;
    v_new skiplane.task;
    v_all jsonb;
begin
    perform skiplane._check_fields(p_changes, array['scheduled_at', 'delay_seconds', 'priority', 'payload', 'queue', 'max_retries',
        'retry_backoff', 'retry_delay_seconds', 'retry_max_delay_seconds', 'retry_jitter', 'timeout_seconds',
        'estimated_duration_seconds', 'concurrency_key', 'expires_at', 'callback_url'], 'changes');
    if p_changes = '{}' then
        perform skiplane._refuse('SK001', 'changes', '{}', 'nothing to change', 'give at least one field');
    end if;
    -- Through the same checks as a submission, with today's values where nothing changes.
    v_all := jsonb_strip_nulls(jsonb_build_object(
        'task_type', t.task_type, 'queue', t.queue, 'priority', skiplane._priority_name(t.priority),
        'max_retries', coalesce(t.max_retries, 3), 'retry_backoff', t.retry_backoff, 'retry_delay_seconds', t.retry_delay_s,
        'retry_max_delay_seconds', t.retry_max_delay_s, 'retry_jitter', t.retry_jitter, 'timeout_seconds', t.timeout_s,
        'estimated_duration_seconds', t.estimate / 1000.0, 'concurrency_key', t.concurrency_key,
        'expires_at', skiplane._utc_text(t.expires_at), 'callback_url', t.callback_url))
        || (p_changes - 'payload');
    if not p_changes ?| '{scheduled_at,delay_seconds}' and t.scheduled_at > p_now then
        v_all := v_all || jsonb_build_object('scheduled_at', skiplane._utc_text(t.scheduled_at));
    end if;
    v_new := skiplane._object_template(v_all, p_now);
    if p_changes ? 'payload' then
        perform skiplane._check_json('payload', (p_changes -> 'payload')::text, 1048576);
        t.payload := (p_changes -> 'payload')::json;
    end if;
    if p_changes ?| '{scheduled_at,delay_seconds}' then
        t.scheduled_at := v_new.scheduled_at;
    end if;
    t.queue := v_new.queue;
    t.priority := v_new.priority;
    t.max_retries := v_new.max_retries;
    t.retry_backoff := v_new.retry_backoff;
    t.retry_delay_s := v_new.retry_delay_s;
    t.retry_max_delay_s := v_new.retry_max_delay_s;
    t.retry_jitter := v_new.retry_jitter;
    t.timeout_s := v_new.timeout_s;
    t.estimate := v_new.estimate;
    t.concurrency_key := v_new.concurrency_key;
    t.expires_at := v_new.expires_at;
    t.callback_url := v_new.callback_url;
    t.version := t.version + 1;
    return t;
end
$$;

comment on function skiplane._edited(skiplane.task, jsonb, timestamptz) is 'The task after an edit, checked as a submission is.';

-- p_timer or p_ready is the row that was taken out (the other is NULL); p_task is what it becomes.
create or replace function skiplane._replace_task(
    p_task skiplane.task, p_timer skiplane.timer, p_ready skiplane.ready, p_changes jsonb, p_now timestamptz
) returns void language plpgsql volatile
    set jit = off set enable_seqscan = off
as $$
declare
    t skiplane.task := p_task;
    v_retimed boolean := p_changes ?| '{scheduled_at,delay_seconds}';
    v_attempt smallint := coalesce(p_timer.attempt, p_ready.attempt);
    v_fence integer := coalesce(p_timer.fence, p_ready.fence);
    v_due timestamptz;
begin
    if p_timer.status = 'SCHEDULED' or (p_timer.id is null and v_fence = 0 and v_retimed and t.scheduled_at > p_now) then
        -- It never ran: it is SCHEDULED again, whole, or becomes active now.
        if p_timer.id is null then
            delete from skiplane.task x where x.id = t.id and x.shard = t.shard and x.day = t.day;
        end if;
        if t.scheduled_at > p_now then
            perform skiplane._store_timer(t.id, t.scheduled_at, 'SCHEDULED', t.idempotency_key, t.payload, t, 0::smallint, 0);
            return;
        end if;
        insert into skiplane.task select t.*;
        perform skiplane._put_ready(t, p_now, 0::smallint, 0);
        return;
    end if;
    update skiplane.task x set
        payload = t.payload, queue = t.queue, priority = t.priority, max_retries = t.max_retries,
        retry_backoff = t.retry_backoff, retry_delay_s = t.retry_delay_s, retry_max_delay_s = t.retry_max_delay_s,
        retry_jitter = t.retry_jitter, timeout_s = t.timeout_s, estimate = t.estimate,
        concurrency_key = t.concurrency_key, expires_at = t.expires_at, callback_url = t.callback_url,
        version = t.version, scheduled_at = t.scheduled_at
    where x.id = t.id and x.shard = t.shard and x.day = t.day;
    v_due := case when v_retimed then t.scheduled_at else p_timer.due_at end;
    if v_due > p_now then
        perform skiplane._store_timer(t.id, v_due, 'RETRYING', t.idempotency_key, null, t, v_attempt, v_fence);
    else
        -- It keeps its place only in its own lane and never moves forward there: the mark may be where it was.
        perform skiplane._put_ready(t, case when not v_retimed and p_ready.lane = skiplane._lane_for(
            t.shard, t.queue, t.priority, t.tenant_id, t.task_type, t.concurrency_key)
            and coalesce(t.estimate, 2147483647) >= p_ready.estimate then p_ready.due_at else p_now end, v_attempt, v_fence);
    end if;
end
$$;

comment on function skiplane._replace_task(skiplane.task, skiplane.timer, skiplane.ready, jsonb, timestamptz) is
'Puts an edited task back where it waits.';

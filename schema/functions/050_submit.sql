-- Submitting: nothing -> SCHEDULED (timer) or PENDING (task + ready). One function stores; the public doors differ
-- only in how the tasks are written down.
-- Order of locks: idempotency keys in sorted order, then inserts, which wait for nobody.

-- Reserves the keys that are not NULL. p_ids[i] stays where the key is new; elsewhere the id of the first task
-- comes back. Waits for a transaction that is just using the same key, whichever way it ends.
create or replace function skiplane._reserve_keys(
    p_tenant_id text, p_keys text[], p_ids uuid[], p_fingerprints bytea[], p_now timestamptz
) returns uuid[] language plpgsql volatile
    set jit = off set enable_seqscan = off
as $$
declare
    v_ids uuid[];
    v_clash text;
    v_missing boolean := true;
begin
    while v_missing loop
        insert into skiplane.idempotency (tenant_id, key, shard, task_id, fingerprint, created_at)
        select p_tenant_id, u.key, skiplane.task_shard(u.id), u.id, u.fingerprint, p_now
        from unnest(p_keys, p_ids, p_fingerprints) as u (key, id, fingerprint)
        where u.key is not null order by u.key, u.id
        on conflict do nothing;
        -- A new statement: the winner's row is not in the snapshot of the insert that waited for it.
        select array_agg(case when u.key is null then u.id else k.task_id end order by u.ord),
            bool_or(u.key is not null and k.task_id is null),
            min(u.key) filter (where k.fingerprint <> u.fingerprint)
        into v_ids, v_missing, v_clash
        from unnest(p_keys, p_ids, p_fingerprints) with ordinality as u (key, id, fingerprint, ord)
        left join skiplane.idempotency k
            on k.tenant_id = p_tenant_id and k.key = u.key and k.shard = skiplane.task_shard(u.id);
        if v_missing and current_setting('transaction_isolation') <> 'read committed' then
            raise exception using errcode = '40001', message = 'another transaction is using this idempotency key',
                hint = 'retry the transaction';
        end if;
    end loop;
    if v_clash is not null then
        perform skiplane._refuse('SK004', 'idempotency_key', v_clash,
            'this idempotency key was used before for another task',
            'send the same body to get the first task, or use a new key');
    end if;
    return v_ids;
end
$$;

comment on function skiplane._reserve_keys(text, text[], uuid[], bytea[], timestamptz) is
'Makes each idempotency key belong to one task; answers with the task of each key.';

-- Stores new tasks that are alike but for id, payload, key and, where p_metadata is given, metadata. All ids are of one
-- shard.
create or replace function skiplane._store_tasks(
    p_ids uuid[], p_payloads json[], p_keys text[], p_task skiplane.task, p_metadata jsonb[] default null
) returns void language plpgsql volatile
as $$
declare
    t skiplane.task := p_task;
    v_lane bigint;
    w record;
begin
    if t.scheduled_at > t.created_at then
        for w in select * from unnest(p_ids, p_keys, p_payloads, p_metadata) as u (id, key, payload, metadata) loop
            if p_metadata is not null then
                t.metadata := w.metadata;
            end if;
            perform skiplane._store_timer(w.id, t.scheduled_at, 'SCHEDULED', w.key, w.payload, t, 0::smallint, 0);
        end loop;
        return;
    end if;
    v_lane := skiplane._lane_for(t.shard, t.queue, t.priority, t.tenant_id, t.task_type, t.concurrency_key);
    insert into skiplane.task (
        id, shard, day, task_type, queue, priority, tenant_id, concurrency_key, estimate, payload, max_retries,
        retry_backoff, retry_delay_s, retry_max_delay_s, retry_jitter, timeout_s, idempotency_key, expires_at,
        callback_url, metadata, workflow_id, scheduled_at, created_at)
    select u.id, t.shard, t.day, t.task_type, t.queue, t.priority, t.tenant_id, t.concurrency_key, t.estimate,
        u.payload, t.max_retries, t.retry_backoff, t.retry_delay_s, t.retry_max_delay_s, t.retry_jitter,
        t.timeout_s, u.key, t.expires_at, t.callback_url, case when p_metadata is null then t.metadata else u.metadata end,
        t.workflow_id, t.scheduled_at, t.created_at
    from unnest(p_ids, p_keys, p_payloads, p_metadata) as u (id, key, payload, metadata);
    insert into skiplane.ready (id, shard, lane, due_at, estimate, day, attempt, fence, expires_at)
    select u.id, t.shard, v_lane, t.created_at, coalesce(t.estimate, 2147483647), t.day, 0, 0, t.expires_at
    from unnest(p_ids) as u (id);
    perform skiplane._wake(t.queue);
end
$$;

comment on function skiplane._store_tasks(uuid[], json[], text[], skiplane.task, jsonb[]) is
'Stores tasks as PENDING or SCHEDULED, by the times in p_task.';

-- A time beyond the prepared partitions goes to timer_far; maintenance moves it in.
create or replace function skiplane._store_timer(
    p_id uuid, p_due_at timestamptz, p_status skiplane.task_status, p_key text, p_payload json,
    p_task skiplane.task, p_attempt smallint, p_fence integer
) returns void language plpgsql volatile
as $$
declare
    t skiplane.task := p_task;
    r skiplane.timer;
begin
    r := row(p_id, t.shard, p_due_at, p_status, case when p_status = 'RETRYING' then t.day end, p_attempt, p_fence,
        t.task_type, t.queue, t.priority, t.tenant_id, t.concurrency_key, t.estimate, p_payload, t.max_retries,
        t.retry_backoff, t.retry_delay_s, t.retry_max_delay_s, t.retry_jitter, t.timeout_s, p_key, t.expires_at,
        t.callback_url, t.metadata, t.workflow_id, t.version, t.scheduled_at, t.created_at)::skiplane.timer;
    perform skiplane._put_timer(r);
end
$$;

comment on function skiplane._store_timer(
    uuid, timestamptz, skiplane.task_status, text, json, skiplane.task, smallint, integer
) is 'Puts a task to wait for a time.';

create or replace function skiplane._put_timer(p_row skiplane.timer) returns void
language plpgsql volatile
as $$
begin
    -- Looked up, not tried: a subtransaction for each of many rows slows down every snapshot of the server.
    if skiplane._is_prepared('timer', skiplane._utc_day(p_row.due_at)) then
        insert into skiplane.timer select (p_row).*;
    else
        insert into skiplane.timer_far select (p_row).*;
    end if;
end
$$;

comment on function skiplane._put_timer(skiplane.timer) is 'Inserts a waiting row into its partition, or into timer_far.';

create or replace function skiplane._timer_horizon() returns date
language sql stable
as $$ select coalesce((select (value #>> '{}')::date from skiplane.setting where name = 'timer_horizon'), '-infinity') $$;

comment on function skiplane._timer_horizon() is 'First UTC day that has no timer partition yet.';

create or replace function skiplane._check_options(
    p_task_type text, p_queue text, p_priority text, p_max_retries integer, p_retry_backoff text,
    p_retry_delay_seconds double precision, p_retry_max_delay_seconds double precision, p_retry_jitter text,
    p_timeout_seconds double precision, p_estimated_duration_seconds double precision, p_concurrency_key text,
    p_callback_url text
) returns void language plpgsql immutable
as $$
begin
    perform skiplane._check_name('task_type', p_task_type);
    if p_task_type = 'skiplane.webhook' then
        perform skiplane._refuse('SK001', 'task_type', p_task_type, 'tasks of this type are made by the engine alone',
            'create a webhook, or give a task a callback_url');
    end if;
    perform skiplane._check_name('queue', p_queue);
    perform skiplane._check_choice('priority', p_priority, '{high,medium,low}');
    if p_max_retries is null then
        perform skiplane._refuse('SK001', 'max_retries', null, 'max_retries is missing', 'leave it out for the default, 3');
    end if;
    perform skiplane._check_number('max_retries', p_max_retries, 0, 10000);
    perform skiplane._check_choice('retry_backoff', p_retry_backoff, '{exponential,linear,fixed}');
    perform skiplane._check_choice('retry_jitter', p_retry_jitter, '{full,equal,decorrelated,none}');
    perform skiplane._check_number('retry_delay_seconds', p_retry_delay_seconds, 0, 31536000);
    perform skiplane._check_number('retry_max_delay_seconds', p_retry_max_delay_seconds, 0, 31536000);
    perform skiplane._check_number('timeout_seconds', p_timeout_seconds, 0.001, 2592000);
    perform skiplane._check_number('estimated_duration_seconds', p_estimated_duration_seconds, 0, 2000000);
    if p_concurrency_key is not null then
        perform skiplane._check_name('concurrency_key', p_concurrency_key);
    end if;
    if p_callback_url is not null and (p_callback_url !~ '^https?://[^[:space:]]+$' or octet_length(p_callback_url) > 2000) then
        perform skiplane._refuse('SK001', 'callback_url', p_callback_url, 'callback_url is not a web address',
            'give an http or https URL of at most 2000 bytes');
    end if;
end
$$;

comment on function skiplane._check_options(
    text, text, text, integer, text, double precision, double precision, text, double precision, double precision, text, text
) is 'Refuses options of a submission that are out of their range, one by one.';

-- Checks everything that tasks of one call have in common, and makes their template. Few and large expressions, here
-- and below: in a transaction of its own each one costs microseconds before it is evaluated.
create or replace function skiplane._task_template(
    p_task_type text, p_queue text, p_priority text, p_scheduled_at timestamptz, p_delay_seconds double precision,
    p_max_retries integer, p_retry_backoff text, p_retry_delay_seconds double precision,
    p_retry_max_delay_seconds double precision, p_retry_jitter text, p_timeout_seconds double precision,
    p_estimated_duration_seconds double precision, p_concurrency_key text, p_expires_at timestamptz,
    p_callback_url text, p_metadata jsonb, p_now timestamptz
) returns skiplane.task language plpgsql volatile
as $$
begin
    -- One look tells that all is well; only then what is not is told in detail.
    if (p_max_retries between 0 and 10000 and p_retry_backoff = 'exponential' and p_retry_jitter = 'equal'
        and p_retry_delay_seconds between 0 and 3600 and p_retry_max_delay_seconds between 0 and 3600
        and p_timeout_seconds is null and p_estimated_duration_seconds is null and p_concurrency_key is null
        and p_callback_url is null and p_priority in ('high', 'medium', 'low')
        and p_scheduled_at is null and p_delay_seconds is null and p_expires_at is null and p_metadata is null
        and p_task_type <> 'skiplane.webhook' and octet_length(p_task_type || ' ' || p_queue) < 100 and p_task_type || ':' || p_queue ~ '^[a-z0-9_.:-]+$'
        and p_task_type <> '' and p_queue <> '') is not true then
        perform skiplane._check_options(p_task_type, p_queue, p_priority, p_max_retries, p_retry_backoff, p_retry_delay_seconds,
            p_retry_max_delay_seconds, p_retry_jitter, p_timeout_seconds, p_estimated_duration_seconds,
            p_concurrency_key, p_callback_url);
        perform skiplane._check_metadata(p_metadata);
        p_scheduled_at := skiplane._due_time(p_scheduled_at, p_delay_seconds, p_now);
        perform skiplane._check_expiry(p_expires_at, greatest(p_scheduled_at, p_now));
    end if;
    -- What equals the default is stored as NULL.
    return row(null, null, skiplane._active_day(p_now), p_task_type, p_queue,
        case p_priority when 'high' then 10 when 'medium' then 5 else 0 end, coalesce(p_metadata ->> 'tenant_id', 'default'),
        p_concurrency_key, round(p_estimated_duration_seconds * 1000), null, nullif(p_max_retries, 3),
        nullif(p_retry_backoff, 'exponential'), nullif(p_retry_delay_seconds, 5), nullif(p_retry_max_delay_seconds, 3600),
        nullif(p_retry_jitter, 'equal'), p_timeout_seconds, null, p_expires_at, p_callback_url, nullif(p_metadata, '{}'),
        null, 1, coalesce(p_scheduled_at, p_now), p_now)::skiplane.task;
end
$$;

comment on function skiplane._task_template(
    text, text, text, timestamptz, double precision, integer, text, double precision, double precision, text,
    double precision, double precision, text, timestamptz, text, jsonb, timestamptz
) is 'Validates the options of a submission and returns them as a task row without id and payload.';

create or replace function skiplane._check_expiry(p_expires_at timestamptz, p_start timestamptz) returns void
language plpgsql volatile
as $$
begin
    perform skiplane._check_time('expires_at', p_expires_at);
    if p_expires_at <= p_start then
        perform skiplane._refuse('SK001', 'expires_at', p_expires_at::text, 'expires_at is not after the start',
            'give an instant after scheduled_at, or none');
    end if;
end
$$;

comment on function skiplane._check_expiry(timestamptz, timestamptz) is 'Refuses an expiry before the start.';

create or replace function skiplane._check_metadata(p_metadata jsonb) returns void
language plpgsql volatile
as $$
begin
    if p_metadata is null then
        return;
    elsif jsonb_typeof(p_metadata) <> 'object' then
        perform skiplane._refuse('SK001', 'metadata', p_metadata::text, 'metadata is not an object', 'give a JSON object');
    end if;
    perform skiplane._check_json('metadata', p_metadata::text, 16384);
    if p_metadata ? 'tenant_id' then
        if jsonb_typeof(p_metadata -> 'tenant_id') <> 'string' then
            perform skiplane._refuse('SK001', 'metadata.tenant_id', p_metadata ->> 'tenant_id',
                'tenant_id is not text', 'give a name as text');
        end if;
        perform skiplane._check_name('metadata.tenant_id', p_metadata ->> 'tenant_id');
    end if;
end
$$;

comment on function skiplane._check_metadata(jsonb) is 'Refuses metadata that is no object, too large, or names no usable tenant.';

-- Ending an attempt: RUNNING -> SUCCEEDED, RETRYING, PENDING (handed back), FAILED or DEAD.
-- Every write matches lease and worker; what is not in the lease any more is stale and changes nothing.
-- Locks: the lease row first, then inserts.

-- delay = min(max, base x 2^(attempt-1)) exponential, base x attempt linear, base fixed; then jitter.
-- decorrelated: min(max, uniform(base, 3 x previous)). p_random is uniform in [0, 1).
create or replace function skiplane.retry_delay(
    p_attempt integer, p_backoff text, p_base double precision, p_max double precision, p_jitter text,
    p_previous double precision default null, p_random double precision default random()
) returns double precision language sql immutable parallel safe
as $$
    select case
        when p_jitter = 'decorrelated' then
            least(p_max, p_base + p_random * greatest(3 * coalesce(p_previous, p_base) - p_base, 0))
        else d.delay * case p_jitter when 'full' then p_random when 'equal' then 0.5 + p_random / 2 else 1 end
    end
    from (select least(p_max, case p_backoff
        when 'exponential' then p_base * power(2::double precision, least(greatest(p_attempt, 1) - 1, 500))
        when 'linear' then p_base * p_attempt
        else p_base end) as delay) d
$$;

comment on function skiplane.retry_delay(integer, text, double precision, double precision, text, double precision, double precision) is
'Seconds to wait after a failed attempt; never overflows, never above p_max.';

-- Text of an error as text can hold it.
create or replace function skiplane._clean_text(p_text text, p_most integer) returns text
language sql immutable parallel safe
as $$ select case when octet_length(p_text) <= p_most then p_text else left(p_text, p_most / 4) || ' ...' end $$;

comment on function skiplane._clean_text(text, integer) is 'Shortens an error text.';

-- What is no number, or none that a column can hold, must not keep a failure from being recorded.
create or replace function skiplane._bounded_number(p_object jsonb, p_field text, p_most double precision)
returns double precision language sql immutable parallel safe
as $$
    select case when jsonb_typeof(p_object -> p_field) = 'number' then
        least(greatest((p_object ->> p_field)::numeric, 0), p_most::numeric)::double precision end
$$;

comment on function skiplane._bounded_number(jsonb, text, double precision) is
'A number field pressed into 0 to p_most; NULL when it is no number.';

create or replace function skiplane._end_task(
    p_id uuid, p_shard smallint, p_day date, p_status skiplane.task_status, p_attempt smallint, p_fence integer,
    p_started timestamptz, p_worker_id uuid, p_error_type text, p_error_message text
) returns void language plpgsql volatile
as $$
begin
    insert into skiplane.outcome (
        id, shard, day, status, attempt, fence, started_at, finished_at, worker_id, error_type, error_message)
    values (p_id, p_shard, p_day, p_status, p_attempt, p_fence, p_started, skiplane.clock(), p_worker_id,
        p_error_type, p_error_message);
    if p_status = 'DEAD' then
        insert into skiplane.dead (
            id, shard, died_at, task_type, queue, tenant_id, error_type, error_message, task, fence)
        select t.id, t.shard, skiplane.clock(), t.task_type, t.queue, t.tenant_id, p_error_type, p_error_message,
            to_jsonb(t) - 'payload' || jsonb_build_object('payload', t.payload::text), p_fence
        from skiplane.task t where t.id = p_id and t.shard = p_shard and t.day = p_day;
    end if;
    perform skiplane._announce_ends(array[p_id], p_day, p_shard, false);
end
$$;

comment on function skiplane._end_task(
    uuid, smallint, date, skiplane.task_status, smallint, integer, timestamptz, uuid, text, text
) is 'Records an end other than success, and tells those who listen; a DEAD task also becomes a dead letter.';

create or replace function skiplane._put_ready(
    p_task skiplane.task, p_due_at timestamptz, p_attempt smallint, p_fence integer
) returns void language plpgsql volatile
as $$
declare t skiplane.task := p_task;
begin
    insert into skiplane.ready (id, shard, lane, due_at, estimate, day, attempt, fence, expires_at)
    values (t.id, t.shard,
        skiplane._lane_for(t.shard, t.queue, t.priority, t.tenant_id, t.task_type, t.concurrency_key),
        p_due_at, coalesce(t.estimate, 2147483647), t.day, p_attempt, p_fence, t.expires_at);
    perform skiplane._wake(t.queue);
end
$$;

comment on function skiplane._put_ready(skiplane.task, timestamptz, smallint, integer) is 'Makes a task PENDING (again).';

-- One attempt that did not succeed. p_failure is an object as described at finish_tasks.
create or replace function skiplane._fail_task(
    p_id uuid, p_shard smallint, p_day date, p_attempt smallint, p_fence integer, p_worker_id uuid,
    p_started timestamptz, p_failure jsonb
) returns void language plpgsql volatile
    set jit = off set enable_seqscan = off set plan_cache_mode = force_generic_plan
as $$
declare
    v_now timestamptz;
    v_kind text := coalesce(p_failure ->> 'kind', 'error');
    v_type text := skiplane._clean_text(p_failure ->> 'error_type', 400);
    v_message text := skiplane._clean_text(p_failure ->> 'error_message', 16384);
    t skiplane.task;
    v_delay double precision;
    v_final boolean;
    v_excused boolean := v_kind = 'lost' and coalesce(p_failure ->> 'excused' = 'true', false);
    v_losses record;
begin
    perform pg_current_xact_id();
    v_now := skiplane.clock();
    select * into t from skiplane.task x where x.id = p_id and x.shard = p_shard and x.day = p_day;
    if t.id is null then
        perform skiplane._end_task(p_id, p_shard, p_day, 'FAILED', p_attempt, p_fence, p_started, p_worker_id,
            'TaskMissing', 'the row of the task is gone');
        return;
    end if;
    if v_kind in ('release', 'postpone') then
        v_delay := case v_kind when 'release' then 0
            else coalesce(skiplane._bounded_number(p_failure, 'delay_seconds', 31536000), 0) end;
        p_attempt := p_attempt - 1;
    else
        perform skiplane._count_failure(t.task_type, p_started);
        v_losses := skiplane._losses(p_id, p_shard, p_day, p_attempt);
        v_final := v_kind = 'permanent' or p_attempt - least(v_losses.excused + v_excused::integer, coalesce(t.max_retries, 3))
            > coalesce(t.max_retries, 3);
        if v_kind = 'lost' and not (v_losses.again and coalesce(p_failure ->> 'swept' = 'true', false)) then
            v_delay := 0;
        else
            v_delay := greatest(
                skiplane.retry_delay(p_attempt, coalesce(t.retry_backoff, 'exponential'), coalesce(t.retry_delay_s, 5),
                    coalesce(t.retry_max_delay_s, 3600), coalesce(t.retry_jitter, 'equal'),
                    case when t.retry_jitter = 'decorrelated' then (
                        select a.retry_delay_s from skiplane.attempt a
                        where a.id = p_id and a.shard = p_shard and a.day = p_day order by a.fence desc limit 1) end),
                skiplane._bounded_number(p_failure, 'retry_after_seconds', 31536000));
        end if;
        insert into skiplane.attempt (
            id, shard, day, fence, attempt, outcome, worker_id, started_at, finished_at, error_type, error_message,
            error_detail, retry_delay_s, excused)
        values (p_id, p_shard, p_day, p_fence, p_attempt, v_kind, p_worker_id, p_started,
            greatest(v_now, p_started), v_type, v_message, skiplane._clean_text(p_failure ->> 'error_detail', 65536),
            case when not v_final then v_delay end, v_excused);
        if v_final then
            perform skiplane._end_task(p_id, p_shard, p_day,
                case v_kind when 'permanent' then 'FAILED' else 'DEAD' end::skiplane.task_status,
                p_attempt, p_fence, p_started, p_worker_id, v_type, v_message);
            return;
        end if;
    end if;
    if v_delay > 0 then
        perform skiplane._store_timer(p_id, v_now + make_interval(secs => v_delay), 'RETRYING', t.idempotency_key, null,
            t, p_attempt, p_fence);
    else
        perform skiplane._put_ready(t, v_now, p_attempt, p_fence);
    end if;
end
$$;

comment on function skiplane._fail_task(uuid, smallint, date, smallint, integer, uuid, timestamptz, jsonb) is
'Moves a task on after an attempt that did not succeed: RETRYING, PENDING, FAILED or DEAD.';

-- Reading one task, many tasks, results.

-- Everything but attempts and actions. One statement, so that a task which moves is seen in one place.
create or replace function skiplane._task_document(p_task_id uuid) returns jsonb
language plpgsql volatile
    set jit = off set enable_seqscan = off set plan_cache_mode = force_generic_plan
as $$
declare
    v_shard smallint := skiplane.task_shard(p_task_id);
    v_document jsonb;
begin
    -- Twice: a task may become active between the look at the tasks and the one at the timers.
    for v_look in 1 .. 2 loop
        select skiplane._document(t, o, case when o.id is null then w end, case when o.id is null then r end, b)
        into v_document
        from skiplane._find_task(p_task_id) t
        left join skiplane.outcome o on o.id = t.id and o.shard = t.shard and o.day = t.day
        left join lateral skiplane._find_timer(t.id, t.shard) w on o.id is null and w.id is not null
        left join skiplane.ready r on r.id = t.id and r.shard = t.shard
        left join skiplane.blocked b on t.workflow_id is not null and b.id = t.id and b.shard = t.shard
        where t.id is not null;
        if v_document is null then
            select skiplane._document(skiplane._timer_task(w, null), null, w, null, null) into v_document
            from skiplane._find_timer(p_task_id, v_shard) w where w.status = 'SCHEDULED';
        end if;
        exit when v_document is not null;
    end loop;
    return v_document;
end
$$;

comment on function skiplane._task_document(uuid) is 'A task as every door shows it, without attempts and actions; NULL when unknown.';

create or replace function skiplane._document(
    p_task skiplane.task, p_outcome skiplane.outcome, p_timer skiplane.timer, p_ready skiplane.ready, p_blocked skiplane.blocked
) returns jsonb language plpgsql volatile
as $$
declare
    t skiplane.task := p_task;
    o skiplane.outcome := p_outcome;
    l skiplane.lease;
    n integer;
    v_name text;
    v_status text := coalesce(o.status::text, p_timer.status::text, case when p_ready.id is not null then 'PENDING' end,
        case when p_blocked.id is not null then 'BLOCKED' end, 'RUNNING');
begin
    if v_status = 'RUNNING' then
        l := skiplane._find_lease(t.id, t.shard);
        n := array_position(l.ids, t.id);
    end if;
    if t.workflow_id is not null then
        v_name := skiplane._name_in_workflow(t.id, t.shard);
    end if;
    return jsonb_build_object(
        'task_id', t.id, 'task_type', t.task_type, 'queue', t.queue, 'priority', skiplane._priority_name(t.priority),
        'status', v_status, 'payload', t.payload, 'result', o.result, 'error_type', o.error_type, 'error_message', o.error_message,
        'scheduled_at', skiplane._utc_text(t.scheduled_at), 'created_at', skiplane._utc_text(t.created_at),
        'started_at', skiplane._utc_text(coalesce(o.started_at, l.started[n], l.claimed_at)),
        'completed_at', skiplane._utc_text(o.finished_at), 'next_attempt_at', skiplane._utc_text(p_timer.due_at),
        'duration_ms', round((extract(epoch from o.finished_at - o.started_at) * 1000)::numeric, 3),
        'attempt', coalesce(o.attempt, p_timer.attempt, p_ready.attempt, l.attempts[n], 0),
        'max_retries', coalesce(t.max_retries, 3), 'retry_backoff', coalesce(t.retry_backoff, 'exponential'))
        || jsonb_build_object(
        'retry_delay_seconds', coalesce(t.retry_delay_s, 5), 'retry_max_delay_seconds', coalesce(t.retry_max_delay_s, 3600),
        'retry_jitter', coalesce(t.retry_jitter, 'equal'), 'timeout_seconds', t.timeout_s, 'idempotency_key', t.idempotency_key,
        'estimated_duration_seconds', t.estimate / 1000.0, 'concurrency_key', t.concurrency_key,
        'expires_at', skiplane._utc_text(t.expires_at), 'callback_url', t.callback_url, 'metadata', t.metadata,
        'tenant_id', t.tenant_id, 'workflow_id', t.workflow_id, 'task_name', v_name, 'worker_id', coalesce(o.worker_id, l.worker_id),
        'lease_expiry', skiplane._utc_text(l.until), 'version', t.version, 'cursor', t.id);
end
$$;

comment on function skiplane._document(skiplane.task, skiplane.outcome, skiplane.timer, skiplane.ready, skiplane.blocked) is
'The document of a task from the rows of the places where it is.';

create or replace function skiplane.get_task(p_task_id uuid) returns jsonb
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off
as $$
declare
    v_shard smallint := skiplane.task_shard(p_task_id);
    v_day date := skiplane._id_day(p_task_id);
    v_document jsonb := skiplane._task_document(p_task_id);
begin
    if v_document is null then
        perform skiplane._refuse_unknown(p_task_id);
    end if;
    return v_document - 'cursor' || jsonb_build_object(
        'attempts', coalesce((
            select jsonb_agg(jsonb_build_object('attempt', a.attempt, 'fence', a.fence, 'outcome', a.outcome,
                'worker_id', a.worker_id, 'started_at', skiplane._utc_text(a.started_at),
                'finished_at', skiplane._utc_text(a.finished_at), 'error_type', a.error_type,
                'error_message', a.error_message, 'error_detail', a.error_detail,
                'retry_at', skiplane._utc_text(a.finished_at + make_interval(secs => a.retry_delay_s))) order by a.fence)
            from (
                select x.attempt, x.fence, x.outcome, x.worker_id, x.started_at, x.finished_at, x.error_type, x.error_message,
                    x.error_detail, x.retry_delay_s
                from skiplane.attempt x where x.id = p_task_id and x.shard = v_shard and x.day >= v_day
                union all
                -- A success has no row of its own: its outcome tells it all.
                select o.attempt, o.fence, 'succeeded', o.worker_id, o.started_at, o.finished_at, null, null, null, null
                from skiplane.outcome o
                where o.id = p_task_id and o.shard = v_shard and o.day >= v_day and o.status = 'SUCCEEDED'
            ) a), '[]'),
        'actions', coalesce((
            select jsonb_agg(jsonb_build_object('at', skiplane._utc_text(a.at), 'actor', a.actor, 'verb', a.verb,
                'detail', a.detail) order by a.n)
            from skiplane.action a where a.task_id = p_task_id), '[]'),
        'checkpoint', (select c.checkpoint from skiplane.checkpoint c where c.id = p_task_id and c.shard = v_shard),
        'progress', (
            select jsonb_build_object('share', c.share, 'message', c.message, 'at', skiplane._utc_text(c.updated_at))
            from skiplane.checkpoint c where c.id = p_task_id and c.shard = v_shard and c.share is not null));
end
$$;

comment on function skiplane.get_task(uuid) is
'One task with its state, result, attempts, operator actions, checkpoint and progress. SK002 when unknown.';

create or replace function skiplane.get_results(p_task_ids uuid[])
returns table (task_id uuid, status text, done boolean, result jsonb, error_type text, error_message text)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set plan_cache_mode = force_generic_plan
as $$
begin
    -- Ended tasks of the day of their id in one look; the others one by one.
    return query
    select x.id, coalesce(o.status::text, d.document ->> 'status'),
        coalesce(o.status::text, d.document ->> 'status') in ('SUCCEEDED', 'FAILED', 'CANCELLED', 'DEAD'),
        coalesce(o.result::jsonb, nullif(d.document -> 'result', 'null')), coalesce(o.error_type, d.document ->> 'error_type'),
        coalesce(o.error_message, d.document ->> 'error_message')
    from unnest(p_task_ids) as x (id)
    left join skiplane.outcome o
        on o.id = x.id and o.id = any (p_task_ids) and o.day = skiplane._id_day(x.id) and o.shard = skiplane.task_shard(x.id)
        and o.day = any (array(select distinct skiplane._id_day(y) from unnest(p_task_ids) y))
    left join lateral (select skiplane._task_document(x.id) as document) d on o.id is null
    where o.id is not null or d.document is not null;
end
$$;

comment on function skiplane.get_results(uuid[]) is
'State and result of tasks, for callers that wait: ask again until done. Unknown ids have no row.';

create or replace function skiplane.get_result(p_task_id uuid)
returns table (task_id uuid, status text, done boolean, result jsonb, error_type text, error_message text)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
begin
    return query select * from skiplane.get_results(array[p_task_id]);
    if not found then
        perform skiplane._refuse_unknown(p_task_id);
    end if;
end
$$;

comment on function skiplane.get_result(uuid) is 'State and result of one task: ask again until done. SK002 when unknown.';

-- Finding a task by its id alone: it is in exactly one place at any time.

-- The partition of the day of the id first: tasks that were due at once are there. Others became active later.
create or replace function skiplane._find_task(p_id uuid) returns skiplane.task
language plpgsql stable
    set jit = off set enable_seqscan = off set plan_cache_mode = force_generic_plan
as $$
declare
    t skiplane.task;
    v_day date := skiplane._id_day(p_id);
    v_shard smallint := skiplane.task_shard(p_id);
begin
    select * into t from skiplane.task x where x.id = p_id and x.shard = v_shard and x.day = v_day;
    if t.id is null then
        select * into t from skiplane.task x where x.id = p_id and x.shard = v_shard and x.day > v_day;
    end if;
    return t;
end
$$;

comment on function skiplane._find_task(uuid) is 'The task row of an id, or a row of NULLs.';

-- Live leases are few: batches in work, not tasks. Those that are running out are looked at last.
-- With the owner's rights, since readers of the view tasks come here.
create or replace function skiplane._find_lease(p_id uuid, p_shard smallint) returns skiplane.lease
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set plan_cache_mode = force_generic_plan
as $$
declare
    l skiplane.lease;
    v_now timestamptz := skiplane.clock();
begin
    select * into l from skiplane.lease x where x.shard = p_shard and x.until > v_now and p_id = any (x.ids) limit 1;
    if l.lease_id is null then
        select * into l from skiplane.lease x where x.shard = p_shard and x.until <= v_now and p_id = any (x.ids) limit 1;
    end if;
    return l;
end
$$;

comment on function skiplane._find_lease(uuid, smallint) is 'The lease that holds a task, or a row of NULLs.';

create or replace function skiplane._find_timer(p_id uuid, p_shard smallint) returns skiplane.timer
language plpgsql stable
    set jit = off set enable_seqscan = off set plan_cache_mode = force_generic_plan
as $$
declare r skiplane.timer;
begin
    select * into r from skiplane.timer x where x.id = p_id and x.shard = p_shard;
    if r.id is null then
        select * into r from skiplane.timer_far x where x.id = p_id and x.shard = p_shard;
    end if;
    return r;
end
$$;

comment on function skiplane._find_timer(uuid, smallint) is 'The waiting row of a task, or a row of NULLs.';

create or replace function skiplane._take_timer(p_id uuid, p_shard smallint) returns skiplane.timer
language plpgsql volatile
    set jit = off set enable_seqscan = off set plan_cache_mode = force_generic_plan
as $$
declare r skiplane.timer;
begin
    delete from skiplane.timer x where x.id = p_id and x.shard = p_shard returning * into r;
    if r.id is null then
        delete from skiplane.timer_far x where x.id = p_id and x.shard = p_shard returning * into r;
    end if;
    return r;
end
$$;

comment on function skiplane._take_timer(uuid, smallint) is 'Takes a waiting row out; NULLs when the task does not wait.';

create or replace function skiplane._timer_task(p_row skiplane.timer, p_day date) returns skiplane.task
language plpgsql immutable
as $$
begin
    return row(p_row.id, p_row.shard, p_day, p_row.task_type, p_row.queue, p_row.priority, p_row.tenant_id,
        p_row.concurrency_key, p_row.estimate, p_row.payload, p_row.max_retries, p_row.retry_backoff,
        p_row.retry_delay_s, p_row.retry_max_delay_s, p_row.retry_jitter, p_row.timeout_s, p_row.idempotency_key,
        p_row.expires_at, p_row.callback_url, p_row.metadata, p_row.workflow_id, p_row.version,
        p_row.scheduled_at, p_row.created_at)::skiplane.task;
end
$$;

comment on function skiplane._timer_task(skiplane.timer, date) is 'A waiting row as the task row that it becomes.';

create or replace function skiplane._log_action(p_id uuid, p_actor text, p_verb text, p_detail jsonb) returns void
language sql volatile
as $$
    insert into skiplane.action (shard, task_id, at, actor, verb, detail)
    values (skiplane.task_shard(p_id), p_id, skiplane.clock(), coalesce(left(p_actor, 200), session_user), p_verb,
        jsonb_strip_nulls(p_detail))
$$;

comment on function skiplane._log_action(uuid, text, text, jsonb) is 'Remembers what an operator did.';

create or replace function skiplane._refuse_unknown(p_id uuid) returns void
language plpgsql volatile
as $$
begin
    perform skiplane._refuse('SK002', 'task_id', p_id::text, 'no task has this id',
        'look the id up with list_tasks; history is dropped after the retention');
end
$$;

comment on function skiplane._refuse_unknown(uuid) is 'SK002 for a task.';

-- The dead letter queue: DEAD -> PENDING (retry), or out of the queue for good (discard).

create or replace function skiplane.list_dead_letters(
    p_task_type text default null, p_queue text default null, p_tenant_id text default null, p_limit integer default 50,
    p_cursor text default null
) returns setof jsonb language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off
as $$
declare v_before uuid := skiplane._read_cursor(p_cursor);
begin
    perform skiplane._check_number('limit', p_limit, 1, 1000);
    return query
    select jsonb_build_object('task_id', d.id, 'task_type', d.task_type, 'queue', d.queue, 'tenant_id', d.tenant_id,
        'died_at', skiplane._utc_text(d.died_at), 'error_type', d.error_type, 'error_message', d.error_message,
        'payload', (d.task ->> 'payload')::json, 'created_at', skiplane._utc_text((d.task ->> 'created_at')::timestamptz),
        'cursor', d.id)
    from skiplane.dead d
    where d.id < v_before and (p_task_type is null or d.task_type = p_task_type)
        and (p_queue is null or d.queue = p_queue) and (p_tenant_id is null or d.tenant_id = p_tenant_id)
    order by d.id desc limit p_limit;
end
$$;

comment on function skiplane.list_dead_letters(text, text, text, integer, text) is
'Dead letters, newest task first. The next page: pass the cursor of the last one.';

create or replace function skiplane._check_dead(p_task_id uuid) returns void
language plpgsql volatile
as $$
begin
    perform from skiplane.dead d where d.id = p_task_id and d.shard = skiplane.task_shard(p_task_id) for update;
    if not found then
        if skiplane._task_document(p_task_id) is null then
            perform skiplane._refuse_unknown(p_task_id);
        end if;
        perform skiplane._refuse('SK003', 'task_id', p_task_id::text, 'the task is not in the dead letter queue',
            'list_dead_letters shows what is');
    end if;
end
$$;

comment on function skiplane._check_dead(uuid) is 'Refuses what is no dead letter; locks what is one.';

create or replace function skiplane.retry_dead_letter(p_task_id uuid, p_reason text default null, p_actor text default null)
returns jsonb language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare t skiplane.task := skiplane._find_task(p_task_id);
begin
    if t.workflow_id is not null then
        -- Before the dead letter: who retries the whole workflow takes them in this order.
        perform skiplane._hold_workflow(t.workflow_id);
    end if;
    perform skiplane._check_dead(p_task_id);
    return skiplane.retry_task(p_task_id, p_reason, p_actor);
end
$$;

comment on function skiplane.retry_dead_letter(uuid, text, text) is
'Runs a dead letter again with a fresh budget; its history stays. SK003 when it is none.';

create or replace function skiplane.retry_dead_letters(
    p_task_type text default null, p_queue text default null, p_tenant_id text default null, p_limit integer default 500,
    p_actor text default null
) returns integer language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off
as $$
declare
    d record;
    v_count integer := 0;
begin
    perform skiplane._check_number('limit', p_limit, 1, 10000);
    for d in
        select x.id, x.shard from skiplane.dead x
        where (p_task_type is null or x.task_type = p_task_type) and (p_queue is null or x.queue = p_queue)
            and (p_tenant_id is null or x.tenant_id = p_tenant_id)
            and x.task ->> 'workflow_id' is null
        order by x.id limit p_limit for update skip locked
    loop
        perform skiplane.retry_task(d.id, 'retry of all', p_actor);
        v_count := v_count + 1;
    end loop;
    if v_count < p_limit then
        v_count := v_count + skiplane._retry_dead_members(p_task_type, p_queue, p_tenant_id, p_limit - v_count, p_actor);
    end if;
    return v_count;
end
$$;

comment on function skiplane.retry_dead_letters(text, text, text, integer, text) is
'Runs all dead letters of a filter again, p_limit per call, oldest first: call until it answers 0.';

create or replace function skiplane.discard_dead_letter(p_task_id uuid, p_reason text default null, p_actor text default null)
returns jsonb language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare v_document jsonb;
begin
    perform skiplane._check_dead(p_task_id);
    delete from skiplane.dead d where d.id = p_task_id and d.shard = skiplane.task_shard(p_task_id);
    perform skiplane._log_action(p_task_id, p_actor, 'discard', jsonb_build_object('reason', p_reason));
    v_document := skiplane._task_document(p_task_id);
    return coalesce(v_document, jsonb_build_object('task_id', p_task_id, 'status', 'DEAD'));
end
$$;

comment on function skiplane.discard_dead_letter(uuid, text, text) is
'Takes a dead letter out of the queue for good; the task stays DEAD in the history.';

-- Lanes, and waking who waits for them.

-- Never waits for another transaction: see the table's comment on duplicates.
create or replace function skiplane._lane_for(
    p_shard smallint, p_queue text, p_priority smallint, p_tenant_id text, p_task_type text, p_concurrency_key text
) returns bigint language plpgsql volatile
    set jit = off set enable_seqscan = off
as $$
declare v_lane bigint;
begin
    select l.lane into v_lane from skiplane.lane l
    where l.shard = p_shard and l.queue = p_queue and l.priority = p_priority and l.tenant_id = p_tenant_id
        and l.task_type = p_task_type and l.concurrency_key = coalesce(p_concurrency_key, '') and l.closed_at is null
    order by l.lane limit 1;
    if v_lane is not null and current_setting('transaction_isolation') = 'read committed' then
        return v_lane;
    elsif v_lane is not null then
        -- An older snapshot may show a lane that is gone by now: one that can be locked stays until this ends.
        begin
            perform from skiplane.lane l where l.lane = v_lane and l.shard = p_shard for key share;
            return v_lane;
        exception when serialization_failure then
            null;
        end;
    end if;
    insert into skiplane.lane (shard, queue, priority, tenant_id, task_type, concurrency_key, created_at)
    values (p_shard, p_queue, p_priority, p_tenant_id, p_task_type, coalesce(p_concurrency_key, ''), skiplane.clock())
    returning lane into v_lane;
    return v_lane;
end
$$;

comment on function skiplane._lane_for(smallint, text, smallint, text, text, text) is 'The open lane of this key, made when there is none.';

create or replace function skiplane.queue_channel(p_queue text) returns text
language sql immutable strict parallel safe
as $$ select 'skiplane_q_' || md5(p_queue) $$;

comment on function skiplane.queue_channel(text) is 'Channel to LISTEN on for work in a queue; a hash, since channel names end at 63 bytes.';

create or replace function skiplane.worker_channel(p_worker_id uuid) returns text
language sql immutable strict parallel safe
as $$ select 'skiplane_w_' || replace(p_worker_id::text, '-', '') $$;

comment on function skiplane.worker_channel(uuid) is 'Channel on which a worker is told of cancellations (task id) and drain.';

-- An idle worker holds a shared advisory lock per queue on its listening session: a submit sees it without
-- reading a table, so nothing bloats, and the server drops it when the session dies. The number is ours.
create or replace function skiplane.wait_for_work(p_queues text[]) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$
declare v_queue text;
begin
    foreach v_queue in array p_queues loop
        -- The server counts how often a session takes a lock, and would want it given back as often.
        if not exists (select from pg_locks l where l.locktype = 'advisory' and l.classid = 1397442898
            and l.objid = hashtext(v_queue)::oid and l.objsubid = 2 and l.mode = 'ShareLock' and l.pid = pg_backend_pid()
            and l.database = (select d.oid from pg_database d where d.datname = current_database()))
        then
            perform pg_advisory_lock_shared(1397442898, hashtext(v_queue));
        end if;
    end loop;
end
$$;

comment on function skiplane.wait_for_work(text[]) is
'Called on a listening session that has nothing to do: from now on submits to these queues notify. Claim once more after it, then sleep. A second call changes nothing: one stop_waiting, or the end of the session, ends it.';

create or replace function skiplane.stop_waiting(p_queues text[]) returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$
declare v_queue text;
begin
    foreach v_queue in array p_queues loop
        perform pg_advisory_unlock_shared(1397442898, hashtext(v_queue));
    end loop;
end
$$;

comment on function skiplane.stop_waiting(text[]) is 'Ends wait_for_work on this session: it is busy and claims by itself.';

-- The exclusive probe is held for microseconds; two probes at once cost at most a needless notification.
create or replace function skiplane._is_waited_for(p_queue text) returns boolean
language sql volatile
as $$
    select case when pg_try_advisory_lock(1397442898, hashtext(p_queue))
        then not pg_advisory_unlock(1397442898, hashtext(p_queue)) else true end
$$;

comment on function skiplane._is_waited_for(text) is 'Whether an idle worker waits for a queue.';

-- NOTIFY takes a global lock at commit, so it is spent only on a worker that sleeps.
-- skiplane.notify = off is for transactions that will be prepared (2PC), which must not notify.
create or replace function skiplane._wake(p_queue text) returns boolean
language plpgsql volatile
as $$
begin
    if not skiplane._is_waited_for(p_queue) or current_setting('skiplane.notify', true) = 'off' then
        return false;
    end if;
    perform pg_notify(skiplane.queue_channel(p_queue), '');
    return true;
end
$$;

comment on function skiplane._wake(text) is 'Notifies a queue if a worker waits for it; tells whether it did.';

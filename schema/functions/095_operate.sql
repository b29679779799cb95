-- What callers and operators do to a task: cancel, edit, retry. Each looks where the task is, in the order in which
-- tasks move (timer, ready, lease, outcome; blocked after them), and looks again when it moved meanwhile.

create or replace function skiplane.cancel_task(p_task_id uuid, p_reason text default null, p_actor text default null)
returns jsonb language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off
as $$
declare
    v_shard smallint := skiplane.task_shard(p_task_id);
    v_reason text := coalesce(skiplane._clean_text(p_reason, 1000), 'cancelled');
    w skiplane.timer;
    r skiplane.ready;
    l skiplane.lease;
    t skiplane.task;
    v_status text;
begin
    for v_try in 1 .. 50 loop
        w := skiplane._take_timer(p_task_id, v_shard);
        if w.id is not null then
            if w.status = 'SCHEDULED' then
                w.day := skiplane._active_day(skiplane.clock());
                t := skiplane._timer_task(w, w.day);
                insert into skiplane.task select t.*;
            end if;
            perform skiplane._end_task(p_task_id, v_shard, w.day, 'CANCELLED', w.attempt, w.fence, null, null, 'Cancelled', v_reason);
            exit;
        end if;
        delete from skiplane.ready x where x.id = p_task_id and x.shard = v_shard returning * into r;
        if r.id is not null then
            perform skiplane._end_task(p_task_id, v_shard, r.day, 'CANCELLED', r.attempt, r.fence, null, null, 'Cancelled', v_reason);
            exit;
        end if;
        l := skiplane._find_lease(p_task_id, v_shard);
        if l.lease_id is not null then
            exit when skiplane._cancel_running(l, array[p_task_id], v_reason) > 0;
            continue;
        end if;
        t := skiplane._find_task(p_task_id);
        exit when skiplane._cancel_blocked(t, v_reason);
        if t.id is null then
            if (skiplane._find_timer(p_task_id, v_shard)).id is null then
                perform skiplane._refuse_unknown(p_task_id);
            end if;
            -- An edit has just put it back to wait.
            continue;
        end if;
        select o.status::text into v_status from skiplane.outcome o
        where o.id = p_task_id and o.shard = v_shard and o.day = t.day;
        if v_status is not null then
            perform skiplane._refuse('SK003', 'task_id', p_task_id::text, format('the task has ended already: %s', v_status),
                'nothing is left to cancel');
        end if;
    end loop;
    perform skiplane._release_dependents(array[p_task_id], v_shard);
    perform skiplane._log_action(p_task_id, p_actor, 'cancel', jsonb_build_object('reason', p_reason));
    return skiplane.get_task(p_task_id);
end
$$;

comment on function skiplane.cancel_task(uuid, text, text) is
'Cancels a task that has not ended. A running one loses its lease at once: its worker is told to stop, and whatever it reports later is refused. SK003 when it has ended, SK002 when unknown.';

create or replace function skiplane.retry_task(p_task_id uuid, p_reason text default null, p_actor text default null)
returns jsonb language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off
as $$
declare
    v_shard smallint := skiplane.task_shard(p_task_id);
    t skiplane.task := skiplane._find_task(p_task_id);
    o skiplane.outcome;
    v_copy jsonb;
    v_fence integer;
    v_now timestamptz;
begin
    perform pg_current_xact_id();
    v_now := skiplane.clock();
    if t.workflow_id is not null and skiplane._retry_member(t, p_reason, p_actor) then
        return skiplane.get_task(p_task_id);
    end if;
    delete from skiplane.dead d where d.id = p_task_id and d.shard = v_shard returning d.task, d.fence into v_copy, v_fence;
    if t.id is null and v_copy is not null then
        -- Retention has dropped its history; the dead letter kept the task.
        t := jsonb_populate_record(null::skiplane.task, v_copy - 'payload' || jsonb_build_object('payload', (v_copy ->> 'payload')::jsonb));
        t.day := skiplane._active_day(v_now);
        insert into skiplane.task select t.*;
        o.status := 'DEAD';
        o.fence := v_fence;
    elsif t.id is null then
        if skiplane._task_document(p_task_id) is null then
            perform skiplane._refuse_unknown(p_task_id);
        end if;
    else
        delete from skiplane.outcome x
        where x.id = p_task_id and x.shard = v_shard and x.day = t.day and x.status in ('FAILED', 'DEAD', 'CANCELLED')
        returning * into o;
    end if;
    if o.status is null then
        perform skiplane._refuse('SK003', 'task_id', p_task_id::text,
            format('the task cannot be retried: it is %s', coalesce(skiplane._task_document(p_task_id) ->> 'status', 'unknown')),
            'only a FAILED, DEAD or CANCELLED task can be retried');
    end if;
    if t.expires_at <= v_now then
        t.expires_at := null;
        update skiplane.task x set expires_at = null where x.id = p_task_id and x.shard = v_shard and x.day = t.day;
    end if;
    perform skiplane._put_ready(t, v_now, 0::smallint, o.fence);
    perform skiplane._log_action(p_task_id, p_actor, 'retry', jsonb_build_object('reason', p_reason, 'from', o.status,
        'error_type', o.error_type, 'error_message', o.error_message, 'finished_at', skiplane._utc_text(o.finished_at)));
    return skiplane.get_task(p_task_id);
end
$$;

comment on function skiplane.retry_task(uuid, text, text) is
'Runs a FAILED, DEAD or CANCELLED task again with a fresh budget of retries; its history stays. A passed expires_at is lifted. A task of a workflow brings back what was failed or skipped because of it. SK003 in any other state, or when it was failed because of another task.';

create or replace function skiplane.edit_task(p_task_id uuid, p_version integer, p_changes jsonb, p_actor text default null)
returns jsonb language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off
as $$
declare
    v_shard smallint := skiplane.task_shard(p_task_id);
    v_now timestamptz;
    w skiplane.timer;
    r skiplane.ready;
    t skiplane.task;
    n skiplane.task;
    v_status text;
begin
    perform pg_current_xact_id();
    v_now := skiplane.clock();
    for v_try in 1 .. 50 loop
        w := skiplane._take_timer(p_task_id, v_shard);
        if w.id is null then
            -- Locked: claims skip it until this transaction ends.
            delete from skiplane.ready x where x.id = p_task_id and x.shard = v_shard returning * into r;
        end if;
        exit when w.id is not null or r.id is not null;
        v_status := skiplane._task_document(p_task_id) ->> 'status';
        if v_status is null then
            perform skiplane._refuse_unknown(p_task_id);
        elsif v_status = 'BLOCKED' then
            perform skiplane._refuse('SK003', 'task_id', p_task_id::text, 'the task waits for others of its workflow: it is BLOCKED',
                'edit it once they have ended, or cancel it');
        elsif v_status not in ('SCHEDULED', 'PENDING', 'RETRYING') then
            perform skiplane._refuse('SK003', 'task_id', p_task_id::text, format('the task has started or ended: it is %s', v_status),
                'only a task that waits can be edited');
        end if;
    end loop;
    if w.status = 'SCHEDULED' then
        t := skiplane._timer_task(w, skiplane._active_day(v_now));
    else
        t := skiplane._find_task(p_task_id);
    end if;
    if p_version is distinct from t.version then
        perform skiplane._refuse('SK005', 'version', p_version::text, format('the task has version %s by now', t.version),
            'read the task again and repeat the edit');
    end if;
    n := skiplane._edited(t, p_changes, v_now);
    perform skiplane._replace_task(n, w, r, p_changes, v_now);
    perform skiplane._log_action(p_task_id, p_actor, 'edit', jsonb_build_object('changes', p_changes, 'version', n.version));
    return skiplane.get_task(p_task_id);
end
$$;

comment on function skiplane.edit_task(uuid, integer, jsonb, text) is
'Changes a task that waits (SCHEDULED, PENDING, RETRYING): p_changes has fields as in submit_task (scheduled_at, delay_seconds, priority, payload, queue, max_retries, retry_*, timeout_seconds, estimated_duration_seconds, concurrency_key, expires_at, callback_url). p_version is the version that the caller saw; SK005 when it is another by now, SK003 when the task has started.';

-- Why has this task not started? Looked up where the task is, without a lock, in words and as data.

create or replace function skiplane._reason(p_code text, p_message text, p_starts_when text, p_data jsonb default '{}')
returns jsonb language sql immutable
as $$
    select jsonb_build_object('code', p_code, 'message', p_message, 'starts_when', p_starts_when) || jsonb_strip_nulls(p_data)
$$;

comment on function skiplane._reason(text, text, text, jsonb) is 'One reason why a task waits.';

create or replace function skiplane._gate_reason(p_gate skiplane.gate, p_task skiplane.task, p_now timestamptz) returns jsonb
language plpgsql volatile
as $$
declare
    r record := skiplane._gate_room(p_gate, p_now, skiplane._home_shard());
    v_kind text := split_part(p_gate.name, '|', 1);
    v_what text;
begin
    if r.room > 0 then
        return null;
    elsif p_gate.rate is not null then
        v_what := case when p_gate.name = 'rate|' || p_task.task_type then '' else format(' for tenant %s', p_task.tenant_id) end;
        return skiplane._reason('rate_limit', format('task type %s may start %s%s, and that is used up', p_task.task_type,
                skiplane._rate_text(p_gate.rate), v_what),
            format('the next start is allowed, in %s s, and none comes before it', round(r.wait::numeric, 3)),
            jsonb_build_object('rate_limit', skiplane._rate_text(p_gate.rate), 'burst', p_gate.burst,
                'next_start_at', skiplane._utc_text(p_now + make_interval(secs => r.wait)),
                'tenant_id', case when v_what <> '' then p_task.tenant_id end));
    elsif v_kind = 'probe' then
        return skiplane._reason('breaker_half_open', format('the circuit breaker of task type %s lets probes pass only', p_task.task_type),
            'the probes that run succeed', jsonb_build_object('probes', p_gate.places));
    end if;
    v_what := case v_kind when 'queue' then 'queue ' || p_task.queue when 'type' then 'task type ' || p_task.task_type
        when 'tenant' then 'tenant ' || p_task.tenant_id
        else format('concurrency key %s of tenant %s', p_task.concurrency_key, p_task.tenant_id) end;
    return skiplane._reason(case v_kind when 'key' then 'key_concurrency' when 'type' then 'task_type_concurrency'
            else v_kind || '_concurrency' end,
        format('%s tasks of %s run, and %s may', r.held, v_what, p_gate.places),
        case when p_gate.places = 0 then 'the limit is raised' else 'one of them ends' end,
        jsonb_build_object('running', r.held, 'limit', p_gate.places));
end
$$;

comment on function skiplane._gate_reason(skiplane.gate, skiplane.task, timestamptz) is 'Why a limit holds a task back; NULL when it does not.';

create or replace function skiplane._closed_reason(p_code text, p_task skiplane.task) returns jsonb
language plpgsql volatile
as $$
declare
    b skiplane.breaker;
    c record;
begin
    if p_code = 'breaker_open' then
        select * into b from skiplane.breaker x where x.task_type = p_task.task_type;
        return skiplane._reason(p_code, format('the circuit breaker of task type %s is open: %s', p_task.task_type, b.reason),
            case when b.manual then 'somebody closes it' else format('probes start at %s and succeed', skiplane._utc_text(b.until)) end,
            jsonb_build_object('since', skiplane._utc_text(b.since), 'until', skiplane._utc_text(b.until), 'reason', b.reason,
                'by', b.changed_by));
    end if;
    select x.what, x.at, x.actor into c from (
        select 'queue ' || q.queue as what, q.changed_at as at, q.changed_by as actor from skiplane.queue_setting q
        where p_code = 'queue_paused' and q.queue = p_task.queue
        union all
        select 'task type ' || t.task_type, t.changed_at, t.changed_by from skiplane.task_type_setting t
        where p_code = 'task_type_paused' and t.task_type = p_task.task_type
        union all
        select 'tenant ' || n.tenant_id, n.changed_at, n.changed_by from skiplane.tenant_setting n
        where p_code = 'tenant_paused' and n.tenant_id = p_task.tenant_id
    ) x;
    return skiplane._reason(p_code, format('%s is paused by %s since %s', c.what, c.actor, skiplane._utc_text(c.at)), 'it is resumed',
        jsonb_build_object('since', skiplane._utc_text(c.at), 'by', c.actor));
end
$$;

comment on function skiplane._closed_reason(text, skiplane.task) is 'Why nothing like a task may start.';

create or replace function skiplane._worker_reason(p_task skiplane.task, p_now timestamptz) returns jsonb
language plpgsql volatile
as $$
declare w record;
begin
    select count(*) filter (where x.live and not x.draining and x.knows) as good, count(*) filter (where x.live and x.draining and x.knows)
        as draining, count(*) filter (where x.live) as live, count(*) as known
    into w
    from (
        select y.draining, y.heartbeat_at > p_now - make_interval(secs => 2 * y.lease_seconds) as live,
            y.task_types is null or p_task.task_type = any (y.task_types) as knows
        from skiplane.worker y where p_task.queue = any (y.queues)) x;
    if w.good > 0 then
        return null;
    elsif w.draining > 0 then
        return skiplane._reason('workers_draining', format('all workers that take it are stopping (%s)', w.draining), 'a new worker starts');
    elsif w.live > 0 then
        return skiplane._reason('task_type_unknown',
            format('%s workers serve queue %s, and none takes task type %s', w.live, p_task.queue, p_task.task_type),
            'a worker whose application has the type starts');
    end if;
    return skiplane._reason('no_worker', format('no worker serves queue %s', p_task.queue)
            || case when w.known > 0 then format(' (%s are known, and none of them is alive)', w.known) else '' end,
        format('a worker with --queues %s starts', p_task.queue));
end
$$;

comment on function skiplane._worker_reason(skiplane.task, timestamptz) is 'Why no worker will take a task; NULL when one may.';

create or replace function skiplane._pending_reasons(
    p_task skiplane.task, p_ready skiplane.ready, p_now timestamptz, p_bound boolean
) returns jsonb
language plpgsql volatile
    set jit = off set enable_seqscan = off
as $$
declare
    v_reasons jsonb := '[]';
    v_ahead bigint;
    v_tenants bigint;
    g record;
    x skiplane.gate;
begin
    select * into g from skiplane._lane_gates(p_task.queue, p_task.task_type, p_task.tenant_id, coalesce(p_task.concurrency_key, ''));
    if g.closed is not null then
        v_reasons := v_reasons || skiplane._closed_reason(g.closed, p_task);
    end if;
    foreach x in array g.gates loop
        v_reasons := v_reasons || coalesce(skiplane._gate_reason(x, p_task, p_now), '[]');
    end loop;
    v_reasons := v_reasons || coalesce(skiplane._worker_reason(p_task, p_now), '[]');
    if v_reasons = '[]' then
        select count(*) into v_ahead from (
            select from skiplane.ready r
            where r.lane = p_ready.lane and r.shard = p_ready.shard
                and (r.due_at, r.estimate, r.id) < (p_ready.due_at, p_ready.estimate, p_ready.id) limit 10001) y;
        -- How many others there are is not for a caller that is bound to its own tenant.
        select count(distinct y.tenant_id) into v_tenants from (
            select l.tenant_id from skiplane.lane l
            where not p_bound and l.shard = p_ready.shard and l.queue = p_task.queue and l.priority = p_task.priority limit 1001) y;
        v_reasons := v_reasons || skiplane._reason('waiting_for_turn',
            format('it may start; %s tasks like it come before it%s', case when v_ahead > 10000 then 'over 10000' else v_ahead::text end,
                case when v_tenants > 1 then format(', and %s tenants take turns',
                    case when v_tenants > 1000 then 'over 1000' else v_tenants::text end) else '' end),
            'a worker has room and it is its turn',
            jsonb_build_object('ahead', v_ahead, 'tenants', case when not p_bound then v_tenants end));
    end if;
    return v_reasons;
end
$$;

comment on function skiplane._pending_reasons(skiplane.task, skiplane.ready, timestamptz, boolean) is
'Why a PENDING task has not started. p_bound: nothing is told of other tenants.';

create or replace function skiplane._explain_waiting(p_task_id uuid, p_bound boolean) returns jsonb
language plpgsql volatile
    set jit = off set enable_seqscan = off
as $$
declare
    v_now timestamptz := skiplane.clock();
    v_document jsonb := skiplane._task_document(p_task_id);
    v_status text := v_document ->> 'status';
    v_due timestamptz := (v_document ->> case v_document ->> 'status' when 'RETRYING' then 'next_attempt_at' else 'scheduled_at' end);
    v_reasons jsonb;
    r skiplane.ready;
begin
    if v_document is null then
        perform skiplane._refuse_unknown(p_task_id);
    end if;
    if v_status = 'PENDING' then
        select * into r from skiplane.ready x where x.id = p_task_id and x.shard = skiplane.task_shard(p_task_id);
    end if;
    v_reasons := case
        when v_status = 'PENDING' and r.id is not null then skiplane._pending_reasons(skiplane._find_task(p_task_id), r, v_now, p_bound)
        when v_status in ('SCHEDULED', 'RETRYING') and v_due < v_now - interval '2 seconds' then jsonb_build_array(skiplane._reason(
            'scheduler_late', format('it was due at %s, and no scheduler has made it ready', skiplane._utc_text(v_due)),
            'a scheduler runs (skiplane doctor tells)', jsonb_build_object('due_at', skiplane._utc_text(v_due))))
        when v_status = 'SCHEDULED' then jsonb_build_array(skiplane._reason(
            'not_due', format('it is to run at %s', skiplane._utc_text(v_due)), 'that time has come',
            jsonb_build_object('due_at', skiplane._utc_text(v_due))))
        when v_status = 'RETRYING' then jsonb_build_array(skiplane._reason(
            'retry_delay', format('attempt %s failed, and the next one is due at %s', v_document ->> 'attempt', skiplane._utc_text(v_due)),
            'that time has come', jsonb_build_object('due_at', skiplane._utc_text(v_due), 'attempt', v_document -> 'attempt')))
        when v_status = 'BLOCKED' then jsonb_build_array(skiplane._reason(
            'dependencies', 'tasks of its workflow that it depends on have not ended', 'they have',
            jsonb_build_object('workflow_id', v_document -> 'workflow_id')))
        when v_status in ('RUNNING', 'PENDING') then jsonb_build_array(skiplane._reason(
            'running', 'it has started: a worker holds it', 'it has',
            jsonb_build_object('worker_id', v_document -> 'worker_id', 'started_at', v_document -> 'started_at')))
        else jsonb_build_array(skiplane._reason('ended', format('it has ended: %s', v_status),
            case when v_status = 'SUCCEEDED' then 'it has' else 'somebody retries it' end)) end;
    return jsonb_build_object('task_id', p_task_id, 'status', v_status, 'waiting', v_status not in (
            'RUNNING', 'SUCCEEDED', 'FAILED', 'CANCELLED', 'DEAD'),
        'summary', (
            select string_agg(upper(left(e.value ->> 'message', 1)) || substr(e.value ->> 'message', 2) || '.'
                || case when e.value ->> 'code' in ('running', 'ended') then '' else ' It starts when '
                    || (e.value ->> 'starts_when') || '.' end,
                ' ' order by e.ordinality)
            from jsonb_array_elements(v_reasons) with ordinality e),
        'reasons', v_reasons, 'expires_at', v_document -> 'expires_at');
end
$$;

comment on function skiplane._explain_waiting(uuid, boolean) is 'explain_waiting; p_bound: nothing is told of other tenants.';

create or replace function skiplane.explain_waiting(p_task_id uuid) returns jsonb
language sql volatile security definer set search_path = pg_catalog, pg_temp
as $$ select skiplane._explain_waiting(p_task_id, false) $$;

comment on function skiplane.explain_waiting(uuid) is
'Why a task has not started, and what would start it: summary in words; reasons as data, each with code, message, starts_when and its numbers. Codes: not_due, retry_delay, scheduler_late, dependencies, queue_paused, task_type_paused, tenant_paused, breaker_open, breaker_half_open, rate_limit, queue_concurrency, task_type_concurrency, tenant_concurrency, key_concurrency, no_worker, task_type_unknown, workers_draining, waiting_for_turn; running and ended for one that waits no more. SK002 when unknown.';

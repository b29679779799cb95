-- Firing. One transaction of the scheduler takes due schedules (take_due_schedules), computes what becomes of each, and
-- moves them on while it makes their tasks (fire_schedules), so that a fire and its task are one.
-- Locks: schedule rows in order of next_fire_time, skipping what is locked; then what _activate and cancel_task lock.

create or replace function skiplane.take_due_schedules(
    p_limit integer default 200, p_after timestamptz default null, p_shard smallint default 0,
    out taken_at timestamptz, out due json, out next_due_seconds double precision, out after timestamptz
) language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off
    set enable_sort = off set plan_cache_mode = force_generic_plan
as $$
declare
    v_rows skiplane.schedule[];
    v_unread skiplane.schedule[];
    v_next timestamptz;
begin
    taken_at := skiplane.clock();
    v_rows := array(
        select s from skiplane.schedule s
        where s.shard = p_shard and s.next_fire_time >= coalesce(p_after, '-infinity') and s.next_fire_time <= taken_at
        order by s.next_fire_time limit p_limit for update skip locked);
    v_unread := array(
        select s from skiplane.schedule s
        where s.shard = p_shard and s.next_fire_time is null and s.status = 'ACTIVE'
        order by s.id limit p_limit for update skip locked);
    select json_agg(json_build_array(r.id, r.expression, r.zone, skiplane._utc_text(r.next_fire_time),
        skiplane._utc_text(greatest(r.since, r.last_fire_time)), skiplane._utc_text(r.start_at), skiplane._utc_text(r.end_at),
        r.missed_policy, r.missed_limit))
    into due from unnest(v_rows || v_unread) r;
    -- As in promote_tasks: what commits late with a time that has passed lies above the settled time.
    after := nullif(greatest(p_after, least(skiplane._settled_at(p_shard), taken_at - interval '1 second',
        case when cardinality(v_rows) >= p_limit then v_rows[p_limit].next_fire_time end)), '-infinity');
    select s.next_fire_time into v_next from skiplane.schedule s
    where s.shard = p_shard and s.next_fire_time > taken_at order by s.next_fire_time limit 1;
    next_due_seconds := case when cardinality(v_rows) >= p_limit then 0
        when v_next is not null then greatest(0, extract(epoch from v_next - skiplane.clock())) end;
end
$$;

comment on function skiplane.take_due_schedules(integer, timestamptz, smallint) is
'Locks schedules that are due and those whose expression was not read yet, for fire_schedules in the same transaction. Answers the time, the schedules (id, expression, zone, next_fire_time, since, start_at, end_at, missed_policy, missed_limit), in how many seconds the next is due, and the time to pass as p_after with the next call.';

create or replace function skiplane._has_ended(p_task_id uuid) returns boolean
language plpgsql stable
    set jit = off set enable_seqscan = off set plan_cache_mode = force_generic_plan
as $$
declare
    v_shard smallint := skiplane.task_shard(p_task_id);
    v_day date := skiplane._id_day(p_task_id);
begin
    if p_task_id is null or exists (
        select from skiplane.outcome o where o.id = p_task_id and o.shard = v_shard and o.day = v_day)
    then
        return true;
    end if;
    -- It became active on a later day, is on its way, or was dropped with its history.
    v_day := (skiplane._find_task(p_task_id)).day;
    if v_day is null then
        return (skiplane._find_timer(p_task_id, v_shard)).id is null;
    end if;
    return exists (select from skiplane.outcome o where o.id = p_task_id and o.shard = v_shard and o.day = v_day);
end
$$;

comment on function skiplane._has_ended(uuid) is 'Whether a task has ended, or is not known any more.';

-- False when its worker, or somebody else, holds it just now: to be tried again.
create or replace function skiplane._cancel_if_active(p_task_id uuid, p_reason text) returns boolean
language plpgsql volatile
as $$
begin
    perform skiplane.cancel_task(p_task_id, p_reason, 'cron');
    return true;
exception
    when sqlstate 'SK002' or sqlstate 'SK003' then return true;
    when lock_not_available or deadlock_detected then return false;
end
$$;

comment on function skiplane._cancel_if_active(uuid, text) is 'Cancels a task unless it has ended.';

create or replace function skiplane._fire_day(p_now timestamptz) returns date
language plpgsql volatile
as $$
declare v_day date := skiplane._active_day(p_now);
begin
    if not skiplane._is_prepared('fire', v_day) then
        lock table only skiplane.fire in share update exclusive mode;
        if not skiplane._is_prepared('fire', v_day) then
            perform skiplane._make_partition('fire', v_day);
        end if;
    end if;
    return v_day;
end
$$;

comment on function skiplane._fire_day(timestamptz) is 'The UTC day, with the partition of the history made where maintenance has not.';

create or replace function skiplane._schedule_task(
    s skiplane.schedule, p_task_id uuid, p_fire timestamptz, p_due timestamptz, p_now timestamptz
) returns skiplane.timer language plpgsql immutable
as $$
begin
    return row(p_task_id, s.shard, p_due, 'SCHEDULED', null, 0, 0, s.task_type, s.queue, s.priority, s.tenant_id,
        s.concurrency_key, s.estimate, s.payload, s.max_retries, s.retry_backoff, s.retry_delay_s, s.retry_max_delay_s,
        s.retry_jitter, s.timeout_s, null, null, s.callback_url,
        coalesce(s.metadata, '{}') || jsonb_build_object('cron_id', s.id, 'cron_name', s.name, 'fire_time', skiplane._utc_text(p_fire)),
        null, 1, p_fire, p_now)::skiplane.timer;
end
$$;

comment on function skiplane._schedule_task(skiplane.schedule, uuid, timestamptz, timestamptz, timestamptz) is
'The task of one fire, as a waiting row.';

create or replace function skiplane._fire_outcome(s skiplane.schedule, p_catch_up boolean) returns text
language plpgsql volatile
as $$
begin
    if s.queued = 0 and skiplane._has_ended(s.last_task_id) then
        return 'fired';
    elsif p_catch_up or s.overlap_policy = 'queue' or (s.overlap_policy = 'cancel_running' and s.queued > 0) then
        return case when s.queued < 1000 then 'queued' else 'skipped' end;
    elsif s.overlap_policy = 'skip' then
        return 'skipped';
    end if;
    return case when skiplane._cancel_if_active(s.last_task_id, 'the next fire of its schedule took its place') then 'replaced' end;
end
$$;

comment on function skiplane._fire_outcome(skiplane.schedule, boolean) is
'What a fire does, by the policy and by whether the task before it has ended; NULL when that cannot be cancelled just now.';

create or replace function skiplane.fire_schedules(p_moves jsonb, p_shard smallint default 0) returns integer
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
    set plan_cache_mode = force_generic_plan
as $$
declare
    v_now timestamptz;
    v_moves skiplane.fire_move[];
    v_ids uuid[];
    v_rows skiplane.timer[];
    v_done integer;
begin
    -- The id of the transaction comes before the clock: see refresh_lanes.
    perform pg_current_xact_id();
    v_now := skiplane.clock();
    -- Compare and set: what is not where the caller saw it was moved by somebody else, and is left alone.
    v_moves := array(
        select row(m.id, m.was, m.fire, m.next, m.catch_up, m.missed, m.error, o.outcome)::skiplane.fire_move
        from jsonb_to_recordset(p_moves) as m (
            id uuid, was timestamptz, fire timestamptz, next timestamptz, catch_up boolean, missed boolean, error text)
        join skiplane.schedule s on s.id = m.id and s.shard = p_shard and s.status = 'ACTIVE'
            and s.next_fire_time is not distinct from m.was
        cross join lateral (
            select case when m.fire is not null then skiplane._fire_outcome(s, m.catch_up) end as outcome) o
        where m.fire is null or o.outcome is not null);
    v_ids := skiplane._new_ids(p_shard, cardinality(v_moves), v_now);
    v_rows := array(
        select skiplane._schedule_task(s, v_ids[m.n], m.fire,
            case when m.outcome = 'queued' then 'infinity' else m.fire + make_interval(secs => random() * s.jitter_s) end, v_now)
        from unnest(v_moves) with ordinality as m (id, was, fire, next, catch_up, missed, error, outcome, n)
        join skiplane.schedule s on s.id = m.id and s.shard = p_shard
        where m.outcome in ('fired', 'queued', 'replaced'));
    perform skiplane._start_fires(v_rows, v_now, p_shard);
    perform skiplane._note_fires(v_moves, v_ids, v_now, p_shard);
    update skiplane.schedule s set
        next_fire_time = m.next,
        last_fire_time = coalesce(m.fire, s.last_fire_time),
        last_fired_at = case when m.fire is not null then v_now else s.last_fired_at end,
        last_task_id = case when m.outcome in ('fired', 'replaced') then v_ids[m.n] else s.last_task_id end,
        queued = s.queued + case when m.outcome = 'queued' then 1 else 0 end,
        check_at = case when m.outcome = 'queued' then coalesce(s.check_at, v_now) else s.check_at end,
        status = case when m.error is not null then 'INVALID' when m.next is null then 'ENDED' else s.status end,
        reason = case when m.error is not null then m.error when m.next is null then 'no fire before end_at is left' else s.reason end
    from unnest(v_moves) with ordinality as m (id, was, fire, next, catch_up, missed, error, outcome, n)
    where s.id = m.id and s.shard = p_shard;
    get diagnostics v_done = row_count;
    return v_done;
end
$$;

comment on function skiplane.fire_schedules(jsonb, smallint) is
'Moves schedules on that take_due_schedules took, one step each, and makes their tasks. p_moves is an array of {id, was, fire, next, catch_up, missed, error}: was must be the current next_fire_time; fire NULL makes no task; next NULL ends the schedule, or with error makes it INVALID. Answers how many were moved.';

create or replace function skiplane._start_fires(p_rows skiplane.timer[], p_now timestamptz, p_shard smallint) returns void
language plpgsql volatile
as $$
declare
    v_rows skiplane.timer[];
    r skiplane.timer;
begin
    v_rows := array(select x from unnest(p_rows) x where x.due_at <= p_now);
    if cardinality(v_rows) > 0 then
        perform skiplane._activate(v_rows, p_now, p_shard);
    end if;
    if cardinality(v_rows) < cardinality(p_rows) then
        for r in select * from unnest(p_rows) x where x.due_at > p_now loop
            if r.due_at = 'infinity' then
                insert into skiplane.schedule_queue (schedule_id, fire_time, shard, task_id)
                values ((r.metadata ->> 'cron_id')::uuid, r.scheduled_at, p_shard, r.id);
                -- A day that never comes, and that every client can read.
                r.due_at := timestamptz '9999-01-01 00:00:00+00';
            end if;
            perform skiplane._put_timer(r);
        end loop;
    end if;
end
$$;

comment on function skiplane._start_fires(skiplane.timer[], timestamptz, smallint) is
'Makes tasks PENDING, or lets them wait for their jitter or for the task before them.';

create or replace function skiplane._note_fires(p_moves skiplane.fire_move[], p_ids uuid[], p_now timestamptz, p_shard smallint)
returns void language plpgsql volatile
as $$
declare v_day date := skiplane._fire_day(p_now);
begin
    insert into skiplane.fire (schedule_id, fire_time, shard, day, fired_at, outcome, task_id, reason)
    select m.id, m.fire, p_shard, v_day, p_now, m.outcome, case when m.outcome <> 'skipped' then p_ids[m.n] end,
        case m.outcome when 'skipped' then 'the task before it has not ended' end
    from unnest(p_moves) with ordinality as m (id, was, fire, next, catch_up, missed, error, outcome, n)
    where m.fire is not null;
    insert into skiplane.fire (schedule_id, fire_time, shard, day, fired_at, outcome, reason)
    select m.id, m.was, p_shard, v_day, p_now, 'missed',
        'from here to before ' || skiplane._utc_text(coalesce(m.fire, m.next, p_now))
    from unnest(p_moves) m where m.missed;
end
$$;

comment on function skiplane._note_fires(skiplane.fire_move[], uuid[], timestamptz, smallint) is 'Writes the history of fires.';

create or replace function skiplane.release_queued_fires(p_limit integer default 100, p_shard smallint default 0) returns integer
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off
    set enable_sort = off set plan_cache_mode = force_generic_plan
as $$
declare
    v_now timestamptz;
    s skiplane.schedule;
    v_count integer := 0;
begin
    perform pg_current_xact_id();
    v_now := skiplane.clock();
    for s in
        select * from skiplane.schedule x
        where x.shard = p_shard and x.check_at <= v_now order by x.check_at limit p_limit for update skip locked
    loop
        if skiplane._has_ended(s.last_task_id) then
            s := skiplane._release_next(s, v_now);
            v_count := v_count + 1;
        end if;
        update skiplane.schedule x set queued = s.queued, last_task_id = s.last_task_id,
            check_at = case when s.queued > 0 then v_now + interval '0.2 seconds' end
        where x.id = s.id and x.shard = p_shard;
    end loop;
    return v_count;
end
$$;

comment on function skiplane.release_queued_fires(integer, smallint) is
'Lets tasks run that waited until the one before them had ended; answers for how many schedules.';

create or replace function skiplane._release_next(p_schedule skiplane.schedule, p_now timestamptz) returns skiplane.schedule
language plpgsql volatile
    set jit = off set enable_seqscan = off
as $$
declare
    s skiplane.schedule := p_schedule;
    v_time timestamptz;
    v_id uuid;
    w skiplane.timer;
begin
    loop
        select q.fire_time, q.task_id into v_time, v_id from skiplane.schedule_queue q
        where q.schedule_id = s.id and q.shard = s.shard order by q.fire_time limit 1;
        if v_id is null then
            s.queued := 0;
            return s;
        end if;
        delete from skiplane.schedule_queue q where q.schedule_id = s.id and q.fire_time = v_time and q.shard = s.shard;
        s.queued := greatest(0, s.queued - 1);
        w := skiplane._take_timer(v_id, s.shard);
        if w.id is not null then
            perform skiplane._activate(array[w], p_now, s.shard);
        -- Cancelled meanwhile, or started by an edit.
        elsif skiplane._has_ended(v_id) then
            continue;
        end if;
        s.last_task_id := v_id;
        return s;
    end loop;
end
$$;

comment on function skiplane._release_next(skiplane.schedule, timestamptz) is 'Starts the first queued task that still waits.';

-- Workers: their register, their signs of life, what they save while running.
-- Locks: lease rows in the order of their numbers, then what ends of tasks lock (see 320).

create or replace function skiplane.register_worker(
    p_worker_id uuid, p_name text, p_queues text[], p_task_types text[] default null, p_concurrency integer default 1,
    p_host text default null, p_pid integer default null, p_lease_seconds double precision default 10,
    p_supervisor_id uuid default null
) returns void language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare v_queue text;
begin
    perform skiplane._check_name('name', p_name);
    if coalesce(cardinality(p_queues), 0) = 0 then
        perform skiplane._refuse('SK001', 'queues', null, 'a worker without queues', 'name at least one queue');
    end if;
    foreach v_queue in array p_queues loop
        perform skiplane._check_name('queues', v_queue);
    end loop;
    perform skiplane._check_number('concurrency', p_concurrency, 1, 100000);
    perform skiplane._check_number('lease_seconds', p_lease_seconds, 0.1, 86400);
    insert into skiplane.worker (worker_id, name, queues, task_types, concurrency, host, pid, supervisor_id,
        lease_seconds, started_at, heartbeat_at)
    values (p_worker_id, p_name, p_queues, p_task_types, p_concurrency, p_host, p_pid, p_supervisor_id,
        p_lease_seconds, skiplane.clock(), skiplane.clock())
    on conflict (worker_id) do update set heartbeat_at = excluded.heartbeat_at;
end
$$;

comment on function skiplane.register_worker(uuid, text, text[], text[], integer, text, integer, double precision, uuid) is
'Makes a worker known. Its id must be new with every process start.';

-- What the attempts before this one of a task's present budget say. There is one row for each that was counted.
create or replace function skiplane._losses(
    p_id uuid, p_shard smallint, p_day date, p_attempt smallint, out excused integer, out again boolean
) language plpgsql stable
    set jit = off set enable_seqscan = off set plan_cache_mode = force_generic_plan
as $$
begin
    excused := 0;
    again := false;
    if p_attempt > 1 then
        select count(*) filter (where x.excused), coalesce(bool_or(x.outcome = 'lost') filter (where x.n = 1), false) into excused, again
        from (
            select a.excused, a.outcome, row_number() over (order by a.fence desc) as n from skiplane.attempt a
            where a.id = p_id and a.shard = p_shard and a.day = p_day order by a.fence desc limit p_attempt - 1
        ) x;
    end if;
end
$$;

comment on function skiplane._losses(uuid, smallint, date, smallint) is
'How many of the attempts before this one were lost and excused, and whether the last one was lost.';

-- Lost with its process, or lost twice in a row however that came.
create or replace function skiplane._is_suspect(p_id uuid, p_shard smallint, p_day date) returns boolean
language sql stable
as $$
    select coalesce(bool_and(x.outcome = 'lost') and (count(*) = 2 or not bool_or(x.excused)), false)
    from (
        select a.outcome, a.excused from skiplane.attempt a
        where a.id = p_id and a.shard = p_shard and a.day = p_day order by a.fence desc limit 2
    ) x
$$;

comment on function skiplane._is_suspect(uuid, smallint, date) is 'Whether a task may be what killed the process that ran it last.';

-- Gives tasks of one lease back or on, all as the same failure, or those of p_running as it and the others uncharged.
-- The lease row must be locked by the caller.
create or replace function skiplane._end_lease(
    p_lease skiplane.lease, p_failure jsonb, p_running uuid[] default null, p_excused uuid[] default null
) returns void language plpgsql volatile
as $$
declare
    h record;
    r record;
begin
    delete from skiplane.lease x where x.lease_id = p_lease.lease_id and x.shard = p_lease.shard;
    if p_lease.hold_ids is not null then
        h := skiplane._places_of(p_lease.hold_ids, p_lease.hold_gates, p_lease.ids);
        perform skiplane._give_back(h.gates, h.places);
    end if;
    for r in
        select * from unnest(p_lease.ids, p_lease.days, p_lease.attempts, p_lease.fences, p_lease.started)
            as u (id, day, attempt, fence, started)
    loop
        perform skiplane._fail_task(r.id, p_lease.shard, r.day, r.attempt, r.fence, p_lease.worker_id,
            coalesce(r.started, p_lease.claimed_at),
            case when p_running is null or r.id = any (p_running)
                then p_failure || case when r.id = any (p_excused) then '{"excused": true}' else '{}' end::jsonb
                else '{"kind": "release"}' end);
    end loop;
end
$$;

comment on function skiplane._end_lease(skiplane.lease, jsonb, uuid[], uuid[]) is
'Ends a lease: each of its tasks goes the way of p_failure, but with p_running only those; the others go back uncharged. Those of p_excused are not to blame.';

create or replace function skiplane.heartbeat(
    p_worker_id uuid, p_lease_ids bigint[], p_held uuid[], p_running_us jsonb default null,
    p_lease_seconds double precision default 10, p_reconcile boolean default true, p_shard smallint default 0,
    out lost uuid[], out draining boolean, out extended integer
) language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set plan_cache_mode = force_generic_plan
as $$
declare
    v_now timestamptz := skiplane.clock();
    l skiplane.lease;
    v_known uuid[] := '{}';
    v_ended skiplane.lease[] := '{}';
    v_kill timestamptz;
begin
    extended := 0;
    update skiplane.worker w set heartbeat_at = v_now where w.worker_id = p_worker_id returning w.draining into draining;
    draining := coalesce(draining, false);
    for l in
        select * from skiplane.lease x where x.worker_id = p_worker_id and x.shard = p_shard order by x.lease_id for update
    loop
        if l.lease_id <> all (p_lease_ids) then
            -- Its answer never arrived, or is on its way: only an old one is known to be lost.
            if p_reconcile and l.claimed_at < v_now - interval '2 seconds' then
                perform skiplane._end_lease(l, '{"kind": "release"}');
                v_ended := v_ended || l;
            end if;
            continue;
        end if;
        v_known := v_known || l.ids;
        if p_running_us is not null then
            l.started := array(
                select coalesce(v_now - (p_running_us ->> u.id::text)::double precision * interval '1 microsecond', u.started)
                from unnest(l.ids, l.started) with ordinality as u (id, started, ord) order by u.ord);
        end if;
        if v_now - l.claimed_at > make_interval(secs => p_lease_seconds / 3) then
            -- From now on only what is reported as running has a deadline.
            v_kill := skiplane._earliest_kill(l);
            update skiplane.lease x
            set until = v_now + make_interval(secs => p_lease_seconds), started = l.started, kill_at = v_kill
            where x.lease_id = l.lease_id and x.shard = p_shard;
            extended := extended + 1;
        end if;
    end loop;
    lost := array(select h from unnest(p_held) h where h <> all (v_known));
    perform skiplane._release_after(v_ended, p_shard);
end
$$;

comment on function skiplane.heartbeat(uuid, bigint[], uuid[], jsonb, double precision, boolean, smallint) is
'Sign of life of a worker: extends its leases that have lasted a third of their length. lost = tasks of p_held that it does not hold any more (cancelled, or taken away): it must stop them. p_running_us: {task id: microseconds since its execution began}. With p_reconcile, leases that the caller does not know and that are over 2 s old go back (a claim whose answer was lost).';

-- Tasks without a reported start are not running yet: a worker may hold them ready.
create or replace function skiplane._earliest_kill(p_lease skiplane.lease) returns timestamptz
language sql stable
as $$
    select min(u.started + make_interval(secs => t.timeout_s + 10))
    from unnest(p_lease.ids, p_lease.started) as u (id, started)
    join skiplane.task t on t.id = u.id
    where u.started is not null and t.id = any (p_lease.ids) and t.shard = p_lease.shard
        and t.day = any (p_lease.days) and t.timeout_s is not null
$$;

comment on function skiplane._earliest_kill(skiplane.lease) is 'When the watchdog must look at a lease: the earliest time-out of what runs, plus 10 s of grace.';

create or replace function skiplane.extend_leases(
    p_worker_ids uuid[], p_lease_seconds double precision default 10, p_shard smallint default 0
) returns table (worker_id uuid, overdue boolean)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set plan_cache_mode = force_generic_plan
as $$
declare v_now timestamptz := skiplane.clock();
begin
    update skiplane.worker w set heartbeat_at = v_now
    where w.worker_id = any (p_worker_ids) and w.heartbeat_at < v_now - make_interval(secs => p_lease_seconds / 3);
    update skiplane.lease x set until = v_now + make_interval(secs => p_lease_seconds)
    from (
        select y.lease_id from skiplane.lease y
        where y.worker_id = any (p_worker_ids) and y.shard = p_shard
            and y.until < v_now + make_interval(secs => p_lease_seconds * 2 / 3)
        order by y.lease_id for update
    ) z
    where x.lease_id = z.lease_id and x.shard = p_shard;
    return query
    select w.id, exists (
        select from skiplane.lease y where y.worker_id = w.id and y.shard = p_shard and y.kill_at < v_now)
    from unnest(p_worker_ids) as w (id);
end
$$;

comment on function skiplane.extend_leases(uuid[], double precision, smallint) is
'For a supervisor: extends the leases of children that live but cannot speak (user code blocks them). overdue = one of its tasks is past its time-out and grace: kill that child.';

create or replace function skiplane.release_worker(
    p_worker_id uuid, p_reason text default 'worker lost', p_charge boolean default true, p_shard smallint default 0,
    p_running uuid[] default null, p_excused uuid[] default null
) returns integer language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set plan_cache_mode = force_generic_plan
as $$
declare
    l skiplane.lease;
    v_count integer := 0;
    v_ended skiplane.lease[] := '{}';
begin
    for l in
        select * from skiplane.lease x where x.worker_id = p_worker_id and x.shard = p_shard order by x.lease_id for update
    loop
        perform skiplane._end_lease(l, case when p_charge then jsonb_build_object('kind', 'lost', 'error_type', 'WorkerLost',
            'error_message', skiplane._clean_text(p_reason, 1000)) else '{"kind": "release"}' end, p_running, p_excused);
        v_count := v_count + cardinality(l.ids);
        v_ended := v_ended || l;
    end loop;
    perform skiplane._release_after(v_ended, p_shard);
    return v_count;
end
$$;

comment on function skiplane.release_worker(uuid, text, boolean, smallint, uuid[], uuid[]) is
'Ends all leases of a worker that died (p_charge: the attempt counts, DEAD when none is left) or that stops (not charged). p_running: the tasks that it had begun, where that is known; what it only held ready is then not charged. p_excused: those of them that ran in other processes of the worker, so that its death was hardly their doing: the attempt counts, but does not use up a retry, as often as the task has retries. Answers with the number of tasks.';

create or replace function skiplane.unregister_worker(p_worker_id uuid) returns void
language sql volatile security definer set search_path = pg_catalog, pg_temp
as $$ delete from skiplane.worker where worker_id = p_worker_id $$;

comment on function skiplane.unregister_worker(uuid) is 'Takes a worker that has stopped off the register.';

create or replace function skiplane.drain_worker(p_worker_id uuid, p_actor text default null) returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
begin
    update skiplane.worker w set draining = true, drained_by = coalesce(left(p_actor, 200), session_user)
    where w.worker_id = p_worker_id;
    if not found then
        return false;
    end if;
    perform pg_notify(skiplane.worker_channel(p_worker_id), 'drain');
    return true;
end
$$;

comment on function skiplane.drain_worker(uuid, text) is 'Asks a worker to finish what it has and take no more.';

-- What a running task saves: only its holder may.
create or replace function skiplane._check_lease(p_worker_id uuid, p_lease_id bigint, p_task_id uuid, p_shard smallint)
returns void language plpgsql volatile
    set jit = off set enable_seqscan = off set plan_cache_mode = force_generic_plan
as $$
begin
    perform from skiplane.lease x
    where x.lease_id = p_lease_id and x.shard = p_shard and x.worker_id = p_worker_id and p_task_id = any (x.ids)
    for key share;
    if not found then
        perform skiplane._refuse('SK006', 'lease_id', p_lease_id::text, 'this worker does not hold the task any more',
            'stop the work: the task was cancelled or given to another worker');
    end if;
end
$$;

comment on function skiplane._check_lease(uuid, bigint, uuid, smallint) is 'Refuses (SK006) who does not hold the task.';

create or replace function skiplane.checkpoint_task(
    p_worker_id uuid, p_lease_id bigint, p_task_id uuid, p_checkpoint jsonb, p_shard smallint default 0
) returns void language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off
as $$
begin
    perform skiplane._check_json('checkpoint', p_checkpoint::text, 65536);
    perform skiplane._check_lease(p_worker_id, p_lease_id, p_task_id, p_shard);
    insert into skiplane.checkpoint (id, shard, checkpoint, updated_at)
    values (p_task_id, p_shard, p_checkpoint, skiplane.clock())
    on conflict (id, shard) do update set checkpoint = excluded.checkpoint, updated_at = excluded.updated_at;
end
$$;

comment on function skiplane.checkpoint_task(uuid, bigint, uuid, jsonb, smallint) is
'Saves up to 64 KiB for the next attempt to start from. SK006 when the lease is lost.';

create or replace function skiplane.report_progress(
    p_worker_id uuid, p_lease_id bigint, p_task_id uuid, p_share double precision, p_message text default null,
    p_shard smallint default 0
) returns void language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off
as $$
begin
    perform skiplane._check_number('share', p_share, 0, 1);
    perform skiplane._check_lease(p_worker_id, p_lease_id, p_task_id, p_shard);
    insert into skiplane.checkpoint (id, shard, share, message, updated_at)
    values (p_task_id, p_shard, p_share, skiplane._clean_text(p_message, 1000), skiplane.clock())
    on conflict (id, shard) do update
    set share = excluded.share, message = excluded.message, updated_at = excluded.updated_at;
end
$$;

comment on function skiplane.report_progress(uuid, bigint, uuid, double precision, text, smallint) is
'Shows how far a task is: a share from 0 to 1 and a message. SK006 when the lease is lost.';

-- Finishing by batch.

-- Takes tasks out of a lease; the lease goes with its last one. Arrays of what was really in it come back.
create or replace function skiplane._leave_lease(
    p_worker_id uuid, p_lease_id bigint, p_ids uuid[], p_shard smallint, p_give_back boolean default true,
    out ids uuid[], out days date[], out attempts smallint[], out fences integer[], out started timestamptz[],
    out claimed_at timestamptz, out workflows boolean, out callbacks boolean, out hold_ids uuid[], out hold_gates text[]
) language plpgsql volatile
    set jit = off set enable_seqscan = off set plan_cache_mode = force_generic_plan
as $$
declare
    l skiplane.lease;
    h record;
begin
    select * into l from skiplane.lease x
    where x.lease_id = p_lease_id and x.shard = p_shard and x.worker_id = p_worker_id for update;
    if l.lease_id is null then
        return;
    end if;
    claimed_at := l.claimed_at;
    workflows := l.workflows;
    callbacks := l.callbacks;
    select array_agg(u.id), array_agg(u.day), array_agg(u.attempt), array_agg(u.fence), array_agg(u.started)
    into ids, days, attempts, fences, started
    from unnest(l.ids, l.days, l.attempts, l.fences, l.started) as u (id, day, attempt, fence, started)
    where u.id = any (p_ids);
    if ids is null then
        return;
    elsif l.hold_ids is not null then
        hold_ids := l.hold_ids;
        hold_gates := l.hold_gates;
        if p_give_back then
            h := skiplane._places_of(hold_ids, hold_gates, ids);
            perform skiplane._give_back(h.gates, h.places);
        end if;
    end if;
    if cardinality(ids) = cardinality(l.ids) then
        delete from skiplane.lease x where x.lease_id = p_lease_id and x.shard = p_shard;
    else
        select array_agg(u.id), array_agg(u.day), array_agg(u.attempt), array_agg(u.fence), array_agg(u.started)
        into l.ids, l.days, l.attempts, l.fences, l.started
        from unnest(l.ids, l.days, l.attempts, l.fences, l.started) as u (id, day, attempt, fence, started)
        where u.id <> all (p_ids);
        update skiplane.lease x
        set ids = l.ids, days = l.days, attempts = l.attempts, fences = l.fences, started = l.started
        where x.lease_id = p_lease_id and x.shard = p_shard;
    end if;
end
$$;

comment on function skiplane._leave_lease(uuid, bigint, uuid[], smallint, boolean) is
'Takes tasks out of a lease that the worker holds. Without p_give_back the caller gives their places back.';

-- Results as json, with those that cannot be stored left out: their places come back.
create or replace function skiplane._read_results(p_results text[], out results json[], out bad integer[])
language plpgsql immutable
as $$
declare v_text text;
begin
    bad := '{}';
    if skiplane._all_readable(p_results) then
        results := p_results::json[];
        return;
    end if;
    results := array_fill(null::json, array[cardinality(p_results)]);
    for i in 1 .. cardinality(p_results) loop
        v_text := p_results[i];
        if octet_length(v_text) > 1048576 or skiplane._unreadable_json(v_text) is not null then
            bad := bad || i;
        else
            results[i] := v_text::json;
        end if;
    end loop;
end
$$;

comment on function skiplane._read_results(text[]) is 'Results as json; places of those that cannot be stored in bad.';

create or replace function skiplane._finish(
    p_worker_id uuid, p_lease_id bigint, p_task_ids uuid[], p_results text[], p_started_us integer[],
    p_took_us integer[], p_failures text, p_shard smallint, out stale uuid[], out back_gates text[], out back_places integer[]
) language plpgsql volatile
    set jit = off set enable_seqscan = off set plan_cache_mode = force_generic_plan
as $$
declare
    v_now timestamptz := skiplane.clock();
    l record;
    r record;
    v_failures jsonb := skiplane._read_failures(p_failures);
    v_all uuid[] := coalesce(p_task_ids, '{}');
    v_whole boolean := false;
    v_stored boolean;
begin
    if cardinality(p_results) <> cardinality(v_all) or cardinality(p_started_us) <> cardinality(v_all)
        or cardinality(p_took_us) <> cardinality(v_all)
    then
        perform skiplane._refuse('SK001', 'results', cardinality(p_results)::text, 'the arrays differ in length',
            'give one result, start and duration for each task, or NULL for an array');
    end if;
    if v_failures is null and cardinality(v_all) > 0 then
        -- The common case: a whole lease of successes, in its own order.
        delete from skiplane.lease x
        where x.lease_id = p_lease_id and x.shard = p_shard and x.worker_id = p_worker_id and x.ids = v_all
        returning x.ids, x.days, x.attempts, x.fences, x.started, x.claimed_at, x.workflows, x.callbacks, x.hold_ids, x.hold_gates
        into l;
        v_whole := found;
    end if;
    if not v_whole then
        v_all := v_all || array(select (f ->> 'task_id')::uuid from jsonb_array_elements(v_failures) f);
        if (select count(distinct x) from unnest(v_all) x) <> cardinality(v_all) then
            perform skiplane._refuse('SK001', 'task_ids', v_all::text, 'a task is finished twice in one call',
                'name each task once, as a success or as a failure');
        end if;
        l := skiplane._leave_lease(p_worker_id, p_lease_id, v_all, p_shard, false);
    end if;
    if l.ids is null then
        stale := v_all;
        return;
    elsif l.hold_ids is not null then
        r := skiplane._places_of(l.hold_ids, l.hold_gates, l.ids);
        back_gates := r.gates;
        back_places := r.places;
    end if;
    if cardinality(p_task_ids) > 0 then
        if l.hold_ids is not null then
            perform skiplane._count_successes(l.hold_ids, l.hold_gates, l.ids, p_task_ids, l.claimed_at);
        end if;
        v_stored := skiplane._succeed_tasks(p_worker_id, l.ids, l.days, l.attempts, l.fences, l.claimed_at,
            p_task_ids, p_results, p_started_us, p_took_us, v_now, p_shard);
        perform skiplane._announce_successes(l.ids, l.days, p_shard, l.callbacks);
    end if;
    for r in
        select u.*, f.value as failure from jsonb_array_elements(v_failures) f
        join unnest(l.ids, l.days, l.attempts, l.fences) as u (id, day, attempt, fence) on u.id = (f.value ->> 'task_id')::uuid
        order by u.id
    loop
        perform skiplane._fail_task(r.id, p_shard, r.day, r.attempt, r.fence, p_worker_id,
            greatest(l.claimed_at, coalesce(
                v_now - make_interval(secs => skiplane._bounded_number(r.failure, 'started_us', 1e15) / 1000000), l.claimed_at)),
            r.failure);
    end loop;
    if l.workflows then
        perform skiplane._release_dependents(l.ids, p_shard, v_failures is null and v_stored);
    end if;
    stale := case when l.ids = v_all then '{}' else array(select x from unnest(v_all) x where x <> all (l.ids)) end;
end
$$;

comment on function skiplane._finish(uuid, bigint, uuid[], text[], integer[], integer[], text, smallint) is
'finish_tasks, but for the places of limits that go back: the caller gives them back, or takes of them at once.';

create or replace function skiplane.finish_tasks(
    p_worker_id uuid, p_lease_id bigint, p_task_ids uuid[], p_results text[], p_started_us integer[] default null,
    p_took_us integer[] default null, p_failures text default null, p_shard smallint default 0
) returns uuid[] language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare f record;
begin
    f := skiplane._finish(p_worker_id, p_lease_id, p_task_ids, p_results, p_started_us, p_took_us, p_failures, p_shard);
    if f.back_gates is not null then
        perform skiplane._give_back(f.back_gates, f.back_places);
    end if;
    return f.stale;
end
$$;

comment on function skiplane.finish_tasks(uuid, bigint, uuid[], text[], integer[], integer[], text, smallint) is
'Ends attempts of a lease. Successes by parallel arrays: ids, results (JSON text or NULL), microseconds since the start, microseconds it took. p_failures: JSON array of {task_id, kind, error_type, error_message, error_detail, retry_after_seconds, delay_seconds, started_us}; kind is error (retry by the task''s rules), timeout, lost, permanent (FAILED at once), release (back to PENDING, not charged) or postpone (again after delay_seconds, not charged). Answers with the ids that the lease does not hold any more: their work must be stopped and forgotten. May be called several times for one lease.';

create or replace function skiplane._read_failures(p_failures text) returns jsonb
language plpgsql immutable
as $$
declare v_failures jsonb;
begin
    if p_failures is null then
        return null;
    end if;
    begin
        v_failures := p_failures::jsonb;
    exception when data_exception or statement_too_complex then
        -- An error text that nothing can hold must not keep the failure from being recorded. Escaped backslashes
        -- step aside meanwhile (no JSON text holds a raw control character): what follows one is no escape.
        begin
            v_failures := replace(regexp_replace(replace(p_failures, E'\\\\', chr(1)), E'\\\\u0000'
                '|\\\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\\\u[dD][c-fC-F][0-9a-fA-F]{2})'
                '|(?<!\\\\u[dD][89abAB][0-9a-fA-F]{2})\\\\u[dD][c-fC-F][0-9a-fA-F]{2}', '?', 'g'), chr(1), E'\\\\')::jsonb;
        exception when data_exception or statement_too_complex then
            perform skiplane._refuse('SK001', 'failures', left(p_failures, 100), 'failures is not JSON', 'give a JSON array of objects');
        end;
    end;
    if jsonb_typeof(v_failures) <> 'array' or exists (
        select from jsonb_array_elements(v_failures) f
        where f ->> 'kind' is null or f ->> 'kind' not in ('error', 'timeout', 'lost', 'permanent', 'release', 'postpone')
            or coalesce(f ->> 'task_id', '') !~ '^[0-9a-fA-F-]{32,36}$')
    then
        perform skiplane._refuse('SK001', 'failures', left(p_failures, 100), 'a failure lacks its task_id or has an unknown kind',
            'kind is one of error, timeout, lost, permanent, release, postpone');
    end if;
    return nullif(v_failures, '[]');
end
$$;

comment on function skiplane._read_failures(text) is 'The failures of a finish, cleaned of what text cannot hold.';

create or replace function skiplane._succeed_tasks(
    p_worker_id uuid, p_ids uuid[], p_days date[], p_attempts smallint[], p_fences integer[], p_claimed_at timestamptz,
    p_task_ids uuid[], p_results text[], p_started_us integer[], p_took_us integer[], p_now timestamptz, p_shard smallint
) returns boolean language plpgsql volatile
    set jit = off set enable_seqscan = off
as $$
declare
    v_read record;
    v_results json[];
    v_bad integer[];
    r record;
begin
    v_read := skiplane._read_results(p_results);
    v_results := v_read.results;
    v_bad := v_read.bad;
    -- The start is told as an age by the worker's own monotonic clock: clocks of hosts never enter.
    if p_ids = p_task_ids and v_bad = '{}' then
        insert into skiplane.outcome (id, shard, day, status, attempt, fence, started_at, finished_at, worker_id, result)
        select u.id, p_shard, u.day, 'SUCCEEDED', u.attempt, u.fence,
            coalesce(greatest(p_now - u.ago * interval '1 microsecond', p_claimed_at), p_claimed_at),
            coalesce(least(greatest(p_now - u.ago * interval '1 microsecond', p_claimed_at)
                + u.took * interval '1 microsecond', p_now), p_now),
            p_worker_id, u.result
        from unnest(p_ids, p_days, p_attempts, p_fences, p_started_us, p_took_us, v_results)
            as u (id, day, attempt, fence, ago, took, result);
        return true;
    end if;
    insert into skiplane.outcome (id, shard, day, status, attempt, fence, started_at, finished_at, worker_id, result)
    select u.id, p_shard, h.day, 'SUCCEEDED', h.attempt, h.fence,
        coalesce(greatest(p_now - u.ago * interval '1 microsecond', p_claimed_at), p_claimed_at),
        coalesce(least(greatest(p_now - u.ago * interval '1 microsecond', p_claimed_at)
            + u.took * interval '1 microsecond', p_now), p_now),
        p_worker_id, u.result
    from unnest(p_task_ids, p_started_us, p_took_us, v_results) with ordinality as u (id, ago, took, result, ord)
    join unnest(p_ids, p_days, p_attempts, p_fences) as h (id, day, attempt, fence) on h.id = u.id
    where u.ord <> all (v_bad);
    for r in
        select h.*, u.ago from unnest(p_task_ids, p_started_us) with ordinality as u (id, ago, ord)
        join unnest(p_ids, p_days, p_attempts, p_fences) as h (id, day, attempt, fence) on h.id = u.id
        where u.ord = any (v_bad)
    loop
        perform skiplane._fail_task(r.id, p_shard, r.day, r.attempt, r.fence, p_worker_id,
            coalesce(greatest(p_now - r.ago * interval '1 microsecond', p_claimed_at), p_claimed_at),
            jsonb_build_object('kind', 'permanent', 'error_type', 'ResultNotStorable',
                'error_message', 'the task ran, but its result cannot be stored: '
                    'it must be JSON without NUL, at most 100 levels and 1 MiB'));
    end loop;
    return v_bad = '{}';
end
$$;

comment on function skiplane._succeed_tasks(
    uuid, uuid[], date[], smallint[], integer[], timestamptz, uuid[], text[], integer[], integer[], timestamptz, smallint
) is 'Stores the successes of a finish; a result that cannot be stored fails its task for good, with the reason: then the answer is false.';

create or replace function skiplane.finish_and_claim(
    p_worker_id uuid, p_lease_id bigint, p_task_ids uuid[], p_results text[], p_started_us integer[], p_took_us integer[],
    p_failures text, p_queues text[], p_limit integer, p_task_types text[] default null,
    p_lease_seconds double precision default 10, p_cursor jsonb default null, p_shard smallint default 0,
    out stale uuid[], out lease_id bigint, out tasks text, out cursor jsonb
) language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    f record;
    v_gates text[];
    v_places integer[];
begin
    stale := '{}';
    if p_lease_id is not null then
        f := skiplane._finish(p_worker_id, p_lease_id, p_task_ids, p_results, p_started_us, p_took_us, p_failures, p_shard);
        stale := f.stale;
        v_gates := f.back_gates;
        v_places := f.back_places;
    end if;
    select c.lease_id, c.tasks, c.cursor into lease_id, tasks, cursor
    from skiplane._claim(p_worker_id, p_queues, p_limit, p_task_types, p_lease_seconds, p_cursor, p_shard, v_gates, v_places) c;
end
$$;

comment on function skiplane.finish_and_claim(
    uuid, bigint, uuid[], text[], integer[], integer[], text, text[], integer, text[], double precision, jsonb, smallint
) is 'finish_tasks and claim_tasks in one transaction and one round trip; p_lease_id NULL = only claim.';

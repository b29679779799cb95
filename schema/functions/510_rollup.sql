-- Counting what ended: ten seconds at a time, a few seconds after they are over, each once. A result that its worker
-- reports later than that (it could not reach the database) is in the history and not in these counts.
-- Cost is bounded: above 20,000 ends in a window successes are counted exactly and looked at in a sample.

create or replace function skiplane._fingerprint(p_error_type text, p_message text) returns text
language sql immutable parallel safe
as $$
    select md5(coalesce(p_error_type, '') || ' ' || regexp_replace(regexp_replace(left(coalesce(p_message, ''), 500),
        '''[^'']*''|"[^"]*"', '?', 'g'), '[0-9a-fA-F]{8,}(-[0-9a-fA-F]{4,})*|[0-9]+', '#', 'g'))
$$;

comment on function skiplane._fingerprint(text, text) is
'Names the kind of an error: its class and its message without quoted text, numbers and ids.';

-- Element 1 is up to 1 ms; each following one reaches 1.41 times as far.
create or replace function skiplane._bucket(p_ms double precision) returns integer
language sql immutable parallel safe
as $$ select case when p_ms > 1 then least(48, ceil(2 * ln(p_ms) / ln(2::double precision))::integer + 1) else 1 end $$;

comment on function skiplane._bucket(double precision) is 'Place of a duration in a histogram of 48.';

create or replace function skiplane._window_cells(p_from timestamptz, p_to timestamptz, p_every integer, p_shard smallint)
returns skiplane.rollup_cell[] language plpgsql stable
    set jit = off set enable_seqscan = off
as $$
begin
    return array(
        select row(x.task_type, x.queue, x.tenant_id, x.status, sum(x.weight), skiplane._bucket(x.wait_ms), skiplane._bucket(x.run_ms),
            count(x.run_ms), sum(x.wait_ms), sum(x.run_ms))::skiplane.rollup_cell
        from (
            select t.task_type, t.queue, t.tenant_id, o.status::text as status,
                case when o.status = 'SUCCEEDED' then p_every else 1 end as weight,
                case when o.attempt = 1 then greatest(0, extract(epoch from
                    o.started_at - greatest(t.scheduled_at, t.created_at)) * 1000)::double precision end as wait_ms,
                (extract(epoch from o.finished_at - o.started_at) * 1000)::double precision as run_ms
            from skiplane.outcome o join skiplane.task t on t.id = o.id and t.shard = o.shard and t.day = o.day
            where o.finished_at >= p_from and o.finished_at < p_to and o.shard = p_shard
                and (o.status <> 'SUCCEEDED' or p_every = 1 or uuid_hash(o.id) % p_every = 0)
        ) x
        group by x.task_type, x.queue, x.tenant_id, x.status, skiplane._bucket(x.wait_ms), skiplane._bucket(x.run_ms));
end
$$;

comment on function skiplane._window_cells(timestamptz, timestamptz, integer, smallint) is
'What ended in a window, grouped; of the successes every p_every-th is looked at and stands for that many.';

create or replace function skiplane._histogram(p_buckets integer[], p_weights integer[]) returns integer[]
language sql immutable parallel safe
as $$
    select array(
        select coalesce(sum(u.weight), 0)::integer from generate_series(1, 48) b
        left join unnest(p_buckets, p_weights) as u (bucket, weight) on u.bucket = b group by b order by b)
$$;

comment on function skiplane._histogram(integer[], integer[]) is 'Weights summed by bucket.';

create or replace function skiplane._count_errors(p_from timestamptz, p_to timestamptz, p_minute timestamptz, p_shard smallint)
returns integer language plpgsql volatile
    set jit = off set enable_seqscan = off
as $$
declare
    v_every integer := 1 + (
        select count(*) from skiplane.attempt a where a.finished_at >= p_from and a.finished_at < p_to and a.shard = p_shard) / 5000;
    v_found jsonb;
begin
    select jsonb_agg(jsonb_build_object('task_type', x.task_type, 'queue', x.queue, 'tenant_id', x.tenant_id,
        'fingerprint', x.fingerprint, 'errors', x.errors, 'retried', x.retried, 'last_seen', x.last_seen, 'task_id', x.task_id,
        'error_type', x.error_type, 'message', left(x.message, 500)))
    into v_found
    from (
        select t.task_type, t.queue, t.tenant_id, y.fingerprint, count(*) * v_every as errors,
            count(a.retry_delay_s) * v_every as retried, max(a.finished_at) as last_seen, max(a.id::text)::uuid as task_id,
            min(a.error_type) as error_type, min(a.error_message) as message
        from skiplane.attempt a
        join skiplane.task t on t.id = a.id and t.shard = a.shard and t.day = a.day
        cross join lateral skiplane._fingerprint(a.error_type, a.error_message) as y (fingerprint)
        where a.finished_at >= p_from and a.finished_at < p_to and a.shard = p_shard and a.outcome <> 'cancelled'
            and (v_every = 1 or uuid_hash(a.id) % v_every = 0)
        group by 1, 2, 3, 4
    ) x;
    if v_found is null then
        return 0;
    end if;
    insert into skiplane.error_kind (fingerprint, shard, error_type, message, first_seen)
    select distinct on (f.fingerprint) f.fingerprint, p_shard, f.error_type, f.message, f.last_seen
    from jsonb_to_recordset(v_found) as f (fingerprint text, error_type text, message text, last_seen timestamptz)
    order by f.fingerprint, f.last_seen
    on conflict do nothing;
    insert into skiplane.rollup_error (shard, span, at, task_type, queue, tenant_id, fingerprint, errors, last_seen, task_id)
    select p_shard, 60, p_minute, f.task_type, f.queue, f.tenant_id, f.fingerprint, f.errors, f.last_seen, f.task_id
    from jsonb_to_recordset(v_found) as f (
        task_type text, queue text, tenant_id text, fingerprint text, errors integer, last_seen timestamptz, task_id uuid);
    insert into skiplane.rollup (shard, span, at, task_type, queue, tenant_id, succeeded, failed, cancelled, dead, retried, started,
        wait_ms, run_ms)
    select p_shard, 60, p_minute, f.task_type, f.queue, f.tenant_id, 0, 0, 0, 0, sum(f.retried), 0, 0, 0
    from jsonb_to_recordset(v_found) as f (task_type text, queue text, tenant_id text, retried integer)
    group by f.task_type, f.queue, f.tenant_id having sum(f.retried) > 0;
    return (select sum(f.retried) from jsonb_to_recordset(v_found) as f (retried integer));
end
$$;

comment on function skiplane._count_errors(timestamptz, timestamptz, timestamptz, smallint) is
'Counts the failed attempts of a window by kind; answers how many of them are retried.';

create or replace function skiplane._count_window(p_from timestamptz, p_shard smallint) returns void
language plpgsql volatile
    set jit = off set enable_seqscan = off
as $$
declare
    v_to timestamptz := p_from + interval '10 seconds';
    v_minute timestamptz := to_timestamp(floor(extract(epoch from p_from) / 60) * 60);
    v_every integer := 1 + (
        select count(*) from skiplane.outcome o
        where o.finished_at >= p_from and o.finished_at < v_to and o.shard = p_shard) / 20000;
    v_cells skiplane.rollup_cell[] := skiplane._window_cells(p_from, v_to, v_every, p_shard);
    v_retried integer := skiplane._count_errors(p_from, v_to, v_minute, p_shard);
begin
    insert into skiplane.rollup (shard, span, at, task_type, queue, tenant_id, succeeded, failed, cancelled, dead, retried, started,
        wait_ms, run_ms)
    select p_shard, 60, v_minute, c.task_type, c.queue, c.tenant_id,
        coalesce(sum(c.tasks) filter (where c.status = 'SUCCEEDED'), 0), coalesce(sum(c.tasks) filter (where c.status = 'FAILED'), 0),
        coalesce(sum(c.tasks) filter (where c.status = 'CANCELLED'), 0), coalesce(sum(c.tasks) filter (where c.status = 'DEAD'), 0),
        0, sum(c.started), coalesce(sum(c.wait_ms), 0), coalesce(sum(c.run_ms), 0)
    from unnest(v_cells) c group by c.task_type, c.queue, c.tenant_id;
    insert into skiplane.rollup_total (shard, at, succeeded, failed, cancelled, dead, retried, waits, runs)
    select p_shard, p_from,
        coalesce(sum(c.tasks) filter (where c.status = 'SUCCEEDED'), 0), coalesce(sum(c.tasks) filter (where c.status = 'FAILED'), 0),
        coalesce(sum(c.tasks) filter (where c.status = 'CANCELLED'), 0), coalesce(sum(c.tasks) filter (where c.status = 'DEAD'), 0),
        v_retried,
        skiplane._histogram(array_agg(c.wait_bucket) filter (where c.wait_ms is not null), array_agg(c.tasks) filter (where c.wait_ms is not null)),
        skiplane._histogram(array_agg(c.run_bucket) filter (where c.run_ms is not null), array_agg(c.tasks) filter (where c.run_ms is not null))
    from unnest(v_cells) c;
end
$$;

comment on function skiplane._count_window(timestamptz, smallint) is 'Counts what ended in the ten seconds from p_from.';

create or replace function skiplane._fold_hour(p_hour timestamptz, p_shard smallint) returns void
language plpgsql volatile
    set jit = off set enable_seqscan = off
as $$
begin
    insert into skiplane.rollup (shard, span, at, task_type, queue, tenant_id, succeeded, failed, cancelled, dead, retried, started,
        wait_ms, run_ms)
    select p_shard, 3600, p_hour, r.task_type, r.queue, r.tenant_id, sum(r.succeeded), sum(r.failed), sum(r.cancelled), sum(r.dead),
        sum(r.retried), sum(r.started), sum(r.wait_ms), sum(r.run_ms)
    from skiplane.rollup r
    where r.span = 60 and r.at >= p_hour and r.at < p_hour + interval '1 hour' and r.shard = p_shard
    group by r.task_type, r.queue, r.tenant_id;
    insert into skiplane.rollup_error (shard, span, at, task_type, queue, tenant_id, fingerprint, errors, last_seen, task_id)
    select p_shard, 3600, p_hour, r.task_type, r.queue, r.tenant_id, r.fingerprint, sum(r.errors), max(r.last_seen),
        max(r.task_id::text)::uuid
    from skiplane.rollup_error r
    where r.span = 60 and r.at >= p_hour and r.at < p_hour + interval '1 hour' and r.shard = p_shard
    group by r.task_type, r.queue, r.tenant_id, r.fingerprint;
end
$$;

comment on function skiplane._fold_hour(timestamptz, smallint) is 'Adds the rows of an hour from those of its minutes.';

create or replace function skiplane._sweep_rollup(p_now timestamptz, p_shard smallint) returns void
language plpgsql volatile
    set jit = off set enable_seqscan = off
as $$
declare
    v_keep timestamptz := p_now - make_interval(days => skiplane._setting_number('retention_days', 30)::integer);
    v_ids bigint[];
begin
    v_ids := array(select t.n from skiplane.rollup_total t
        where t.at < p_now - interval '3 hours' and t.shard = p_shard order by t.at limit 200);
    delete from skiplane.rollup_total t where t.n = any (v_ids) and t.shard = p_shard;
    v_ids := array(
        (select r.n from skiplane.rollup r
        where r.span = 60 and r.at < p_now - interval '25 hours' and r.shard = p_shard order by r.at limit 2000)
        union all
        (select r.n from skiplane.rollup r where r.span = 3600 and r.at < v_keep and r.shard = p_shard order by r.at limit 500));
    delete from skiplane.rollup r where r.n = any (v_ids) and r.shard = p_shard;
    v_ids := array(
        (select r.n from skiplane.rollup_error r
        where r.span = 60 and r.at < p_now - interval '25 hours' and r.shard = p_shard order by r.at limit 2000)
        union all
        (select r.n from skiplane.rollup_error r where r.span = 3600 and r.at < v_keep and r.shard = p_shard order by r.at limit 500));
    delete from skiplane.rollup_error r where r.n = any (v_ids) and r.shard = p_shard;
end
$$;

comment on function skiplane._sweep_rollup(timestamptz, smallint) is 'Deletes a bounded number of old rows.';

create or replace function skiplane.refresh_rollup(p_shard smallint default 0) returns double precision
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off
as $$
declare
    v_begun timestamptz := clock_timestamp();
    v_now timestamptz := skiplane.clock();
    -- The last whole ten seconds of which nothing more is expected.
    v_last timestamptz := to_timestamp(floor(extract(epoch from v_now - interval '15 seconds') / 10) * 10);
    v_from timestamptz;
begin
    -- One scheduler at a time, so that each window is counted once.
    if not pg_try_advisory_xact_lock(1397442902, p_shard) then
        return 5;
    end if;
    select greatest(t.at + interval '10 seconds', to_timestamp(floor(extract(epoch from v_now - interval '1 day') / 10) * 10))
    into v_from from skiplane.rollup_total t where t.shard = p_shard order by t.n desc limit 1;
    v_from := coalesce(v_from, v_last);
    if v_from > v_last then
        return greatest(0.5, extract(epoch from v_from - v_last - (v_now - interval '15 seconds' - v_last)));
    end if;
    perform skiplane._count_window(v_from, p_shard);
    if extract(epoch from v_from)::bigint % 3600 = 0 then
        perform skiplane._fold_hour(v_from - interval '1 hour', p_shard);
    end if;
    perform skiplane._sweep_rollup(v_now, p_shard);
    -- Never more than a tenth of the time.
    return case when v_from < v_last then 9 * extract(epoch from clock_timestamp() - v_begun) else 1 end;
end
$$;

comment on function skiplane.refresh_rollup(smallint) is
'Counts the next ten seconds of what ended into the rollups; answers in how many seconds to call again.';

-- The public doors of submission.

-- p_template says everything but ids, payloads and keys, and metadata where p_metadata does. p_body is what a repeated
-- key is compared by.
create or replace function skiplane._submit(
    p_template skiplane.task, p_payloads json[], p_keys text[], p_body jsonb, p_places bigint[] default null,
    p_metadata jsonb[] default null, out ids uuid[], out duplicates boolean[]
) language plpgsql volatile
as $$
declare
    t skiplane.task := p_template;
    v_count integer := cardinality(p_payloads);
    v_key text;
    v_us bigint := floor(extract(epoch from t.created_at) * 1000000)::bigint;
    v_start bigint;
    v_new uuid[];
    v_shards smallint[];
begin
    if v_count = 0 then
        ids := '{}';
        duplicates := '{}';
        return;
    end if;
    if p_keys is null then
        t.shard := skiplane._pick_shard(t.tenant_id, null);
        ids := skiplane._new_ids(t.shard, v_count, t.created_at, p_places);
        perform skiplane._store_tasks(ids, p_payloads, array[]::text[], t, p_metadata);
        return;
    end if;
    foreach v_key in array p_keys loop
        if v_key is not null then
            perform skiplane._check_name('idempotency_key', v_key);
        end if;
    end loop;
    v_start := skiplane._first_place();
    select array_agg(skiplane._id_at(skiplane._pick_shard(t.tenant_id, u.key), v_us, coalesce(p_places[u.ord], v_start + u.ord))
        order by u.ord)
    into v_new from unnest(p_keys) with ordinality as u (key, ord);
    ids := skiplane._reserve_keys(t.tenant_id, p_keys, v_new, array(
        select sha256(convert_to((p_body || jsonb_build_object('payload', u.payload::jsonb))::text, 'UTF8'))
        from unnest(p_payloads) with ordinality as u (payload, ord) order by u.ord), t.created_at);
    select array_agg(u.id <> u.new order by u.ord), array_agg(distinct skiplane.task_shard(u.new)) filter (where u.id = u.new)
    into duplicates, v_shards from unnest(ids, v_new) with ordinality as u (id, new, ord);
    foreach t.shard in array coalesce(v_shards, '{}') loop
        perform skiplane._store_tasks(array_agg(u.id order by u.ord), array_agg(u.payload order by u.ord),
            array_agg(u.key order by u.ord), t,
            case when p_metadata is not null then array_agg(u.metadata order by u.ord) end)
        from unnest(ids, v_new, p_payloads, p_keys, p_metadata) with ordinality as u (id, new, payload, key, metadata, ord)
        where u.id = u.new and skiplane.task_shard(u.id) = t.shard;
    end loop;
end
$$;

comment on function skiplane._submit(skiplane.task, json[], text[], jsonb, bigint[], jsonb[]) is
'Gives ids to tasks that share a template, once per idempotency key, and stores the new ones.';

-- The most frequent submission, a single task for now: what _submit does with the fewest steps. A call in an expression
-- costs a fraction of what PERFORM does.
create or replace function skiplane._submit_one(p_template skiplane.task, p_payload json) returns skiplane.submitted
language plpgsql volatile
as $$
declare
    t skiplane.task := p_template;
    v_woken boolean;
begin
    t.shard := skiplane._pick_shard(t.tenant_id, null);
    t.id := skiplane._new_id(t.shard, t.created_at);
    t.payload := p_payload;
    insert into skiplane.task select t.*;
    insert into skiplane.ready (id, shard, lane, due_at, estimate, day, attempt, fence, expires_at)
    values (t.id, t.shard, skiplane._lane_for(t.shard, t.queue, t.priority, t.tenant_id, t.task_type, t.concurrency_key),
        t.created_at, coalesce(t.estimate, 2147483647), t.day, 0, 0, t.expires_at);
    v_woken := skiplane._wake(t.queue);
    return row(1, t.id, 'PENDING', t.scheduled_at, t.created_at, false)::skiplane.submitted;
end
$$;

comment on function skiplane._submit_one(skiplane.task, json) is 'Stores one task as PENDING.';

create or replace function skiplane.submit_task(
    p_task_type text, p_payload jsonb default '{}', p_queue text default 'default', p_priority text default 'medium',
    p_scheduled_at timestamptz default null, p_delay_seconds double precision default null,
    p_max_retries integer default 3, p_retry_backoff text default 'exponential',
    p_retry_delay_seconds double precision default 5, p_retry_max_delay_seconds double precision default 3600,
    p_retry_jitter text default 'equal', p_timeout_seconds double precision default null,
    p_idempotency_key text default null, p_estimated_duration_seconds double precision default null,
    p_concurrency_key text default null, p_expires_at timestamptz default null, p_callback_url text default null,
    p_metadata jsonb default null
) returns skiplane.submitted
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    -- The id of the transaction comes before the clock: see refresh_lanes.
    v_xid xid8 := pg_current_xact_id();
    v_now timestamptz := skiplane.clock();
    t skiplane.task;
    s record;
begin
    -- A small document is at most some 30 times as long as a text.
    if pg_column_size(p_payload) > 32768 or skiplane._is_beyond_json(p_payload) then
        perform skiplane._check_json('payload', p_payload::text, 1048576);
    end if;
    t := skiplane._task_template(p_task_type, p_queue, p_priority, p_scheduled_at, p_delay_seconds, p_max_retries,
        p_retry_backoff, p_retry_delay_seconds, p_retry_max_delay_seconds, p_retry_jitter, p_timeout_seconds,
        p_estimated_duration_seconds, p_concurrency_key, p_expires_at, p_callback_url, p_metadata, v_now);
    if p_idempotency_key is null and t.scheduled_at <= v_now then
        return skiplane._submit_one(t, coalesce(p_payload, 'null')::json);
    end if;
    s := skiplane._submit(t, array[coalesce(p_payload, 'null')::json],
        case when p_idempotency_key is not null then array[p_idempotency_key] end,
        case when p_idempotency_key is not null then skiplane._body(t, p_scheduled_at, p_delay_seconds) end);
    return skiplane._submitted(1, s.ids[1], coalesce(s.duplicates[1], false), t);
end
$$;

comment on function skiplane.submit_task(
    text, jsonb, text, text, timestamptz, double precision, integer, text, double precision, double precision, text,
    double precision, text, double precision, text, timestamptz, text, jsonb
) is 'Submits one task: SELECT * FROM skiplane.submit_task(''send_email'', ''{"to": "a@example.com"}''). Due at p_scheduled_at (past or absent: now) or after p_delay_seconds; the tenant is metadata.tenant_id. The same p_idempotency_key with the same body answers with the first task (duplicate = true); with another body: SK004. Bad input: SK001 or SK007, the field in COLUMN, the remedy in HINT.';

-- What decides whether two submissions under one key are the same. Metadata does not: a second try comes with
-- another trace context; its tenant is part of the key already.
create or replace function skiplane._body(p_task skiplane.task, p_scheduled_at timestamptz, p_delay_seconds double precision)
returns jsonb language sql stable
as $$
    select jsonb_strip_nulls(to_jsonb(p_task)
        - '{id,shard,day,payload,idempotency_key,scheduled_at,created_at,version,expires_at,metadata}'::text[]
        || jsonb_build_object('scheduled_at', skiplane._utc_text(p_scheduled_at), 'delay_seconds', p_delay_seconds,
            'expires_at', skiplane._utc_text(p_task.expires_at)))
$$;

comment on function skiplane._body(skiplane.task, timestamptz, double precision) is
'The meaning of a submission without its payload: same key and same meaning is a replay.';

create or replace function skiplane._submitted(p_ordinal integer, p_id uuid, p_duplicate boolean, p_task skiplane.task)
returns skiplane.submitted language plpgsql stable
as $$
declare
    s skiplane.submitted;
    v_document jsonb;
begin
    if p_duplicate then
        -- The first task may have been dropped by retention while its key is still kept.
        v_document := skiplane._task_document(p_id);
        return row(p_ordinal, p_id, coalesce(v_document ->> 'status', 'SUCCEEDED'),
            (v_document ->> 'scheduled_at')::timestamptz, (v_document ->> 'created_at')::timestamptz, true)::skiplane.submitted;
    end if;
    s := row(p_ordinal, p_id, case when p_task.scheduled_at > p_task.created_at then 'SCHEDULED' else 'PENDING' end,
        p_task.scheduled_at, p_task.created_at, false);
    return s;
end
$$;

comment on function skiplane._submitted(integer, uuid, boolean, skiplane.task) is 'The answer for one submitted task.';

create or replace function skiplane.submit_batch(
    p_task_type text, p_payloads text[], p_queue text default 'default', p_priority text default 'medium',
    p_scheduled_at timestamptz default null, p_delay_seconds double precision default null,
    p_max_retries integer default 3, p_retry_backoff text default 'exponential',
    p_retry_delay_seconds double precision default 5, p_retry_max_delay_seconds double precision default 3600,
    p_retry_jitter text default 'equal', p_timeout_seconds double precision default null,
    p_idempotency_keys text[] default null, p_estimated_duration_seconds double precision default null,
    p_concurrency_key text default null, p_expires_at timestamptz default null, p_callback_url text default null,
    p_metadata jsonb default null
) returns uuid[]
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_now timestamptz;
    t skiplane.task;
    s record;
    v_payloads json[];
begin
    perform pg_current_xact_id();
    v_now := skiplane.clock();
    if p_idempotency_keys is not null and cardinality(p_idempotency_keys) <> cardinality(p_payloads) then
        perform skiplane._refuse('SK001', 'idempotency_keys', cardinality(p_idempotency_keys)::text,
            'there are not as many keys as payloads', 'give one key, or NULL, for each payload');
    end if;
    t := skiplane._task_template(p_task_type, p_queue, p_priority, p_scheduled_at, p_delay_seconds, p_max_retries,
        p_retry_backoff, p_retry_delay_seconds, p_retry_max_delay_seconds, p_retry_jitter, p_timeout_seconds,
        p_estimated_duration_seconds, p_concurrency_key, p_expires_at, p_callback_url, p_metadata, v_now);
    v_payloads := skiplane._read_payloads(p_payloads);
    s := skiplane._submit(t, v_payloads, p_idempotency_keys,
        case when p_idempotency_keys is not null then skiplane._body(t, p_scheduled_at, p_delay_seconds) end);
    return s.ids;
end
$$;

comment on function skiplane.submit_batch(
    text, text[], text, text, timestamptz, double precision, integer, text, double precision, double precision, text,
    double precision, text[], double precision, text, timestamptz, text, jsonb
) is 'Submits many tasks of one type with the same options, all or nothing: one JSON text per task. The fast door for bulk. Answers with the ids in order; options as in submit_task.';

create or replace function skiplane._read_payloads(p_payloads text[]) returns json[]
language plpgsql immutable
as $$
begin
    if array_position(p_payloads, null) is not null or not skiplane._all_readable(p_payloads) then
        perform skiplane._check_payload(format('payloads[%s]', u.ord - 1), u.x)
        from unnest(p_payloads) with ordinality as u (x, ord);
    end if;
    return p_payloads::json[];
end
$$;

comment on function skiplane._read_payloads(text[]) is 'JSON texts as json, refusing what cannot be stored and naming its place.';

create or replace function skiplane._check_payload(p_field text, p_text text) returns void
language plpgsql immutable
as $$
begin
    if p_text is null then
        perform skiplane._refuse('SK001', p_field, null, 'a payload is missing', 'give JSON text, null included, for each task');
    end if;
    perform skiplane._check_json(p_field, p_text, 1048576);
end
$$;

comment on function skiplane._check_payload(text, text) is 'Refuses one payload of a batch that is missing or cannot be stored.';

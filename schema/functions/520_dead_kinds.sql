-- Dead letters by kind of error, and what is done to all of a kind. p_within is the tenant that the caller is bound to.
-- Nothing here looks at more than a bounded number: the newest are what somebody came for.

create or replace function skiplane.dead_letter_kinds(
    p_within text default null, p_task_type text default null, p_queue text default null, p_tenant_id text default null,
    p_most integer default 10000
) returns jsonb language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off
as $$
declare
    v_tenant text := coalesce(p_within, p_tenant_id);
begin
    perform skiplane._check_within(p_within, coalesce(p_tenant_id, p_within));
    perform skiplane._check_number('most', p_most, 1, 100000);
    return (
        with newest as (
            select d.id, d.task_type, d.queue, d.error_type, d.error_message, d.fingerprint, d.died_at
            from skiplane.dead d
            where (v_tenant is null or d.tenant_id = v_tenant) and (p_task_type is null or d.task_type = p_task_type)
                and (p_queue is null or d.queue = p_queue)
            order by d.id desc limit p_most
        )
        select jsonb_build_object('looked_at', (select count(*) from newest), 'most', p_most, 'kinds', coalesce((
            select jsonb_agg(to_jsonb(k) order by k.tasks desc, k.fingerprint, k.task_type) from (
                select n.fingerprint, n.task_type, n.queue, count(*) as tasks, min(n.error_type) as error_type,
                    left(min(n.error_message), 500) as message, skiplane._utc_text(min(n.died_at)) as first_died,
                    skiplane._utc_text(max(n.died_at)) as last_died, max(n.id::text) as task_id
                from newest n group by n.fingerprint, n.task_type, n.queue order by count(*) desc limit 200
            ) k), '[]')));
end
$$;

comment on function skiplane.dead_letter_kinds(text, text, text, text, integer) is
'The newest p_most dead letters of a filter, grouped by kind of error, type and queue: {looked_at, most, kinds}.';

-- One place says what a filter means, for lists, counts and verbs.
create or replace function skiplane._dead_ids(
    p_tenant_id text, p_task_type text, p_queue text, p_fingerprint text, p_until timestamptz, p_below uuid, p_limit integer
) returns setof uuid language plpgsql stable
    set jit = off set enable_seqscan = off
as $$
begin
    return query
    select d.id from skiplane.dead d
    where (p_tenant_id is null or d.tenant_id = p_tenant_id) and (p_task_type is null or d.task_type = p_task_type)
        and (p_queue is null or d.queue = p_queue) and (p_fingerprint is null or d.fingerprint = p_fingerprint)
        and (p_until is null or d.died_at <= p_until) and (p_below is null or d.id < p_below)
    order by d.id desc limit p_limit;
end
$$;

comment on function skiplane._dead_ids(text, text, text, text, timestamptz, uuid, integer) is
'Ids of the newest dead letters of a filter that died until a time, below an id.';

create or replace function skiplane.count_dead_letters(
    p_within text default null, p_task_type text default null, p_queue text default null, p_tenant_id text default null,
    p_fingerprint text default null, p_until timestamptz default null, p_most integer default 10000
) returns integer language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_tenant text := coalesce(p_within, p_tenant_id);
begin
    perform skiplane._check_within(p_within, coalesce(p_tenant_id, p_within));
    return (select count(*) from skiplane._dead_ids(v_tenant, p_task_type, p_queue, p_fingerprint, p_until, null, p_most + 1));
end
$$;

comment on function skiplane.count_dead_letters(text, text, text, text, text, timestamptz, integer) is
'Counts the dead letters of a filter; p_most + 1 means that there are more than p_most.';

create or replace function skiplane.dead_letters_page(
    p_within text default null, p_task_type text default null, p_queue text default null, p_tenant_id text default null,
    p_fingerprint text default null, p_limit integer default 50, p_cursor text default null
) returns setof jsonb language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off
as $$
declare
    v_tenant text := coalesce(p_within, p_tenant_id);
    v_below uuid := case when p_cursor is not null then skiplane._read_cursor(p_cursor) end;
begin
    perform skiplane._check_within(p_within, coalesce(p_tenant_id, p_within));
    perform skiplane._check_number('limit', p_limit, 1, 1000);
    return query
    select jsonb_build_object('task_id', d.id, 'task_type', d.task_type, 'queue', d.queue, 'tenant_id', d.tenant_id,
        'died_at', skiplane._utc_text(d.died_at), 'error_type', d.error_type, 'error_message', left(d.error_message, 1000),
        'fingerprint', d.fingerprint)
    from skiplane.dead d
    where d.id = any (array(
        select i from skiplane._dead_ids(v_tenant, p_task_type, p_queue, p_fingerprint, null, v_below, p_limit) i))
    order by d.id desc;
end
$$;

comment on function skiplane.dead_letters_page(text, text, text, text, text, integer, text) is
'Dead letters of a filter, newest task first, without their payloads. The next page: pass the task_id of the last one.';

create or replace function skiplane.settle_dead_letters(
    p_verb text, p_within text default null, p_task_type text default null, p_queue text default null,
    p_tenant_id text default null, p_fingerprint text default null, p_until timestamptz default null,
    p_limit integer default 500, p_reason text default null, p_actor text default null
) returns integer language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off
as $$
declare
    v_tenant text := coalesce(p_within, p_tenant_id);
    v_id uuid;
    v_count integer := 0;
begin
    perform skiplane._check_within(p_within, coalesce(p_tenant_id, p_within));
    perform skiplane._check_choice('verb', p_verb, '{retry,discard}');
    perform skiplane._check_number('limit', p_limit, 1, 10000);
    for v_id in
        select d.id from skiplane.dead d
        where d.id = any (array(
            select i from skiplane._dead_ids(v_tenant, p_task_type, p_queue, p_fingerprint, p_until, null, p_limit) i))
        order by d.id for update skip locked
    loop
        if p_verb = 'retry' then
            perform skiplane.retry_task(v_id, p_reason, p_actor);
        else
            perform skiplane.discard_dead_letter(v_id, p_reason, p_actor);
        end if;
        v_count := v_count + 1;
    end loop;
    return v_count;
end
$$;

comment on function skiplane.settle_dead_letters(text, text, text, text, text, text, timestamptz, integer, text, text) is
'Retries or discards (p_verb) the dead letters of a filter that died until p_until, p_limit per call: call until it answers 0.';

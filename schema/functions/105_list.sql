-- Lists: newest first, by keyset on the id, which grows with time.

-- Ids of one state below the cursor, from the place where that state lives.
create or replace function skiplane._ids_in_state(p_status text, p_before uuid, p_after uuid, p_limit integer)
returns setof uuid language plpgsql stable
    set jit = off set enable_seqscan = off
as $$
begin
    case p_status
        when 'PENDING' then
            return query select r.id from skiplane.ready r
            where r.id < p_before and r.id >= p_after order by r.id desc limit p_limit;
        when 'RUNNING' then
            return query select u.id from skiplane.lease l, unnest(l.ids) as u (id)
            where u.id < p_before and u.id >= p_after order by u.id desc limit p_limit;
        when 'BLOCKED' then
            return query select b.id from skiplane.blocked b
            where b.id < p_before and b.id >= p_after order by b.id desc limit p_limit;
        when 'SCHEDULED', 'RETRYING' then
            return query select w.id from (
                select x.id, x.status from skiplane.timer x union all select x.id, x.status from skiplane.timer_far x) w
            where w.id < p_before and w.id >= p_after and w.status = p_status::skiplane.task_status
            order by w.id desc limit p_limit;
        when 'SUCCEEDED' then
            return query select o.id from skiplane.outcome o
            where o.id < p_before and o.id >= p_after and o.status = 'SUCCEEDED' order by o.id desc limit p_limit;
        when 'FAILED', 'CANCELLED', 'DEAD' then
            return query select o.id from skiplane.outcome o
            where o.id < p_before and o.id >= p_after and o.status <> 'SUCCEEDED' and o.status = p_status::skiplane.task_status
            order by o.id desc limit p_limit;
        else
            return;
    end case;
end
$$;

comment on function skiplane._ids_in_state(text, uuid, uuid, integer) is 'The newest ids in one state, between two ids.';

create or replace function skiplane._id_floor(p_at timestamptz) returns uuid
language sql immutable strict parallel safe
as $$
    select (lpad(to_hex(greatest(0, least(281474976710655, floor(extract(epoch from p_at) * 1000)))::bigint), 12, '0')
        || '00000000000000000000')::uuid
$$;

comment on function skiplane._id_floor(timestamptz) is 'The least id of a millisecond: turns a time bound into an id bound.';

create or replace function skiplane._read_cursor(p_cursor text) returns uuid
language plpgsql immutable
as $$
begin
    return coalesce(p_cursor, 'ffffffff-ffff-ffff-ffff-ffffffffffff')::uuid;
exception when invalid_text_representation then
    perform skiplane._refuse('SK001', 'cursor', p_cursor, 'cursor is not one of ours',
        'pass the cursor of the last row of the page before, unchanged');
end
$$;

comment on function skiplane._read_cursor(text) is 'Reads the position of a page.';

create or replace function skiplane.list_tasks(
    p_status text[] default null, p_task_type text default null, p_queue text default null, p_tenant_id text default null,
    p_created_after timestamptz default null, p_created_before timestamptz default null, p_limit integer default 50,
    p_cursor text default null
) returns setof jsonb language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off
as $$
declare
    v_before uuid := least(skiplane._read_cursor(p_cursor)::text, coalesce(skiplane._id_floor(p_created_before)::text, 'g'))::uuid;
    v_after uuid := coalesce(skiplane._id_floor(p_created_after), '00000000-0000-0000-0000-000000000000');
    v_found integer := 0;
    v_ids uuid[];
    v_id uuid;
    v_document jsonb;
    v_status text;
begin
    perform skiplane._check_number('limit', p_limit, 1, 1000);
    foreach v_status in array coalesce(p_status, '{}') loop
        perform skiplane._check_choice('status', v_status, '{SCHEDULED,BLOCKED,PENDING,RUNNING,RETRYING,SUCCEEDED,FAILED,CANCELLED,DEAD}');
    end loop;
    loop
        if p_status is null then
            v_ids := array(
                select x.id from (
                    (select t.id from skiplane.task t where t.id < v_before and t.id >= v_after
                        and (p_tenant_id is null or t.tenant_id = p_tenant_id)
                    order by t.id desc limit p_limit)
                    union
                    (select i from skiplane._ids_in_state('SCHEDULED', v_before, v_after, p_limit) i)
                ) x order by x.id desc limit p_limit);
        else
            v_ids := array(
                select distinct i from unnest(p_status) s cross join lateral skiplane._ids_in_state(s, v_before, v_after, p_limit) i
                order by i desc limit p_limit);
        end if;
        exit when v_ids = '{}';
        foreach v_id in array v_ids loop
            v_document := skiplane._task_document(v_id);
            -- NULL when retention has dropped it since.
            if v_document is not null and (p_status is null or v_document ->> 'status' = any (p_status))
                and (p_task_type is null or v_document ->> 'task_type' = p_task_type)
                and (p_queue is null or v_document ->> 'queue' = p_queue)
                and (p_tenant_id is null or v_document ->> 'tenant_id' = p_tenant_id)
            then
                return next v_document;
                v_found := v_found + 1;
                if v_found >= p_limit then
                    return;
                end if;
            end if;
        end loop;
        v_before := v_ids[cardinality(v_ids)];
        exit when cardinality(v_ids) < p_limit;
    end loop;
end
$$;

comment on function skiplane.list_tasks(text[], text, text, text, timestamptz, timestamptz, integer, text) is
'Tasks, newest first, as documents without attempts. The next page: pass the cursor of the last one. p_limit is 1 to 1000.';

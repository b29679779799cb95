-- Pages of tasks, newest first, by keyset on the id. A rare filter over a long history must not cost more than a
-- common one, so a page looks at a bounded number of rows and says where to go on, whether it is full or not.

-- Ids below p_before from the places where they may be, and the id down to which nothing is missing (NULL: all of it).
create or replace function skiplane._candidates(
    p_status text[], p_tenant_id text, p_workflow_id uuid, p_before uuid, p_after uuid, p_most integer,
    out ids uuid[], out floor_id uuid
) language plpgsql stable
    set jit = off set enable_seqscan = off
as $$
declare
    v_part uuid[];
    v_source text;
begin
    ids := '{}';
    foreach v_source in array case when p_workflow_id is not null then '{workflow,waiting}'
        when p_status is null then '{active,waiting}' else p_status end::text[]
    loop
        v_part := case
            when v_source = 'workflow' then array(
                select t.id from skiplane.task t where t.workflow_id = p_workflow_id and t.id < p_before and t.id >= p_after
                order by t.id desc limit p_most)
            when v_source = 'active' and p_tenant_id is not null then array(
                select t.id from skiplane.task t where t.tenant_id = p_tenant_id and t.id < p_before and t.id >= p_after
                order by t.id desc limit p_most)
            when v_source = 'active' then array(
                select t.id from skiplane.task t where t.id < p_before and t.id >= p_after order by t.id desc limit p_most)
            when v_source in ('waiting', 'SCHEDULED', 'RETRYING') then array(
                select w.id from (
                    (select x.id from skiplane.timer x where x.id < p_before and x.id >= p_after order by x.id desc limit p_most)
                    union all
                    (select x.id from skiplane.timer_far x where x.id < p_before and x.id >= p_after order by x.id desc limit p_most)
                ) w order by w.id desc limit p_most)
            else array(select skiplane._ids_in_state(v_source, p_before, p_after, p_most))
        end;
        ids := ids || v_part;
        if cardinality(v_part) >= p_most then
            floor_id := greatest(floor_id::text, v_part[cardinality(v_part)]::text)::uuid;
        end if;
    end loop;
end
$$;

comment on function skiplane._candidates(text[], text, uuid, uuid, uuid, integer) is
'Ids that a page must look at, p_most from each place, and the id down to which they are complete.';

create or replace function skiplane.list_tasks_page(
    p_within text default null, p_status text[] default null, p_task_type text default null, p_queue text default null,
    p_tenant_id text default null, p_workflow_id uuid default null, p_tag text default null,
    p_created_after timestamptz default null, p_created_before timestamptz default null, p_limit integer default 50,
    p_cursor text default null, out documents text[], out next_cursor text
) language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off
as $$
declare
    v_before uuid := least(skiplane._read_cursor(p_cursor)::text, coalesce(skiplane._id_floor(p_created_before)::text, 'g'))::uuid;
    v_after uuid := coalesce(skiplane._id_floor(p_created_after), '00000000-0000-0000-0000-000000000000');
    v_tenant text := coalesce(p_within, p_tenant_id);
    c record;
    v_ids uuid[];
    v_status text;
    v_days date;
    v_room integer;
begin
    documents := '{}';
    perform skiplane._check_number('limit', p_limit, 1, 1000);
    foreach v_status in array coalesce(p_status, '{}') loop
        perform skiplane._check_choice('status', v_status, '{SCHEDULED,BLOCKED,PENDING,RUNNING,RETRYING,SUCCEEDED,FAILED,CANCELLED,DEAD}');
    end loop;
    if p_within is not null and p_tenant_id <> p_within then
        return;
    end if;
    for v_round in 1 .. 10 loop
        c := skiplane._candidates(p_status, v_tenant, p_workflow_id, v_before, v_after, 500);
        v_room := p_limit - cardinality(documents);
        v_days := (select min(skiplane._id_day(x)) from unnest(c.ids) x);
        v_ids := array(
            select y.id from (
                select t.id, t.task_type, t.queue, t.tenant_id, t.workflow_id, t.metadata from skiplane.task t
                where t.id = any (c.ids) and t.day >= v_days
                union all
                select w.id, w.task_type, w.queue, w.tenant_id, w.workflow_id, w.metadata from skiplane.timer w
                where w.id = any (c.ids) and w.status = 'SCHEDULED'
                union all
                select f.id, f.task_type, f.queue, f.tenant_id, f.workflow_id, f.metadata from skiplane.timer_far f
                where f.id = any (c.ids) and f.status = 'SCHEDULED'
            ) y
            where (c.floor_id is null or y.id >= c.floor_id) and (v_tenant is null or y.tenant_id = v_tenant)
                and (p_task_type is null or y.task_type = p_task_type) and (p_queue is null or y.queue = p_queue)
                and (p_workflow_id is null or y.workflow_id = p_workflow_id)
                and (p_tag is null or coalesce(y.metadata -> 'tags' ? p_tag, false))
            order by y.id desc limit v_room);
        documents := documents || array(
            select (d.document - '{cursor,payload,result}'::text[])::text from skiplane._documents(v_ids) d
            where p_status is null or d.status = any (p_status) order by d.task_id desc);
        if cardinality(v_ids) >= v_room then
            next_cursor := v_ids[v_room];
            return;
        end if;
        next_cursor := c.floor_id;
        exit when c.floor_id is null;
        v_before := c.floor_id;
    end loop;
end
$$;

comment on function skiplane.list_tasks_page(
    text, text[], text, text, text, uuid, text, timestamptz, timestamptz, integer, text
) is 'One page of tasks, newest first, of at most p_limit documents without payload and result. next_cursor goes into p_cursor of the next call; NULL means that this was the last page. A page looks at a bounded number of rows, so with a rare filter it may be short or empty and still have a next one. p_tag: metadata.tags holds it, as an element or a key.';

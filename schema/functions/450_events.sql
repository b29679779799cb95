-- What happened since a caller last looked. Nothing is written for it: new rows of task, timer, attempt and outcome
-- are the events. A place in the stream is a snapshot, not a time: a row that was committed late, however long ago it
-- was written, is not in the snapshot of the last look and so is told by the next one.

-- 32 bits of a row's transaction id, made whole beside a recent one.
create or replace function skiplane._whole_xid(p_xid xid, p_near xid8) returns bigint
language sql immutable parallel safe
as $$
    select p_near::text::bigint - ((p_near::text::bigint - p_xid::text::bigint) % 4294967296 + 4294967296) % 4294967296
$$;

comment on function skiplane._whole_xid(xid, xid8) is 'The full transaction id of a recent row.';

-- Rows since p_since by transactions that the last snapshot had not seen. Those just above its xmin may have been seen:
-- an id inside a savepoint is in no snapshot, so telling twice is the safe side.
create or replace function skiplane._changes_since(p_since timestamptz, p_xid bigint, p_exact boolean, p_near xid8, p_most integer)
returns table (task_id uuid, status text, at timestamptz, day date)
language plpgsql stable
    set jit = off set enable_seqscan = off
as $$
declare v_floor uuid := skiplane._id_floor(p_since);
begin
    return query
    select x.id, x.status, x.at, x.day from (
        (select o.id, o.status::text as status, o.finished_at as at, o.day, o.xmin as xid from skiplane.outcome o
        where o.finished_at >= p_since order by o.finished_at limit p_most)
        union all
        (select a.id, 'RETRYING', a.finished_at, a.day, a.xmin from skiplane.attempt a
        where a.finished_at >= p_since and a.retry_delay_s > 0 order by a.finished_at limit p_most)
        union all
        (select t.id, 'PENDING', t.created_at, t.day, t.xmin from skiplane.task t
        where t.id >= v_floor and t.scheduled_at <= t.created_at order by t.id limit p_most)
        union all
        (select w.id, 'SCHEDULED', w.created_at, null, w.xmin from skiplane.timer w
        where w.id >= v_floor and w.status = 'SCHEDULED' order by w.id limit p_most)
        union all
        (select f.id, 'SCHEDULED', f.created_at, null, f.xmin from skiplane.timer_far f
        where f.id >= v_floor and f.status = 'SCHEDULED' order by f.id limit p_most)
    ) x
    where skiplane._whole_xid(x.xid, p_near) >= p_xid and (not p_exact or skiplane._whole_xid(x.xid, p_near) = p_xid);
end
$$;

comment on function skiplane._changes_since(timestamptz, bigint, boolean, xid8, integer) is
'Changes of state since a time, of one transaction (p_exact) or of it and all later ones.';

create or replace function skiplane.read_events(p_place jsonb default null, p_most integer default 20000, out events text, out place jsonb)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off
as $$
declare
    -- The clock before the snapshot: what is written after the snapshot is later than this.
    v_now timestamptz := skiplane.clock();
    v_snapshot pg_snapshot := pg_current_snapshot();
    v_last pg_snapshot := (p_place ->> 'snapshot')::pg_snapshot;
    v_at timestamptz := (p_place ->> 'at')::timestamptz;
    v_near xid8 := pg_snapshot_xmax(v_snapshot);
    v_all skiplane.task_change[] := '{}';
    v_part skiplane.task_change[];
    w record;
begin
    perform skiplane._check_number('most', p_most, 1, 100000);
    -- Every writer that is under way, with a time before its first write.
    place := jsonb_build_object('snapshot', v_snapshot::text, 'at', v_now, 'writers', coalesce((
        select jsonb_object_agg(x.xid::text, coalesce(p_place -> 'writers' ->> x.xid::text,
            case when v_last is not null and x.xid >= pg_snapshot_xmax(v_last) then v_at::text end,
            (select m.at::text from skiplane.watermark m where m.next_xid <= x.xid order by m.at desc limit 1),
            (v_now - interval '10 minutes')::text))
        from pg_snapshot_xip(v_snapshot) as x (xid)), '{}'));
    events := '[]';
    if v_last is null then
        return;
    end if;
    select array_agg(row(c.task_id, c.status, c.at, c.day)::skiplane.task_change) into v_part
    from skiplane._changes_since(v_at - interval '1 second', pg_snapshot_xmin(v_last)::text::bigint, false, v_near, p_most) c;
    v_all := v_all || v_part;
    for w in
        select e.key::bigint as xid, e.value::timestamptz as since from jsonb_each_text(p_place -> 'writers') e
        where e.value::timestamptz < v_at - interval '1 second' and pg_visible_in_snapshot(e.key::xid8, v_snapshot)
        order by e.key limit 100
    loop
        select array_agg(row(c.task_id, c.status, c.at, c.day)::skiplane.task_change) into v_part
        from skiplane._changes_since(w.since - interval '1 second', w.xid, true, v_near, p_most) c
        where c.at < v_at - interval '1 second';
        v_all := v_all || v_part;
    end loop;
    events := coalesce((
        select jsonb_agg(jsonb_build_object('task_id', c.task_id, 'status', c.status, 'at', skiplane._utc_text(c.at),
            'task_type', d.task_type, 'queue', d.queue, 'tenant_id', d.tenant_id, 'workflow_id', d.workflow_id)
            order by c.at, c.task_id)
        from unnest(v_all) c
        join lateral (
            select t.task_type, t.queue, t.tenant_id, t.workflow_id from skiplane.task t
            where t.id = c.task_id and t.shard = skiplane.task_shard(c.task_id) and t.day = c.day
            union all
            select x.task_type, x.queue, x.tenant_id, x.workflow_id from skiplane._find_timer(c.task_id, skiplane.task_shard(c.task_id)) x
            where c.day is null and x.id is not null
        ) d on true), '[]')::text;
    if cardinality(v_all) >= p_most then
        place := place || '{"gap": true}';
    end if;
end
$$;

comment on function skiplane.read_events(jsonb, integer) is
'Changes of state since p_place: {task_id, status, at, task_type, queue, tenant_id, workflow_id}, status being PENDING or SCHEDULED (submitted), RETRYING, or how the task ended. NULL gives the present place and no events. What is committed late comes late; nothing is left out, but a change of the last second may be told twice: (task_id, status, at) tells it apart. gap = true in place: there were more than p_most, look at the tasks themselves.';

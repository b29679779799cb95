-- Reading many tasks in one statement, for callers that gather their requests, and pages of bounded cost.

-- One statement, so one snapshot: a task that moves is seen in one place.
create or replace function skiplane._documents(p_task_ids uuid[])
returns table (task_id uuid, tenant_id text, version integer, status text, document jsonb)
language plpgsql stable
    set jit = off set enable_seqscan = off set plan_cache_mode = force_generic_plan
as $$
declare
    v_first date := (select min(skiplane._id_day(x)) from unnest(p_task_ids) x);
    v_shards smallint[] := array(select distinct skiplane.task_shard(x) from unnest(p_task_ids) x);
begin
    return query
    select x.id, x.tenant_id, x.version, x.document ->> 'status', x.document
    from (
        select t.id, t.tenant_id, t.version,
            skiplane._document(t, o, case when o.id is null then w.timer end, case when o.id is null then r end, b) as document
        from skiplane.task t
        left join skiplane.outcome o on o.id = t.id and o.shard = t.shard and o.day = t.day
        left join skiplane.ready r on r.id = t.id and r.shard = t.shard
        left join (
            select y.id, y as timer from skiplane.timer y
            where y.id = any (p_task_ids) and y.shard = any (v_shards) and y.status = 'RETRYING'
            union all
            select y.id, row(y.*)::skiplane.timer from skiplane.timer_far y
            where y.id = any (p_task_ids) and y.shard = any (v_shards) and y.status = 'RETRYING'
        ) w on w.id = t.id
        left join skiplane.blocked b on t.workflow_id is not null and b.id = t.id and b.shard = t.shard
        where t.id = any (p_task_ids) and t.shard = any (v_shards) and t.day >= v_first
        union all
        select w.id, w.tenant_id, w.version, skiplane._document(skiplane._timer_task(w, null), null, w, null, null)
        from skiplane.timer w where w.id = any (p_task_ids) and w.shard = any (v_shards) and w.status = 'SCHEDULED'
        union all
        select (f.timer).id, (f.timer).tenant_id, (f.timer).version,
            skiplane._document(skiplane._timer_task(f.timer, null), null, f.timer, null, null)
        from (
            select row(y.*)::skiplane.timer as timer from skiplane.timer_far y
            where y.id = any (p_task_ids) and y.shard = any (v_shards) and y.status = 'SCHEDULED'
        ) f
    ) x;
end
$$;

comment on function skiplane._documents(uuid[]) is 'Documents of the tasks that exist, without attempts and actions, in no order.';

create or replace function skiplane.read_tasks(p_task_ids uuid[], p_within text[])
returns table (ordinal integer, version integer, document text)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set plan_cache_mode = force_generic_plan
as $$
declare
    v_first date := (select min(skiplane._id_day(x)) from unnest(p_task_ids) x);
    v_shards smallint[] := array(select distinct skiplane.task_shard(x) from unnest(p_task_ids) x);
begin
    return query
    select u.ord::integer, d.version, (d.document - 'cursor' || jsonb_build_object(
        'attempts', coalesce(a.attempts, '[]') || case when d.status = 'SUCCEEDED' then jsonb_build_array(jsonb_build_object(
            'attempt', d.document -> 'attempt', 'outcome', 'succeeded', 'worker_id', d.document -> 'worker_id',
            'started_at', d.document -> 'started_at', 'finished_at', d.document -> 'completed_at')) else '[]' end,
        'actions', coalesce(b.actions, '[]'), 'checkpoint', c.checkpoint, 'progress', c.progress))::text
    from unnest(p_task_ids, p_within) with ordinality as u (id, tenant_id, ord)
    join skiplane._documents(p_task_ids) d on d.task_id = u.id
    left join (
        select x.id, jsonb_agg(jsonb_build_object('attempt', x.attempt, 'fence', x.fence, 'outcome', x.outcome,
            'worker_id', x.worker_id, 'started_at', skiplane._utc_text(x.started_at),
            'finished_at', skiplane._utc_text(x.finished_at), 'error_type', x.error_type, 'error_message', x.error_message,
            'error_detail', x.error_detail,
            'retry_at', skiplane._utc_text(x.finished_at + make_interval(secs => x.retry_delay_s))) order by x.fence) as attempts
        from skiplane.attempt x
        where x.id = any (p_task_ids) and x.shard = any (v_shards) and x.day >= v_first group by x.id
    ) a on a.id = u.id
    left join (
        select x.task_id, jsonb_agg(jsonb_build_object('at', skiplane._utc_text(x.at), 'actor', x.actor, 'verb', x.verb,
            'detail', x.detail) order by x.n) as actions
        from skiplane.action x where x.task_id = any (p_task_ids) group by x.task_id
    ) b on b.task_id = u.id
    left join (
        select x.id, x.checkpoint, case when x.share is not null then jsonb_build_object('share', x.share, 'message', x.message,
            'at', skiplane._utc_text(x.updated_at)) end as progress
        from skiplane.checkpoint x where x.id = any (p_task_ids) and x.shard = any (v_shards)
    ) c on c.id = u.id
    where u.tenant_id is null or u.tenant_id = d.tenant_id;
end
$$;

comment on function skiplane.read_tasks(uuid[], text[]) is
'The documents of get_task for many ids at once. p_within[i] is the tenant that the asker of p_task_ids[i] is bound to, NULL for none. Ids that are unknown, or of another tenant, have no row.';

create or replace function skiplane.ended_tasks(p_task_ids uuid[])
returns table (task_id uuid, document text)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set plan_cache_mode = force_generic_plan
as $$
declare
    v_first date := (select min(skiplane._id_day(x)) from unnest(p_task_ids) x);
    v_shards smallint[] := array(select distinct skiplane.task_shard(x) from unnest(p_task_ids) x);
begin
    return query
    select o.id, jsonb_build_object('task_id', o.id, 'status', o.status, 'done', true, 'result', o.result,
        'error_type', o.error_type, 'error_message', o.error_message)::text
    from skiplane.outcome o
    where o.id = any (p_task_ids) and o.shard = any (v_shards) and o.day >= v_first;
end
$$;

comment on function skiplane.ended_tasks(uuid[]) is
'State and result of those tasks that have ended, for callers that wait for many: it touches nothing but outcomes. Who may ask is checked before.';

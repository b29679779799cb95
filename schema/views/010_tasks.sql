-- Reading for people. One statement sees each task in one place.
create or replace view skiplane.tasks as
select
    t.id as task_id,
    t.idempotency_key,
    t.task_type,
    t.queue,
    t.priority,
    coalesce(o.status::text, w.status::text, case when r.id is not null then 'PENDING' end,
        case when b.id is not null then 'BLOCKED' end, 'RUNNING') as status,
    t.payload,
    o.result,
    o.error_message,
    t.scheduled_at,
    coalesce(o.started_at, l.started[array_position(l.ids, t.id)], l.claimed_at) as started_at,
    o.finished_at as completed_at,
    t.created_at,
    coalesce(o.attempt, w.attempt, r.attempt, l.attempts[array_position(l.ids, t.id)], 0::smallint) as attempt,
    coalesce(t.max_retries, 3::smallint) as max_retries,
    coalesce(t.retry_delay_s, 5) as retry_delay_s,
    t.timeout_s as timeout_seconds,
    coalesce(o.worker_id, l.worker_id) as worker_id,
    l.until as lease_expiry,
    t.workflow_id,
    t.tenant_id,
    t.metadata,
    case
        when t.workflow_id is not null
            then (select m.name from skiplane.workflow_task m where m.id = t.id and m.shard = t.shard)
    end as task_name
from skiplane.task t
left join skiplane.outcome o on o.id = t.id and o.shard = t.shard and o.day = t.day
left join skiplane.ready r on r.id = t.id and r.shard = t.shard
left join skiplane.blocked b on t.workflow_id is not null and b.id = t.id and b.shard = t.shard
left join lateral (
    select x.status, x.attempt from skiplane.timer x where x.id = t.id and x.shard = t.shard
    union all
    select x.status, x.attempt from skiplane.timer_far x where x.id = t.id and x.shard = t.shard
    limit 1
) w on o.id is null
left join lateral skiplane._find_lease(t.id, t.shard) l
    on o.id is null and r.id is null and w.status is null and b.id is null
union all
select
    w.id, w.idempotency_key, w.task_type, w.queue, w.priority, w.status::text, w.payload, null, null, w.scheduled_at, null, null,
    w.created_at, w.attempt, coalesce(w.max_retries, 3::smallint), coalesce(w.retry_delay_s, 5), w.timeout_s, null, null,
    w.workflow_id, w.tenant_id, w.metadata,
    case
        when w.workflow_id is not null
            then (select m.name from skiplane.workflow_task m where m.id = w.id and m.shard = w.shard)
    end
from (
    select * from skiplane.timer where status = 'SCHEDULED'
    union all
    select * from skiplane.timer_far where status = 'SCHEDULED'
) w;

comment on view skiplane.tasks is
'All tasks with their state. A filter on task_id, workflow_id or tenant_id is answered from indexes; a look at everything is for small installations.';

create or replace view skiplane.dead_letter_queue as
select
    d.id as task_id,
    d.task_type,
    d.queue,
    d.tenant_id,
    d.died_at,
    d.error_type,
    d.error_message,
    (d.task ->> 'payload')::json as payload
from skiplane.dead d;

comment on view skiplane.dead_letter_queue is 'Tasks whose retries are used up.';

create or replace view skiplane.queues as
select
    q.queue,
    q.priority,
    sum(q.depth)::bigint as depth,
    min(q.oldest) as oldest_waiting,
    min(d.at) as refreshed_at
from (
    select distinct on (x.shard) x.shard, x.at, x.queues from skiplane.depth x order by x.shard, x.n desc
) d
cross join lateral jsonb_to_recordset(d.queues) as q (queue text, priority smallint, depth bigint, oldest timestamptz)
group by q.queue, q.priority;

comment on view skiplane.queues is 'Waiting tasks per queue and priority, as counted at refreshed_at.';

create or replace view skiplane.workers as
select
    w.worker_id,
    w.name,
    w.queues,
    w.task_types,
    w.concurrency,
    w.host,
    w.pid,
    w.started_at,
    w.heartbeat_at,
    case
        when w.heartbeat_at < skiplane.clock() - make_interval(secs => 2 * w.lease_seconds) then 'LOST'
        when w.draining then 'DRAINING'
        else 'RUNNING'
    end as status,
    (select coalesce(sum(cardinality(l.ids)), 0) from skiplane.lease l where l.worker_id = w.worker_id)::integer as holding
from skiplane.worker w;

comment on view skiplane.workers is 'Worker processes: state, last heartbeat, and how many tasks each holds.';

-- Partitions: made ahead, dropped when they are old and nothing live is in them.
-- task, outcome and attempt by the UTC day of activation, workflows by that of submission, fire by that of the fire; timer
-- by the UTC day of the due time.
-- A new partition is made as a table of its own and attached: ATTACH lets readers and writers go on, where
-- CREATE TABLE ... PARTITION OF would stop them. Maintenance gives up every lock within a second; its next run tries
-- again. A drop stops everybody, so what is slow comes before it, and its locks are given up sooner than
-- deadlock_timeout: whoever is in each other's way, no writer is the victim.

create or replace function skiplane._day_bound(p_parent text, p_day date) returns text
language sql immutable
as $$
    select case p_parent when 'timer' then quote_literal(p_day::text || ' 00:00:00+00') else quote_literal(p_day::text) end
$$;

comment on function skiplane._day_bound(text, date) is 'A partition bound: midnight UTC for timer, the day for the others.';

-- Whether a day is covered, whoever made the partition and whatever its name is.
create or replace function skiplane._has_partition(p_parent text, p_day date) returns boolean
language plpgsql stable set datestyle = 'ISO, YMD' set timezone = 'UTC'
as $$
begin
    return exists (
        select from pg_inherits i join pg_class c on c.oid = i.inhrelid
        cross join lateral regexp_match(pg_get_expr(c.relpartbound, c.oid), 'FROM [(]''([^'']+)''[)] TO [(]''([^'']+)''[)]') m
        where i.inhparent = format('skiplane.%I', p_parent)::regclass
            and p_day::timestamptz >= m[1]::timestamptz and p_day::timestamptz < m[2]::timestamptz);
end
$$;

comment on function skiplane._has_partition(text, date) is 'Whether a partitioned table covers a UTC day.';

-- By name (ours and that of pg_partman 5, then that of pg_partman 4): one look into the catalog cache, for every submit.
-- Inlined by the planner: keep it one plain expression.
create or replace function skiplane._is_prepared(p_parent text, p_day date) returns boolean
language sql volatile
as $$
    select coalesce(to_regclass('skiplane.' || p_parent || to_char(p_day, '"_p"YYYYMMDD')),
        to_regclass('skiplane.' || p_parent || to_char(p_day, '"_p"YYYY_MM_DD'))) is not null
$$;

comment on function skiplane._is_prepared(text, date) is 'Whether the partition of a day is there, told by its name.';

-- Nothing that becomes active may fail because maintenance has been away for longer than it had prepared.
create or replace function skiplane._active_day(p_now timestamptz) returns date
language plpgsql volatile
as $$
declare v_day date := skiplane._utc_day(p_now);
begin
    if not skiplane._is_prepared('task', v_day) then
        -- Whoever else makes them holds these, as attaching does, and has to end first; writers of other days go on.
        -- Locks on tables, not an advisory one: they bring the catalog up to date, with an old snapshot, too.
        lock table only skiplane.outcome, only skiplane.attempt, only skiplane.workflow, only skiplane.workflow_state,
            only skiplane.workflow_task, only skiplane.task in share update exclusive mode;
        if not skiplane._is_prepared('task', v_day) then
            -- task comes last: where it has a partition the others have theirs.
            perform skiplane._make_partition(x, v_day)
            from unnest('{outcome,attempt,workflow,workflow_state,workflow_task,task}'::text[]) x;
        end if;
    end if;
    return v_day;
end
$$;

comment on function skiplane._active_day(timestamptz) is 'The UTC day, with its partitions made where maintenance has not.';

create or replace function skiplane._make_partition(p_parent text, p_day date) returns boolean
language plpgsql volatile set timezone = 'UTC'
as $$
declare v_name text := format('%s_p%s', p_parent, to_char(p_day, coalesce(skiplane._partman_pattern(p_parent), 'YYYYMMDD')));
begin
    if skiplane._has_partition(p_parent, p_day) then
        return false;
    end if;
    execute format('create table skiplane.%I (like skiplane.%I including defaults including constraints including storage)',
        v_name, p_parent);
    if p_parent = 'timer' then
        perform skiplane._move_far(v_name, p_day);
        execute format('alter table skiplane.%I set (autovacuum_vacuum_scale_factor = 0, '
            'autovacuum_vacuum_threshold = 20000, autovacuum_vacuum_cost_delay = 0)', v_name);
    elsif p_parent = 'workflow_state' then
        -- Each end of a task updates its row: with room in the page that touches no index.
        execute format('alter table skiplane.%I set (fillfactor = 40)', v_name);
    end if;
    execute format('alter table skiplane.%I attach partition skiplane.%I for values from (%s) to (%s)',
        p_parent, v_name, skiplane._day_bound(p_parent, p_day), skiplane._day_bound(p_parent, p_day + 1));
    return true;
end
$$;

comment on function skiplane._make_partition(text, date) is 'Makes the partition of a day; false when there is one.';

-- Rows that waited beyond the partitions; those that are locked just now are promoted from where they are.
create or replace function skiplane._move_far(p_table text, p_day date) returns void
language plpgsql volatile set timezone = 'UTC' set jit = off set enable_seqscan = off
as $$
declare
    r skiplane.timer_far;
    v_ids uuid[];
begin
    loop
        v_ids := array(
            select w.id from skiplane.timer_far w
            where w.due_at >= p_day::timestamptz and w.due_at < (p_day + 1)::timestamptz
            order by w.due_at limit 5000 for update skip locked);
        exit when v_ids = '{}';
        for r in
            delete from skiplane.timer_far w
            where w.id = any (v_ids) and w.due_at >= p_day::timestamptz and w.due_at < (p_day + 1)::timestamptz returning *
        loop
            execute format('insert into skiplane.%I select ($1).*', p_table) using r;
        end loop;
    end loop;
end
$$;

comment on function skiplane._move_far(text, date) is 'Moves the far rows of a day into the table that becomes its partition.';

create or replace function skiplane._partitions_before(p_parent text, p_day date) returns table (child regclass, day_from date)
language plpgsql stable set datestyle = 'ISO, YMD' set timezone = 'UTC'
as $$
begin
    return query
    select c.oid::regclass, left(m[1], 10)::date from pg_inherits i join pg_class c on c.oid = i.inhrelid
    cross join lateral regexp_match(pg_get_expr(c.relpartbound, c.oid), 'FROM [(]''([^'']+)''[)] TO [(]''([^'']+)''[)]') m
    where i.inhparent = format('skiplane.%I', p_parent)::regclass and m[2]::timestamptz <= p_day::timestamptz
    order by 2;
end
$$;

comment on function skiplane._partitions_before(text, date) is 'Partitions that end before a UTC day, oldest first.';

-- Nothing live: no task of that day waits, runs or is to be retried.
create or replace function skiplane._day_is_over(p_parent text, p_day date) returns boolean
language plpgsql volatile set timezone = 'UTC'
as $$
begin
    if p_parent = 'timer' then
        return not exists (select from skiplane.timer w
            where w.due_at >= p_day::timestamptz and w.due_at < (p_day + 1)::timestamptz);
    end if;
    if p_parent = 'fire' then
        return true;
    end if;
    return not exists (select from skiplane.task t where t.day = p_day and not exists (
        select from skiplane.outcome o where o.id = t.id and o.shard = t.shard and o.day = p_day) limit 1)
        and not exists (select from skiplane.workflow_state s where s.day = p_day and s.completed_at is null);
end
$$;

comment on function skiplane._day_is_over(text, date) is
'Whether nothing waits for a day any more (timer), or every task that became active and every workflow that was submitted on it has ended (task).';

create or replace function skiplane._day_partitions(p_parent text, p_day date) returns table (parent text, child regclass)
language sql stable
as $$
    select x.parent, p.child
    from unnest(case p_parent when 'timer' then '{timer}' when 'fire' then '{fire}'
        else '{attempt,outcome,workflow_task,workflow_state,workflow,task}' end::text[])
        with ordinality as x (parent, ord)
    cross join lateral skiplane._partitions_before(x.parent, p_day + 1) p
    where p.day_from = p_day order by x.ord
$$;

comment on function skiplane._day_partitions(text, date) is 'The partitions that go together: those of timer, or of task and its history.';

-- Writers are kept out of the old partitions first, and only then is it looked whether they are over: a task of the
-- day may be retried, and a row may be committed, at any time before.
create or replace function skiplane._close_day(p_parent text, p_day date) returns boolean
language plpgsql volatile set lock_timeout = '500ms'
as $$
declare r record;
begin
    if not skiplane._day_is_over(p_parent, p_day) then
        return false;
    end if;
    for r in select * from skiplane._day_partitions(p_parent, p_day) loop
        execute format('lock table %s in share mode', r.child);
    end loop;
    return skiplane._day_is_over(p_parent, p_day);
exception when lock_not_available then
    return false;
end
$$;

comment on function skiplane._close_day(text, date) is 'Stops writes to the partitions of a day that is over; false when it is not, or is in use.';

-- All or none: tasks whose outcomes are gone would look alive for ever.
create or replace function skiplane._drop_day(p_parent text, p_day date) returns text[]
language plpgsql volatile set lock_timeout = '500ms'
as $$
declare
    v_dropped text[] := '{}';
    r record;
begin
    for r in select * from skiplane._day_partitions(p_parent, p_day) loop
        execute format('alter table skiplane.%I detach partition %s', r.parent, r.child);
        execute format('drop table %s', r.child);
        v_dropped := v_dropped || format('dropped %s for %s', r.parent, p_day);
    end loop;
    return v_dropped;
exception when lock_not_available then
    return '{}';
end
$$;

comment on function skiplane._drop_day(text, date) is 'Drops a closed day; nothing when somebody reads there, to be tried again later.';

create or replace function skiplane.maintain_partitions(p_days_ahead integer default 7) returns setof text
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_today date := skiplane._utc_day(skiplane.clock());
    v_keep integer := (select (value #>> '{}')::integer from skiplane.setting where name = 'retention_days');
    v_parent text;
    v_horizon date;
    v_made boolean := false;
    v_parents text[] := '{}';
    v_days date[] := '{}';
    v_dropped text[];
    r record;
begin
    -- One at a time; a second one has nothing to do.
    if not pg_try_advisory_xact_lock(1397442898, 0) then
        return;
    end if;
    -- task after the others: see _active_day.
    foreach v_parent in array '{outcome,attempt,workflow,workflow_state,workflow_task,task,fire,timer}'::text[] loop
        return query select * from skiplane._make_ahead(v_parent, v_today, p_days_ahead);
        v_made := v_made or found;
    end loop;
    v_horizon := v_today;
    while skiplane._has_partition('timer', v_horizon) loop
        v_horizon := v_horizon + 1;
    end loop;
    insert into skiplane.setting (name, value) values ('timer_horizon', to_jsonb(v_horizon::text))
    on conflict (name) do update set value = excluded.value where setting.value <> excluded.value;
    if v_made then
        -- Looking through old days takes long: those who wait for the new ones have them first. The next run drops.
        return;
    end if;
    for r in
        select 'timer' as parent, p.day_from from skiplane._partitions_before('timer', v_today - 1) p
        union all select 'task', p.day_from from skiplane._partitions_before('task', v_today - v_keep) p
        union all select 'fire', p.day_from from skiplane._partitions_before('fire', v_today - v_keep) p
    loop
        if skiplane._close_day(r.parent, r.day_from) then
            v_parents := v_parents || r.parent;
            v_days := v_days || r.day_from;
        end if;
        -- The next run goes on.
        exit when cardinality(v_days) >= 50;
    end loop;
    for i in 1 .. cardinality(v_days) loop
        v_dropped := skiplane._drop_day(v_parents[i], v_days[i]);
        -- Whoever was in the way would be for the other days, too.
        exit when v_dropped = '{}';
        return query select * from unnest(v_dropped);
    end loop;
end
$$;

comment on function skiplane.maintain_partitions(integer) is
'Makes partitions for the coming days and drops what is older than setting retention_days and has nothing live in it. Safe at any time and by any number of callers; answers what it did.';

create or replace function skiplane._make_ahead(p_parent text, p_today date, p_days_ahead integer) returns setof text
language plpgsql volatile set lock_timeout = '1s'
as $$
begin
    -- A managed installation may have handed the table to pg_partman: then that makes the partitions.
    if skiplane._partman_pattern(p_parent) is not null then
        return;
    end if;
    for v_ahead in -1 .. p_days_ahead loop
        continue when p_parent = 'task' and not (
            select bool_and(skiplane._has_partition(x, p_today + v_ahead))
            from unnest('{outcome,attempt,workflow,workflow_state,workflow_task}'::text[]) x);
        begin
            if skiplane._make_partition(p_parent, p_today + v_ahead) then
                return next format('made %s for %s', p_parent, p_today + v_ahead);
            end if;
        exception when lock_not_available then
            return next format('%s for %s is held up by another session; tried again later', p_parent, p_today + v_ahead);
        end;
    end loop;
end
$$;

comment on function skiplane._make_ahead(text, date, integer) is 'Makes the partitions of the coming days.';

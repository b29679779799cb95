-- Partitions: made ahead, dropped when they are old and nothing live is in them.
-- task, outcome and attempt by the UTC day of activation; timer by the UTC day of the due time.
-- A new partition is made as a table of its own and attached: ATTACH lets readers and writers go on, where
-- CREATE TABLE ... PARTITION OF would stop them. Every lock is given up after a second; the next run tries again.

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
        cross join lateral regexp_match(pg_get_expr(c.relpartbound, c.oid), 'FROM \(''([^'']+)''\) TO \(''([^'']+)''\)') m
        where i.inhparent = format('skiplane.%I', p_parent)::regclass
            and p_day::timestamptz >= m[1]::timestamptz and p_day::timestamptz < m[2]::timestamptz);
end
$$;

comment on function skiplane._has_partition(text, date) is 'Whether a partitioned table covers a UTC day.';

create or replace function skiplane._make_partition(p_parent text, p_day date) returns boolean
language plpgsql volatile set timezone = 'UTC' set lock_timeout = '1s'
as $$
declare v_name text := format('%s_p%s', p_parent, to_char(p_day, 'YYYYMMDD'));
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
        for r in delete from skiplane.timer_far w where w.id = any (v_ids) returning * loop
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
    cross join lateral regexp_match(pg_get_expr(c.relpartbound, c.oid), 'FROM \(''([^'']+)''\) TO \(''([^'']+)''\)') m
    where i.inhparent = format('skiplane.%I', p_parent)::regclass and m[2]::timestamptz <= p_day::timestamptz
    order by 2;
end
$$;

comment on function skiplane._partitions_before(text, date) is 'Partitions that end before a UTC day, oldest first.';

-- Nothing live: no task of that day waits, runs or is to be retried.
create or replace function skiplane._day_is_over(p_day date) returns boolean
language plpgsql volatile
as $$
begin
    return not exists (select from skiplane.task t where t.day = p_day and not exists (
        select from skiplane.outcome o where o.id = t.id and o.shard = t.shard and o.day = p_day) limit 1);
end
$$;

comment on function skiplane._day_is_over(date) is 'Whether every task that became active on a day has ended.';

create or replace function skiplane._drop_partition(p_child regclass, p_parent text) returns boolean
language plpgsql volatile set lock_timeout = '1s'
as $$
begin
    execute format('alter table skiplane.%I detach partition %s', p_parent, p_child);
    execute format('drop table %s', p_child);
    return true;
exception when lock_not_available then
    return false;
end
$$;

comment on function skiplane._drop_partition(regclass, text) is 'Drops a partition; false when somebody holds it, to be tried again later.';

create or replace function skiplane.maintain_partitions(p_days_ahead integer default 7) returns setof text
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_today date := skiplane._utc_day(skiplane.clock());
    v_keep integer := (select (value #>> '{}')::integer from skiplane.setting where name = 'retention_days');
    v_parent text;
    v_horizon date;
    r record;
begin
    -- One at a time; a second one has nothing to do.
    if not pg_try_advisory_xact_lock(1397442898, 0) then
        return;
    end if;
    foreach v_parent in array '{task,outcome,attempt,timer}'::text[] loop
        return query select * from skiplane._make_ahead(v_parent, v_today, p_days_ahead);
    end loop;
    v_horizon := v_today;
    while skiplane._has_partition('timer', v_horizon) loop
        v_horizon := v_horizon + 1;
    end loop;
    insert into skiplane.setting (name, value) values ('timer_horizon', to_jsonb(v_horizon::text))
    on conflict (name) do update set value = excluded.value where setting.value <> excluded.value;
    for r in select * from skiplane._partitions_before('timer', v_today - 1) loop
        if skiplane._timer_is_empty(r.child) and skiplane._drop_partition(r.child, 'timer') then
            return next format('dropped timer for %s', r.day_from);
        end if;
    end loop;
    for r in select * from skiplane._partitions_before('task', v_today - v_keep) loop
        continue when not skiplane._day_is_over(r.day_from);
        return query select * from skiplane._drop_day(r.day_from);
    end loop;
end
$$;

comment on function skiplane.maintain_partitions(integer) is
'Makes partitions for the coming days and drops what is older than setting retention_days and has nothing live in it. Safe at any time and by any number of callers; answers what it did.';

create or replace function skiplane._make_ahead(p_parent text, p_today date, p_days_ahead integer) returns setof text
language plpgsql volatile
as $$
begin
    -- A managed installation may have handed the table to pg_partman: then that makes the partitions.
    if skiplane._partman_maintains(p_parent) then
        return;
    end if;
    for v_ahead in -1 .. p_days_ahead loop
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

create or replace function skiplane._timer_is_empty(p_child regclass) returns boolean
language plpgsql volatile
as $$
declare v_any boolean;
begin
    execute format('select exists (select from %s)', p_child) into v_any;
    return not v_any;
end
$$;

comment on function skiplane._timer_is_empty(regclass) is 'Whether nothing waits in a partition of timer.';

create or replace function skiplane._drop_day(p_day date) returns setof text
language plpgsql volatile
as $$
declare
    v_parent text;
    r record;
begin
    foreach v_parent in array '{attempt,outcome,task}'::text[] loop
        for r in select * from skiplane._partitions_before(v_parent, p_day + 1) p where p.day_from = p_day loop
            if skiplane._drop_partition(r.child, v_parent) then
                return next format('dropped %s for %s', v_parent, r.day_from);
            end if;
        end loop;
    end loop;
end
$$;

comment on function skiplane._drop_day(date) is 'Drops the history of one day.';

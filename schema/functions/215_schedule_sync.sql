-- Schedules that an app declares in its code: stored, changed and deleted until they are what it declares.
-- Locks: the advisory lock of the owner, then schedules one by one in the order of tenant and name.

create or replace function skiplane._read_declared(p_object jsonb, p_now timestamptz) returns skiplane.schedule
language plpgsql volatile
as $$
declare
    v_own text[] := '{name,payload,next_fire_time}';
    s skiplane.schedule;
begin
    s := skiplane._read_schedule(skiplane._without_nulls(p_object - v_own), p_now);
    s.name := skiplane._text_field(p_object, 'name', null);
    perform skiplane._check_name('name', s.name);
    perform skiplane._check_json('payload', (p_object -> 'payload')::text, 1048576);
    s.payload := coalesce(p_object -> 'payload', '{}')::json;
    s.next_fire_time := skiplane._time_field(p_object, 'next_fire_time');
    return s;
end
$$;

comment on function skiplane._read_declared(jsonb, timestamptz) is 'Checks one declared schedule; next_fire_time as the caller has computed it.';

create or replace function skiplane._read_declarations(p_schedules jsonb, p_now timestamptz) returns skiplane.schedule[]
language plpgsql volatile
as $$
declare
    v_all skiplane.schedule[] := '{}';
    v_object jsonb;
    v_place integer := 0;
    v_state text;
    v_field text;
    v_message text;
    v_detail text;
    v_hint text;
    r record;
begin
    if p_schedules is null or jsonb_typeof(p_schedules) <> 'array' then
        perform skiplane._refuse('SK001', 'schedules', p_schedules::text, 'schedules is not an array',
            'give a JSON array of schedule objects');
    elsif jsonb_array_length(p_schedules) > 10000 then
        perform skiplane._refuse('SK007', 'schedules', jsonb_array_length(p_schedules) || ' schedules', 'these are too many schedules',
            'give at most 10000, or several owners');
    end if;
    begin
        for v_object in select x.value from jsonb_array_elements(p_schedules) with ordinality as x (value, ord) order by x.ord loop
            if jsonb_typeof(v_object) <> 'object' then
                perform skiplane._refuse('SK001', 'object', v_object::text, 'a schedule is not an object', 'give a JSON object');
            end if;
            v_all[v_place + 1] := skiplane._read_declared(v_object, p_now);
            v_place := v_place + 1;
        end loop;
    exception when sqlstate 'SK001' or sqlstate 'SK007' then
        get stacked diagnostics v_state = returned_sqlstate, v_field = column_name, v_message = message_text,
            v_detail = pg_exception_detail, v_hint = pg_exception_hint;
        perform skiplane._refuse(v_state, format('schedules[%s].%s', v_place, v_field), v_detail, v_message, v_hint);
    end;
    select d.name, max(d.ordinality) - 1 as place into r from unnest(v_all) with ordinality as d
    group by d.tenant_id, d.name having count(*) > 1 order by 2 limit 1;
    if found then
        perform skiplane._refuse('SK001', format('schedules[%s].name', r.place), r.name, format('two schedules are named "%s"', r.name),
            'give each schedule of a tenant a name of its own');
    end if;
    return v_all;
end
$$;

comment on function skiplane._read_declarations(jsonb, timestamptz) is 'Checks declared schedules; a refusal names the place in the list.';

-- What an edit would have to change: field, from and to. Whether it is paused is an operator's affair unless the code says it.
create or replace function skiplane._schedule_changes(p_stored skiplane.schedule, p_declared skiplane.schedule, p_enabled boolean)
returns jsonb language sql stable
as $$
    select coalesce(jsonb_object_agg(n.key, jsonb_build_object('from', o.value, 'to', n.value)), '{}')
    from jsonb_each(skiplane._schedule_options(p_declared) || jsonb_build_object('payload', p_declared.payload)) n
    join jsonb_each(skiplane._schedule_options(p_stored) || jsonb_build_object('payload', p_stored.payload)) o on o.key = n.key
    where n.value <> o.value and (p_enabled or n.key <> 'enabled')
$$;

comment on function skiplane._schedule_changes(skiplane.schedule, skiplane.schedule, boolean) is
'In which fields a declared schedule differs from the stored one.';

-- p_declared is NULL when the code does not declare the schedule any more.
create or replace function skiplane._sync_schedule(
    p_owner text, p_id uuid, p_declared skiplane.schedule, p_enabled boolean, p_dry_run boolean, p_adopt boolean,
    p_now timestamptz, p_actor text
) returns jsonb language plpgsql volatile
    set jit = off set enable_seqscan = off
as $$
declare
    d skiplane.schedule := p_declared;
    s skiplane.schedule;
    v_changes jsonb := '{}';
    v_what text := 'none';
begin
    if p_id is null then
        d.owner := p_owner;
        if p_dry_run then
            d.id := null;
        else
            d := skiplane._store_schedule(d, p_now, p_actor);
        end if;
        return jsonb_build_object('change', 'create', 'name', d.name, 'tenant_id', d.tenant_id, 'cron_id', d.id, 'fields', v_changes);
    end if;
    s := skiplane._lock_schedule(p_id);
    if d.name is null then
        if not p_dry_run then
            perform skiplane.delete_cron_task(p_id, p_actor);
        end if;
        return jsonb_build_object('change', 'delete', 'name', s.name, 'tenant_id', s.tenant_id, 'cron_id', s.id, 'fields', v_changes);
    end if;
    if s.owner is distinct from p_owner then
        if not p_adopt then
            perform skiplane._refuse('SK003', 'name', s.name, format('the schedule "%s" belongs to %s', s.name,
                coalesce('the app ' || s.owner, 'nobody''s code')), 'take another name, or adopt it (p_adopt, --adopt)');
        end if;
        v_what := 'adopt';
        if not p_dry_run then
            update skiplane.schedule x set owner = p_owner, version = s.version + 1 where x.id = s.id and x.shard = s.shard;
            s.version := s.version + 1;
            perform skiplane._log_action(s.id, p_actor, 'adopt', jsonb_build_object('from', s.owner, 'owner', p_owner));
        end if;
    end if;
    v_changes := skiplane._schedule_changes(s, d, p_enabled);
    if v_changes <> '{}' then
        v_what := case v_what when 'none' then 'edit' else v_what end;
        if not p_dry_run then
            perform skiplane.edit_cron_task(s.id, s.version,
                (select jsonb_object_agg(c.key, c.value -> 'to') from jsonb_each(v_changes) c), d.next_fire_time, p_actor);
        end if;
    end if;
    return jsonb_build_object('change', v_what, 'name', s.name, 'tenant_id', s.tenant_id, 'cron_id', s.id, 'fields', v_changes);
end
$$;

comment on function skiplane._sync_schedule(text, uuid, skiplane.schedule, boolean, boolean, boolean, timestamptz, text) is
'Makes one stored schedule what is declared; tells what that took.';

create or replace function skiplane.sync_cron_tasks(
    p_owner text, p_schedules jsonb, p_dry_run boolean default false, p_adopt boolean default false, p_actor text default null
) returns setof jsonb language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off
as $$
declare
    v_now timestamptz := skiplane.clock();
    v_declared skiplane.schedule[];
    v_tenants text[];
    v_names text[];
    v_id uuid;
    v_place integer;
    r record;
begin
    perform skiplane._check_name('owner', p_owner);
    v_declared := skiplane._read_declarations(p_schedules, v_now);
    -- The same app elsewhere waits here, and then finds what this call has done.
    perform pg_advisory_xact_lock(1397442902, hashtext(p_owner));
    select array_agg(x.tenant_id), array_agg(x.name) into v_tenants, v_names from skiplane.schedule x where x.owner = p_owner;
    for r in
        select u.tenant_id, u.name from unnest(v_tenants, v_names) as u (tenant_id, name)
        union
        select d.tenant_id, d.name from unnest(v_declared) d
        order by 1, 2
    loop
        v_id := (select x.id from skiplane.schedule x where x.tenant_id = r.tenant_id and x.name = r.name limit 1);
        v_place := (select d.ordinality from unnest(v_declared) with ordinality as d where d.tenant_id = r.tenant_id and d.name = r.name);
        continue when v_id is null and v_place is null;
        return next skiplane._sync_schedule(p_owner, v_id, v_declared[v_place],
            coalesce(jsonb_typeof(p_schedules -> (v_place - 1) -> 'enabled') = 'boolean', false), coalesce(p_dry_run, false),
            coalesce(p_adopt, false), v_now, p_actor);
    end loop;
end
$$;

comment on function skiplane.sync_cron_tasks(text, jsonb, boolean, boolean, text) is
'Makes the schedules of an owner, an app, what its code declares, in one transaction: p_schedules is an array of objects {name, cron_expression, task_type, payload} with any option of create_cron_task. Those that are missing are created, those that differ are edited, those of the same owner that are not declared any more are deleted; no other is touched. A name that belongs to somebody else is refused (SK003) unless p_adopt is true. Whether a schedule is paused stays as it is unless enabled is given. p_dry_run changes nothing. One answer per schedule: change (create, edit, adopt, delete or none), name, tenant_id, cron_id, and fields {field: {from, to}}.';

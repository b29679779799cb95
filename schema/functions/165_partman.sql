-- pg_partman, where the server has it: it makes the daily partitions of history; retention stays with us, since only we know
-- what is still live. 4.7 and 5.x differ in argument names and types.

create or replace function skiplane._partman_schema() returns text
language sql stable
as $$ select n.nspname::text from pg_extension e join pg_namespace n on n.oid = e.extnamespace where e.extname = 'pg_partman' $$;

comment on function skiplane._partman_schema() is 'Schema of pg_partman, NULL where it is not installed.';

create or replace function skiplane._partman_pattern(p_parent text) returns text
language plpgsql volatile
as $$
declare
    v_config text := quote_ident(skiplane._partman_schema()) || '.part_config';
    v_pattern text;
begin
    if v_config is null or not has_schema_privilege(skiplane._partman_schema(), 'usage')
        or not has_table_privilege(v_config, 'select') then
        return null;
    end if;
    execute format('select datetime_string from %s where parent_table = %L', v_config, 'skiplane.' || p_parent) into v_pattern;
    return v_pattern;
end
$$;

comment on function skiplane._partman_pattern(text) is
'How pg_partman writes a day in names of partitions of a table; NULL when the table has not been handed to it.';

-- What is there already must have the names that pg_partman would give: it finds its partitions by them.
create or replace function skiplane._rename_partitions(p_parent text, p_pattern text) returns void
language plpgsql volatile set timezone = 'UTC' set lock_timeout = '1s'
as $$
declare
    r record;
    v_name text;
begin
    for r in
        select p.day_from, c.relname from skiplane._partitions_before(p_parent, 'infinity') p join pg_class c on c.oid = p.child
    loop
        v_name := format('%s_p%s', p_parent, to_char(r.day_from, p_pattern));
        if v_name <> r.relname then
            execute format('alter table skiplane.%I rename to %I', r.relname, v_name);
        end if;
    end loop;
end
$$;

comment on function skiplane._rename_partitions(text, text) is 'Gives partitions the names that pg_partman gives.';

create or replace function skiplane.use_partman(p_days_ahead integer default 7) returns setof text
language plpgsql volatile set search_path = pg_catalog, pg_temp set timezone = 'UTC'
as $$
declare
    v_schema text := skiplane._partman_schema();
    v_major integer := (select split_part(extversion, '.', 1)::integer from pg_extension where extname = 'pg_partman');
    v_owner text := (select pg_get_userbyid(relowner) from pg_class where oid = 'skiplane.task'::regclass);
    v_parent text;
    v_child regclass;
begin
    if v_schema is null then
        perform skiplane._refuse('SK003', 'pg_partman', null, 'pg_partman is not installed in this database',
            'create extension pg_partman, or leave the partitions to maintain_partitions');
    end if;
    -- maintain_partitions runs as the owner, and looks there whose a table is.
    if not has_schema_privilege(v_owner, v_schema, 'usage') then
        execute format('grant usage on schema %I to %I', v_schema, v_owner);
    end if;
    if not has_table_privilege(v_owner, format('%I.part_config', v_schema), 'select') then
        execute format('grant select on %I.part_config to %I', v_schema, v_owner);
    end if;
    foreach v_parent in array '{outcome,attempt,task}'::text[] loop
        continue when skiplane._partman_pattern(v_parent) is not null;
        perform skiplane._rename_partitions(v_parent, case when v_major >= 5 then 'YYYYMMDD' else 'YYYY_MM_DD' end);
        if v_major >= 5 then
            execute format('select %I.create_parent(p_parent_table => %L, p_control => ''day'', p_interval => ''1 day'', '
                'p_type => ''range'', p_premake => %s, p_default_table => false)',
                v_schema, 'skiplane.' || v_parent, p_days_ahead);
        else
            execute format('select %I.create_parent(p_parent_table => %L, p_control => ''day'', p_type => ''native'', '
                'p_interval => ''1 day'', p_premake => %s)', v_schema, 'skiplane.' || v_parent, p_days_ahead);
            execute format('drop table if exists skiplane.%I', v_parent || '_default');
        end if;
        -- Whoever runs its maintenance: the partitions are the owner's, who drops them.
        execute format('update %I.part_config set infinite_time_partitions = true, retention = null, inherit_privileges = true '
            'where parent_table = %L', v_schema, 'skiplane.' || v_parent);
        for v_child in select p.child from skiplane._partitions_before(v_parent, 'infinity') p loop
            execute format('alter table %s owner to %I', v_child, v_owner);
        end loop;
        return next format('%s is maintained by pg_partman', v_parent);
    end loop;
end
$$;

comment on function skiplane.use_partman(integer) is
'Hands the making of partitions of task, outcome and attempt to pg_partman; run its maintenance as usual. Dropping old days stays with maintain_partitions.';

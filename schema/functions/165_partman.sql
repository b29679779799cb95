-- pg_partman, where the server has it: it makes the same daily partitions; retention stays with us, since only we know
-- what is still live. 4.7 and 5.x differ in argument names and types.

create or replace function skiplane._partman_schema() returns text
language sql stable
as $$ select n.nspname::text from pg_extension e join pg_namespace n on n.oid = e.extnamespace where e.extname = 'pg_partman' $$;

comment on function skiplane._partman_schema() is 'Schema of pg_partman, NULL where it is not installed.';

create or replace function skiplane._partman_maintains(p_parent text) returns boolean
language plpgsql volatile
as $$
declare
    v_schema text := skiplane._partman_schema();
    v_any boolean := false;
begin
    if v_schema is not null and to_regclass(format('%I.part_config', v_schema)) is not null
        and has_table_privilege(to_regclass(format('%I.part_config', v_schema)), 'select') then
        execute format('select exists (select from %I.part_config where parent_table = %L)', v_schema, 'skiplane.' || p_parent)
        into v_any;
    end if;
    return v_any;
end
$$;

comment on function skiplane._partman_maintains(text) is 'Whether a table has been handed to pg_partman.';

create or replace function skiplane.use_partman(p_days_ahead integer default 7) returns setof text
language plpgsql volatile set search_path = pg_catalog, pg_temp set timezone = 'UTC'
as $$
declare
    v_schema text := skiplane._partman_schema();
    v_major integer := (select split_part(extversion, '.', 1)::integer from pg_extension where extname = 'pg_partman');
    v_parent text;
begin
    if v_schema is null then
        perform skiplane._refuse('SK003', 'pg_partman', null, 'pg_partman is not installed in this database',
            'create extension pg_partman, or leave the partitions to maintain_partitions');
    end if;
    foreach v_parent in array '{task,outcome,attempt,timer}'::text[] loop
        continue when skiplane._partman_maintains(v_parent);
        if v_major >= 5 then
            execute format('select %I.create_parent(p_parent_table => %L, p_control => %L, p_interval => ''1 day'', '
                'p_type => ''range'', p_premake => %s, p_default_table => false)',
                v_schema, 'skiplane.' || v_parent, case v_parent when 'timer' then 'due_at' else 'day' end, p_days_ahead);
        else
            execute format('select %I.create_parent(p_parent_table => %L, p_control => %L, p_type => ''native'', '
                'p_interval => ''1 day'', p_premake => %s)',
                v_schema, 'skiplane.' || v_parent, case v_parent when 'timer' then 'due_at' else 'day' end, p_days_ahead);
            execute format('drop table if exists skiplane.%I', v_parent || '_default');
        end if;
        execute format('update %I.part_config set infinite_time_partitions = true, retention = null where parent_table = %L',
            v_schema, 'skiplane.' || v_parent);
        return next format('%s is maintained by pg_partman', v_parent);
    end loop;
end
$$;

comment on function skiplane.use_partman(integer) is
'Hands the making of partitions to pg_partman; run its maintenance as usual. Dropping old days stays with maintain_partitions.';

-- What tasks of type skiplane.sql may call. The worker asks prepare_procedure, becomes the listed role, and runs the
-- statement that it got, in that order: nothing of a payload is ever SQL.

create or replace function skiplane.allow_procedure(p_procedure text, p_role text, p_actor text default null) returns text
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_procedure regprocedure;
    v_role pg_roles;
begin
    begin
        v_procedure := case when p_procedure like '%(%' then p_procedure::regprocedure else p_procedure::regproc::regprocedure end;
    exception when undefined_function or ambiguous_function or invalid_schema_name or syntax_error or invalid_text_representation then
        perform skiplane._refuse('SK001', 'procedure', p_procedure, 'no such procedure, or more than one: ' || sqlerrm,
            'give its schema, name and argument types, such as app.close_month(integer)');
    end;
    if exists (select from pg_proc p where p.oid = v_procedure
        and (p.pronamespace in ('skiplane'::regnamespace, 'pg_catalog'::regnamespace) or p.prokind not in ('f', 'p')))
    then
        perform skiplane._refuse('SK001', 'procedure', p_procedure, 'this is no procedure of an application',
            'give a function or procedure of a schema of your own');
    end if;
    select * into v_role from pg_roles r where r.rolname = p_role;
    if v_role.rolname is null then
        perform skiplane._refuse('SK001', 'role', p_role, 'no such role', 'make a role with just the rights that the procedure needs');
    elsif v_role.rolsuper or v_role.rolcreaterole or v_role.rolbypassrls or v_role.rolreplication or left(p_role, 3) = 'pg_'
        or pg_has_role(v_role.oid, current_user, 'member') or exists (
            select from pg_roles s where s.rolname in ('pg_read_server_files', 'pg_write_server_files', 'pg_execute_server_program')
                and pg_has_role(v_role.oid, s.oid, 'member'))
    then
        perform skiplane._refuse('SK001', 'role', p_role, 'this role may too much', 'make a role with just the rights that the procedure needs');
    elsif not has_function_privilege(v_role.oid, v_procedure, 'execute') then
        perform skiplane._refuse('SK001', 'role', p_role, 'this role may not execute the procedure', format('grant execute on it to %I', p_role));
    end if;
    insert into skiplane.allowed_procedure (signature, role, allowed_at, allowed_by)
    values (v_procedure::text, p_role, skiplane.clock(), coalesce(left(p_actor, 200), session_user))
    on conflict (signature) do update set role = excluded.role, allowed_at = excluded.allowed_at, allowed_by = excluded.allowed_by;
    return v_procedure::text;
end
$$;

comment on function skiplane.allow_procedure(text, text, text) is
'Lets tasks of type skiplane.sql call a function or procedure, as a role that may nothing else: SELECT skiplane.allow_procedure(''app.close_month(integer)'', ''month_closer''). The workers'' login must be a member of that role.';

create or replace function skiplane.disallow_procedure(p_procedure text) returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
begin
    delete from skiplane.allowed_procedure a
    where a.signature = p_procedure or split_part(a.signature, '(', 1) = p_procedure
        or a.signature = to_regprocedure(case when p_procedure like '%(%' then p_procedure end)::text;
    return found;
end
$$;

comment on function skiplane.disallow_procedure(text) is 'Takes a procedure, or all of that name, off the list; false when it was not on it.';

create or replace function skiplane.prepare_procedure(p_procedure text, p_arguments jsonb, out role text, out statement text)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_found skiplane.allowed_procedure[];
    p pg_proc;
    v_named boolean := jsonb_typeof(p_arguments) = 'object';
    v_given text;
begin
    v_found := array(
        select a from skiplane.allowed_procedure a
        where a.signature = p_procedure or split_part(a.signature, '(', 1) = p_procedure limit 2);
    if cardinality(v_found) = 0 then
        perform skiplane._refuse('SK010', 'procedure', p_procedure, 'this procedure is not allowed',
            'ask an operator to list it with skiplane.allow_procedure');
    elsif cardinality(v_found) > 1 then
        perform skiplane._refuse('SK001', 'procedure', p_procedure, 'there are several procedures of that name', 'give its argument types, too');
    end if;
    role := (v_found[1]).role;
    select * into p from pg_proc x where x.oid = to_regprocedure((v_found[1]).signature);
    if p.oid is null then
        perform skiplane._refuse('SK002', 'procedure', p_procedure, 'the procedure is gone', 'make it again, or take it off the list');
    end if;
    v_given := skiplane._procedure_arguments(p, p_arguments, v_named);
    statement := case
        when p.prokind = 'p' then format('call %s(%s)', p.oid::regproc, v_given)
        when p.proretset then format('select coalesce(json_agg(to_json(x)), ''[]'') from %s(%s) as x', p.oid::regproc, v_given)
        when p.prorettype = 'void'::regtype then format('select null::json from (select %s(%s) offset 0) as x', p.oid::regproc, v_given)
        else format('select to_json(%s(%s))', p.oid::regproc, v_given) end;
end
$$;

comment on function skiplane.prepare_procedure(text, jsonb) is
'The role and the statement for a call of a listed procedure; p_arguments is an object by name or an array by place. SK010 when it is not listed, SK001 when the arguments do not fit.';

-- Each value becomes a quoted literal, cast to the type of its parameter.
create or replace function skiplane._procedure_arguments(p_function pg_proc, p_arguments jsonb, p_named boolean) returns text
language plpgsql stable
as $$
declare
    v_types oid[] := p_function.proargtypes::oid[];
    v_names text[];
    v_list text;
    v_unknown text;
begin
    select array_agg(n.name order by n.ord) into v_names
    from unnest(p_function.proargnames) with ordinality n (name, ord)
    where p_function.proargmodes is null or p_function.proargmodes[n.ord] in ('i', 'b', 'v');
    if p_named then
        select k into v_unknown from jsonb_object_keys(p_arguments) k where k <> all (coalesce(v_names, '{}')) order by k limit 1;
        if v_unknown is not null then
            perform skiplane._refuse('SK001', v_unknown, p_arguments ->> v_unknown, format('the procedure has no argument %s', v_unknown),
                'its arguments: ' || coalesce(array_to_string(v_names, ', '), 'none'));
        end if;
        select string_agg(format('%I => %s', n.name, skiplane._literal(p_arguments -> n.name, v_types[n.ord - 1])), ', ' order by n.ord)
        into v_list from unnest(v_names) with ordinality n (name, ord) where p_arguments ? n.name;
    else
        if jsonb_typeof(p_arguments) <> 'array' or jsonb_array_length(p_arguments) > p_function.pronargs then
            perform skiplane._refuse('SK001', 'arguments', p_arguments::text, 'arguments do not fit the procedure',
                format('give an object by name, or an array of at most %s', p_function.pronargs));
        end if;
        select string_agg(skiplane._literal(a.value, v_types[a.ord - 1]), ', ' order by a.ord)
        into v_list from jsonb_array_elements(p_arguments) with ordinality a (value, ord);
    end if;
    return coalesce(v_list, '');
end
$$;

comment on function skiplane._procedure_arguments(pg_proc, jsonb, boolean) is 'The list of arguments of a call, as SQL.';

create or replace function skiplane._literal(p_value jsonb, p_type oid) returns text
language sql stable
as $$
    select format('%L::%s', case
        when jsonb_typeof(p_value) = 'null' then null
        when p_type in ('json'::regtype, 'jsonb'::regtype) then p_value::text
        when jsonb_typeof(p_value) = 'array' and format_type(p_type, null) like '%[]' then
            (select coalesce('{' || string_agg(case when jsonb_typeof(e) = 'null' then 'NULL'
                else '"' || replace(replace(e #>> '{}', E'\\', E'\\\\'), '"', E'\\"') || '"' end, ',') || '}', '{}') from jsonb_array_elements(p_value) e)
        else p_value #>> '{}' end, format_type(p_type, null))
$$;

comment on function skiplane._literal(jsonb, oid) is 'A JSON value as an SQL literal of a type.';

-- Whether a submitted graph is one: names, dependencies, no cycle. Iterative: a chain of 10,000 tasks is as good as any.

-- Composed and decomposed letters look alike, so they are the same name.
create or replace function skiplane._graph_name(p_name text) returns text
language sql stable parallel safe
as $$ select case when getdatabaseencoding() = 'UTF8' then normalize(p_name, nfc) else p_name end $$;

comment on function skiplane._graph_name(text) is 'A task''s name as it is compared and stored.';

-- One look tells that all is well; only then what is not is told in detail.
create or replace function skiplane._read_graph(
    p_tasks jsonb, out names text[], out payloads json[], out triggers text[], out definition jsonb, out froms integer[], out tos integer[]
) language plpgsql stable
as $$
declare
    v_fine boolean := false;
    v_forward boolean := false;
begin
    if jsonb_typeof(p_tasks) = 'array' and jsonb_array_length(p_tasks) between 1 and 10000 then
        -- In the order of the list, which is that of the function: to sort would cost as much as all else.
        select array_agg(x.value ->> 'name'), array_agg(coalesce(x.value -> 'payload', '{}')::json),
            array_agg(nullif(x.value ->> 'trigger', 'all_success')),
            jsonb_agg(case jsonb_typeof(x.value) when 'object' then x.value - 'payload' end),
            bool_and(jsonb_typeof(x.value) = 'object' and jsonb_typeof(x.value -> 'name') = 'string'
                and x.value ->> 'name' ~ '^[A-Za-z0-9_.:-]{1,99}$' and not x.value ? 'idempotency_key'
                and (x.value -> 'trigger' is null or (x.value ->> 'trigger' in ('all_success', 'all_done', 'any_failed')
                    and x.value -> 'dependencies' @> '[]' and x.value -> 'dependencies' <> '[]'))
                and coalesce(jsonb_typeof(x.value -> 'dependencies') = 'null'
                    or (jsonb_typeof(x.value -> 'dependencies') = 'array'
                        and not x.value -> 'dependencies' @? 'strict $[*] ? (@.type() != "string")'), true)
                and coalesce(pg_column_size(x.value -> 'payload') <= 32768 and not skiplane._is_beyond_json(x.value -> 'payload'), true))
                is true
        into names, payloads, triggers, definition, v_fine
        from jsonb_array_elements(p_tasks) as x (value);
        v_fine := v_fine and (select count(distinct u.name) from unnest(names) as u (name)) = cardinality(names);
    end if;
    if not v_fine then
        names := skiplane._graph_names(p_tasks);
        perform skiplane._check_payloads_and_triggers(p_tasks);
        select array_agg(coalesce(x.value -> 'payload', '{}')::json order by x.ord),
            array_agg(nullif(x.value ->> 'trigger', 'all_success') order by x.ord), jsonb_agg(x.value - 'payload' order by x.ord)
        into payloads, triggers, definition from jsonb_array_elements(p_tasks) with ordinality as x (value, ord);
    end if;
    if v_fine and cardinality(names) <= 50 then
        -- As _graph_edges, without what pays only for many.
        select coalesce(array_agg(e.source order by e.source, e.target), '{}'),
            coalesce(array_agg(e.target order by e.source, e.target), '{}'), coalesce(bool_and(e.source < e.target), true)
        into froms, tos, v_forward
        from (
            select distinct array_position(names, d.name) as source, x.ord::integer as target
            from jsonb_array_elements(p_tasks) with ordinality as x (value, ord)
            cross join lateral jsonb_array_elements_text(
                case jsonb_typeof(x.value -> 'dependencies') when 'array' then x.value -> 'dependencies' else '[]' end) as d (name)
        ) e;
        v_forward := v_forward and array_position(froms, null) is null;
    end if;
    if not v_forward then
        select e.froms, e.tos into froms, tos from skiplane._graph_edges(p_tasks, names) e;
    end if;
end
$$;

comment on function skiplane._read_graph(jsonb) is
'Submitted tasks as arrays in their order, and their dependencies as places in them; refuses what is no graph.';

create or replace function skiplane._graph_names(p_tasks jsonb) returns text[]
language plpgsql stable
as $$
declare
    v_names text[];
    r record;
begin
    if p_tasks is null or jsonb_typeof(p_tasks) <> 'array' then
        perform skiplane._refuse('SK001', 'tasks', p_tasks::text, 'tasks is not an array', 'give a JSON array of task objects');
    elsif p_tasks = '[]' then
        perform skiplane._refuse('SK001', 'tasks', '[]', 'the workflow has no task', 'give at least one task');
    elsif jsonb_array_length(p_tasks) > 10000 then
        perform skiplane._refuse('SK007', 'tasks', jsonb_array_length(p_tasks) || ' tasks', 'the workflow has too many tasks',
            'give at most 10000 tasks, and let one that does much submit tasks of its own');
    end if;
    for r in
        select x.value, x.ord - 1 as place from jsonb_array_elements(p_tasks) with ordinality as x (value, ord)
        where jsonb_typeof(x.value) <> 'object' or jsonb_typeof(x.value -> 'name') is distinct from 'string'
            or (x.value ->> 'name') !~ '^[[:alnum:]_.:-]{1,99}$' or x.value ? 'idempotency_key'
    loop
        if jsonb_typeof(r.value) <> 'object' then
            perform skiplane._refuse('SK001', format('tasks[%s]', r.place), r.value::text, 'a task is not an object', 'give a JSON object');
        elsif jsonb_typeof(r.value -> 'name') is distinct from 'string' then
            perform skiplane._refuse('SK001', format('tasks[%s].name', r.place), r.value ->> 'name', 'a task has no name',
                'give each task of the workflow a name, as text');
        elsif r.value ? 'idempotency_key' then
            perform skiplane._refuse('SK001', format('tasks[%s].idempotency_key', r.place), r.value ->> 'idempotency_key',
                'a task of a workflow has no key of its own', 'give the workflow an idempotency_key');
        end if;
        perform skiplane._check_name(format('tasks[%s].name', r.place), r.value ->> 'name');
        if r.value ->> 'name' ~ '^[[:space:]]|[[:space:]]$' then
            perform skiplane._refuse('SK001', format('tasks[%s].name', r.place), r.value ->> 'name',
                'a name begins or ends with a space', 'take it away: it would look like another name');
        end if;
    end loop;
    v_names := array(
        select skiplane._graph_name(x.value ->> 'name') from jsonb_array_elements(p_tasks) with ordinality as x (value, ord) order by x.ord);
    select u.name, max(u.ord) - 1 as place into r from unnest(v_names) with ordinality as u (name, ord)
    group by u.name having count(*) > 1 order by 2 limit 1;
    if found then
        perform skiplane._refuse('SK001', format('tasks[%s].name', r.place), r.name, format('two tasks are named "%s"', r.name),
            'give each task of the workflow a name of its own');
    end if;
    return v_names;
end
$$;

comment on function skiplane._graph_names(jsonb) is 'The names of submitted tasks, in their order; refuses what is no list of named tasks.';

-- Edges as two arrays of places in the list, from a dependency to what depends on it, sorted, each once.
create or replace function skiplane._graph_edges(p_tasks jsonb, p_names text[], out froms integer[], out tos integer[])
language plpgsql stable
as $$
declare
    v_forward boolean;
    r record;
begin
    for r in
        select x.value -> 'dependencies' as dependencies, x.ord - 1 as place
        from jsonb_array_elements(p_tasks) with ordinality as x (value, ord)
        where jsonb_typeof(x.value -> 'dependencies') not in ('array', 'null')
            or (jsonb_typeof(x.value -> 'dependencies') = 'array' and x.value -> 'dependencies' @? 'strict $[*] ? (@.type() != "string")')
    loop
        perform skiplane._refuse('SK001', format('tasks[%s].dependencies', r.place), r.dependencies::text,
            format('the dependencies of "%s" are not a list of names', p_names[r.place + 1]), 'give a JSON array of names of tasks');
    end loop;
    select array_agg(e.source order by e.source, e.target), array_agg(e.target order by e.source, e.target),
        coalesce(bool_and(e.source < e.target), true)
    into froms, tos, v_forward
    from (
        select distinct coalesce(n.ord, 0)::integer as source, x.ord::integer as target
        from jsonb_array_elements(p_tasks) with ordinality as x (value, ord)
        cross join lateral jsonb_array_elements_text(
            case jsonb_typeof(x.value -> 'dependencies') when 'array' then x.value -> 'dependencies' else '[]' end) as d (name)
        left join unnest(p_names) with ordinality as n (name, ord) on n.name = skiplane._graph_name(d.name)
    ) e;
    froms := coalesce(froms, '{}');
    tos := coalesce(tos, '{}');
    if froms[1] = 0 then
        select d.name into r
        from jsonb_array_elements_text(p_tasks -> (tos[1] - 1) -> 'dependencies') with ordinality as d (name, ord)
        where skiplane._graph_name(d.name) <> all (p_names) order by d.ord limit 1;
        perform skiplane._refuse('SK001', format('tasks[%s].dependencies', tos[1] - 1), r.name,
            format('task "%s" depends on "%s", which is not in the workflow', p_names[tos[1]], r.name), 'name a task of this workflow');
    elsif cardinality(froms) > 1000000 then
        perform skiplane._refuse('SK007', 'dependencies', cardinality(froms)::text, 'the workflow has too many dependencies',
            'give at most 1000000: put one task between two groups that depend on each other');
    elsif not v_forward then
        perform skiplane._refuse_cycle(p_names, froms, tos);
    end if;
end
$$;

comment on function skiplane._graph_edges(jsonb, text[]) is 'The dependencies of submitted tasks; refuses unknown names and cycles.';

-- Kahn (1962): what has no open dependency is taken away until nothing is left; what cannot be taken away is a cycle, or behind one.
create or replace function skiplane._refuse_cycle(p_names text[], p_froms integer[], p_tos integer[]) returns void
language plpgsql immutable
as $$
declare
    v_open integer[] := array_fill(0, array[cardinality(p_names)]);
    v_first integer[] := array_fill(0, array[cardinality(p_names)]);
    v_parent integer[] := array_fill(0, array[cardinality(p_names)]);
    v_free integer[] := '{}';
    v_taken integer := 0;
    v_place integer;
    i integer;
begin
    for i in reverse cardinality(p_froms) .. 1 loop
        if p_froms[i] = p_tos[i] then
            perform skiplane._refuse('SK001', format('tasks[%s].dependencies', p_tos[i] - 1), p_names[p_tos[i]],
                format('task "%s" depends on itself', p_names[p_tos[i]]), 'take this dependency away');
        end if;
        v_open[p_tos[i]] := v_open[p_tos[i]] + 1;
        v_first[p_froms[i]] := i;
    end loop;
    for v_place in 1 .. cardinality(p_names) loop
        if v_open[v_place] = 0 then
            v_free[cardinality(v_free) + 1] := v_place;
        end if;
    end loop;
    while v_taken < cardinality(v_free) loop
        v_taken := v_taken + 1;
        v_place := v_free[v_taken];
        i := v_first[v_place];
        while i > 0 and p_froms[i] = v_place loop
            v_open[p_tos[i]] := v_open[p_tos[i]] - 1;
            if v_open[p_tos[i]] = 0 then
                v_free[cardinality(v_free) + 1] := p_tos[i];
            end if;
            i := i + 1;
        end loop;
    end loop;
    if v_taken = cardinality(p_names) then
        return;
    end if;
    for i in 1 .. cardinality(p_froms) loop
        if v_open[p_froms[i]] > 0 and v_open[p_tos[i]] > 0 then
            v_parent[p_tos[i]] := p_froms[i];
        end if;
    end loop;
    perform skiplane._refuse('SK001', format('tasks[%s].dependencies', c.places[1] - 1), c.path,
        'the dependencies run in a circle: ' || c.path, 'take one of these dependencies away')
    from skiplane._name_cycle(p_names, v_parent) c;
end
$$;

comment on function skiplane._refuse_cycle(text[], integer[], integer[]) is 'Refuses dependencies that run in a circle, naming one.';

-- Every place that has an open parent leads back into a circle.
create or replace function skiplane._name_cycle(p_names text[], p_parent integer[], out places integer[], out path text)
language plpgsql immutable
as $$
declare
    v_seen boolean[] := array_fill(false, array[cardinality(p_names)]);
    v_place integer := (select u.ord from unnest(p_parent) with ordinality as u (parent, ord) where u.parent > 0 limit 1);
    v_end integer;
begin
    while not v_seen[v_place] loop
        v_seen[v_place] := true;
        v_place := p_parent[v_place];
    end loop;
    v_end := v_place;
    places := '{}';
    loop
        places := v_place || places;
        v_place := p_parent[v_place];
        exit when v_place = v_end;
    end loop;
    select string_agg(x.name, ' -> ' order by x.ord) into path from (
        select case when u.ord = 9 and cardinality(places) > 16 then format('(%s more)', cardinality(places) - 16)
            else '"' || p_names[u.place] || '"' end as name, u.ord
        from unnest(places || places[1]) with ordinality as u (place, ord)
        where u.ord <= 9 or u.ord > cardinality(places) - 7 or cardinality(places) <= 16) x;
end
$$;

comment on function skiplane._name_cycle(text[], integer[]) is 'One circle, in the order in which its tasks would run.';

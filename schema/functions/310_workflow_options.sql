-- The options of the tasks of a submitted workflow.

-- What tasks with equal options have in common. A delay counts from the moment at which a task may start, so for one
-- that waits for others it is not known yet when it is due.
create or replace function skiplane._workflow_template(p_options jsonb, p_metadata jsonb, p_tenant_id text, p_now timestamptz)
returns skiplane.task language plpgsql volatile
as $$
declare
    t skiplane.task;
    v_own jsonb := coalesce(nullif(p_options -> 'metadata', 'null'), '{}');
begin
    if p_metadata is not null then
        if jsonb_typeof(v_own) = 'object' then
            v_own := p_metadata || v_own;
        end if;
        p_options := p_options || jsonb_build_object('metadata', v_own);
    end if;
    if p_options - '{task_type,queue,max_retries,metadata}'::text[] = '{}' then
        -- Most give no more than these: the other fifteen need not be read.
        t := skiplane._task_template(skiplane._text_field(p_options, 'task_type', null), skiplane._text_field(p_options, 'queue', 'default'),
            'medium', null, null, skiplane._integer_field(p_options, 'max_retries', 3), 'exponential', 5, 3600, 'equal', null, null, null,
            null, null, nullif(p_options -> 'metadata', 'null'), p_now);
    else
        t := skiplane._object_template(p_options, p_now);
    end if;
    if t.tenant_id <> p_tenant_id then
        perform skiplane._refuse('SK001', 'metadata.tenant_id', t.tenant_id, 'a task is not of the tenant of its workflow',
            'name the tenant in the metadata of the workflow');
    end if;
    return t;
end
$$;

comment on function skiplane._workflow_template(jsonb, jsonb, text, timestamptz) is 'Reads the options of tasks of a workflow.';

-- One template for each set of equal options, and for each task the number of its template.
create or replace function skiplane._workflow_templates(
    p_tasks jsonb, p_metadata jsonb, p_tenant_id text, p_now timestamptz,
    out templates skiplane.task[], out delays double precision[], out later boolean[], out numbers integer[]
) language plpgsql volatile
as $$
declare
    g record;
    t skiplane.task;
    v_place integer;
    v_state text;
    v_field text;
    v_message text;
    v_detail text;
    v_hint text;
begin
    templates := '{}';
    delays := '{}';
    later := '{}';
    numbers := array_fill(0, array[jsonb_array_length(p_tasks)]);
    for g in
        select x.value - '{name,payload,dependencies,trigger}'::text[] as options, array_agg(x.ord::integer) as places
        from jsonb_array_elements(p_tasks) with ordinality as x (value, ord) group by 1 order by min(x.ord)
    loop
        v_place := g.places[1];
        t := skiplane._workflow_template(g.options, p_metadata, p_tenant_id, p_now);
        templates := templates || t;
        later := later || (t.scheduled_at > p_now);
        delays := delays || skiplane._number_field(g.options, 'delay_seconds', null);
        foreach v_place in array g.places loop
            numbers[v_place] := cardinality(templates);
        end loop;
    end loop;
exception when sqlstate 'SK001' or sqlstate 'SK007' then
    get stacked diagnostics v_state = returned_sqlstate, v_field = column_name, v_message = message_text,
        v_detail = pg_exception_detail, v_hint = pg_exception_hint;
    perform skiplane._refuse(v_state, format('tasks[%s].%s', v_place - 1, v_field), v_detail, v_message, v_hint);
end
$$;

comment on function skiplane._workflow_templates(jsonb, jsonb, text, timestamptz) is
'The options of submitted tasks, checked as those of any task; a refusal names the place in the list.';

create or replace function skiplane._check_payloads_and_triggers(p_tasks jsonb) returns void
language plpgsql immutable
as $$
declare r record;
begin
    for r in
        select x.value, x.ord - 1 as place from jsonb_array_elements(p_tasks) with ordinality as x (value, ord)
        where pg_column_size(x.value -> 'payload') > 32768 or skiplane._is_beyond_json(x.value -> 'payload')
            or x.value ->> 'trigger' not in ('all_success', 'all_done', 'any_failed')
            or (x.value ? 'trigger' and x.value ->> 'trigger' <> 'all_success'
                and coalesce(x.value -> 'dependencies', '[]') in ('[]', 'null'))
    loop
        perform skiplane._check_json(format('tasks[%s].payload', r.place), (r.value -> 'payload')::text, 1048576);
        continue when r.value -> 'trigger' is null or jsonb_typeof(r.value -> 'trigger') = 'null';
        perform skiplane._check_choice(format('tasks[%s].trigger', r.place), r.value ->> 'trigger', '{all_success,all_done,any_failed}');
        if r.value ->> 'trigger' <> 'all_success' and coalesce(r.value -> 'dependencies', '[]') in ('[]', 'null') then
            perform skiplane._refuse('SK001', format('tasks[%s].trigger', r.place), r.value ->> 'trigger',
                'a trigger without dependencies', 'name what the task waits for in dependencies, or take the trigger away');
        end if;
    end loop;
end
$$;

comment on function skiplane._check_payloads_and_triggers(jsonb) is
'Refuses payloads that cannot be stored, unknown triggers, and triggers of tasks that wait for nothing.';

-- Settings of queues, task types and tenants. A setting that is left out stays as it is; 'none' or -1 takes a limit away.
-- Locks: the row of the setting; lanes and leases follow in the scheduler's ticks, and claims ask the settings until then.

-- "100/s", "10/min", "1/hour", or a plain number per second.
create or replace function skiplane._read_rate(p_field text, p_rate text) returns double precision
language plpgsql immutable
as $$
declare
    v_parts text[] := regexp_match(lower(p_rate),
        '^[[:space:]]*([0-9]{1,12}(?:[.][0-9]{1,9})?)[[:space:]]*(?:/|per)?[[:space:]]*'
        '(s|sec|second|m|min|minute|h|hour|d|day)?[[:space:]]*$');
    v_rate double precision;
begin
    v_rate := v_parts[1]::double precision / case left(coalesce(v_parts[2], 's'), 1)
        when 's' then 1 when 'm' then 60 when 'h' then 3600 else 86400 end;
    if (v_rate > 0 and v_rate <= 1000000) is not true then
        perform skiplane._refuse('SK001', p_field, p_rate, format('%s is not a rate', p_field),
            'give a number per second, minute, hour or day, such as 100/s, 10/min or 1/hour; none takes the limit away');
    end if;
    return v_rate;
end
$$;

comment on function skiplane._read_rate(text, text) is 'Starts per second of a rate in words.';

-- NULL keeps, "none" takes away.
create or replace function skiplane._new_rate(
    p_field text, p_rate text, p_burst double precision, inout rate double precision, inout burst double precision
) language plpgsql immutable
as $$
begin
    perform skiplane._check_number(replace(p_field, 'rate_limit', 'burst'), p_burst, 1, 1000000);
    if lower(p_rate) = 'none' then
        rate := null;
        burst := null;
        return;
    elsif p_rate is not null then
        rate := skiplane._read_rate(p_field, p_rate);
        burst := null;
    end if;
    burst := coalesce(p_burst, burst, greatest(1, ceil(rate)));
    if rate is null then
        if p_burst is not null then
            perform skiplane._refuse('SK001', replace(p_field, 'rate_limit', 'burst'), p_burst::text, 'a burst without a rate',
                format('give %s, too', p_field));
        end if;
        burst := null;
    end if;
end
$$;

comment on function skiplane._new_rate(text, text, double precision, double precision, double precision) is
'A rate after a change; the burst is a second''s worth, at least one, unless said otherwise.';

create or replace function skiplane._new_count(p_field text, p_given integer, p_old integer) returns integer
language plpgsql immutable
as $$
begin
    perform skiplane._check_number(p_field, p_given, -1, 1000000000);
    return case p_given when -1 then null else coalesce(p_given, p_old) end;
end
$$;

comment on function skiplane._new_count(text, integer, integer) is 'A limit after a change: NULL keeps the old one, -1 takes it away.';

create or replace function skiplane._note_change(p_kind text, p_name text, p_verb text, p_actor text, p_detail jsonb) returns void
language plpgsql volatile
as $$
begin
    insert into skiplane.flow_change (shard, kind, name, at, xid)
    select x.shard, p_kind, p_name, skiplane.clock(), pg_current_xact_id() from unnest(skiplane.shard_labels()) as x (shard);
    insert into skiplane.flow_action (at, actor, verb, kind, name, detail)
    values (skiplane.clock(), coalesce(left(p_actor, 200), session_user), p_verb, p_kind, p_name, jsonb_strip_nulls(p_detail));
end
$$;

comment on function skiplane._note_change(text, text, text, text, jsonb) is
'Makes lanes and running tasks follow a change, and remembers who made it.';

create or replace function skiplane.set_queue(
    p_queue text, p_priority_order text default null, p_concurrency integer default null, p_paused boolean default null,
    p_actor text default null
) returns jsonb language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    o skiplane.queue_setting;
    n skiplane.queue_setting;
begin
    perform skiplane._check_name('queue', p_queue);
    if p_priority_order is not null then
        perform skiplane._check_choice('priority_order', p_priority_order, '{weighted,strict}');
    end if;
    insert into skiplane.queue_setting (queue, changed_at, changed_by)
    values (p_queue, skiplane.clock(), session_user) on conflict do nothing;
    select * into o from skiplane.queue_setting x where x.queue = p_queue for no key update;
    n := o;
    n.strict_order := coalesce(p_priority_order = 'strict', o.strict_order);
    n.concurrency := skiplane._new_count('concurrency', p_concurrency, o.concurrency);
    n.paused := coalesce(p_paused, o.paused);
    update skiplane.queue_setting x
    set strict_order = n.strict_order, concurrency = n.concurrency, paused = n.paused, changed_at = y.at, changed_by = y.actor
    from (select skiplane.clock() as at, coalesce(left(p_actor, 200), session_user) as actor) y
    where x.queue = p_queue;
    perform skiplane._note_change('queue', p_queue,
        case when n.paused and not o.paused then 'pause' when o.paused and not n.paused then 'resume' else 'set' end, p_actor,
        jsonb_build_object('priority_order', p_priority_order, 'concurrency', p_concurrency, 'paused', p_paused));
    return skiplane.get_queue(p_queue);
end
$$;

comment on function skiplane.set_queue(text, text, integer, boolean, text) is
'Sets what is given of a queue and keeps the rest: priority_order weighted (70/25/5) or strict, concurrency = most tasks at once over the fleet (-1: no limit), paused. Answers as get_queue.';

create or replace function skiplane.set_task_type(
    p_task_type text, p_rate_limit text default null, p_burst double precision default null,
    p_tenant_rate_limit text default null, p_tenant_burst double precision default null, p_concurrency integer default null,
    p_key_concurrency integer default null, p_breaker_threshold double precision default null,
    p_breaker_window_seconds double precision default null, p_breaker_minimum integer default null,
    p_breaker_cooldown_seconds double precision default null, p_breaker_probes integer default null,
    p_paused boolean default null, p_actor text default null
) returns jsonb language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
begin
    perform skiplane._store_task_type(p_task_type, jsonb_strip_nulls(jsonb_build_object('rate_limit', p_rate_limit, 'burst', p_burst,
        'tenant_rate_limit', p_tenant_rate_limit, 'tenant_burst', p_tenant_burst, 'concurrency', p_concurrency,
        'key_concurrency', p_key_concurrency, 'breaker_threshold', p_breaker_threshold,
        'breaker_window_seconds', p_breaker_window_seconds, 'breaker_minimum', p_breaker_minimum,
        'breaker_cooldown_seconds', p_breaker_cooldown_seconds, 'breaker_probes', p_breaker_probes, 'paused', p_paused)),
        false, p_actor);
    return skiplane.get_task_type(p_task_type);
end
$$;

comment on function skiplane.set_task_type(
    text, text, double precision, text, double precision, integer, integer, double precision, double precision, integer,
    double precision, integer, boolean, text
) is 'Sets what is given of a task type and keeps the rest. rate_limit: starts over the fleet, such as 100/s, 10/min (none: no limit); never more than burst + rate x window in any window; burst is a second''s worth unless given. tenant_rate_limit: the same for each tenant. concurrency: most at once (-1: no limit); key_concurrency: most at once of one tenant and concurrency key. Breaker: breaker_threshold = share of failed attempts over breaker_window_seconds that opens it (-1: none) once there were breaker_minimum; after breaker_cooldown_seconds breaker_probes tasks are let through, and their success closes it. Answers as get_task_type.';

create or replace function skiplane._store_task_type(p_task_type text, p_given jsonb, p_by_app boolean, p_actor text) returns boolean
language plpgsql volatile
as $$
declare
    g record;
    r record;
    o skiplane.task_type_setting;
    n skiplane.task_type_setting;
begin
    perform skiplane._check_name('task_type', p_task_type);
    select * into g from jsonb_to_record(p_given) as x (
        rate_limit text, burst double precision, tenant_rate_limit text, tenant_burst double precision, concurrency integer,
        key_concurrency integer, breaker_threshold double precision, breaker_window_seconds double precision,
        breaker_minimum integer, breaker_cooldown_seconds double precision, breaker_probes integer, paused boolean);
    perform skiplane._check_number('key_concurrency', g.key_concurrency, 0, 1000000000);
    if g.breaker_threshold <> -1 then
        perform skiplane._check_number('breaker_threshold', g.breaker_threshold, 0.001, 1);
    end if;
    perform skiplane._check_number('breaker_window_seconds', g.breaker_window_seconds, 1, 86400);
    perform skiplane._check_number('breaker_minimum', g.breaker_minimum, 1, 1000000);
    perform skiplane._check_number('breaker_cooldown_seconds', g.breaker_cooldown_seconds, 0, 86400);
    perform skiplane._check_number('breaker_probes', g.breaker_probes, 1, 1000000);
    insert into skiplane.task_type_setting (task_type, by_app, changed_at, changed_by)
    values (p_task_type, p_by_app, skiplane.clock(), session_user) on conflict do nothing;
    select * into o from skiplane.task_type_setting x where x.task_type = p_task_type for no key update;
    if p_by_app and not o.by_app then
        return false;
    end if;
    n := o;
    r := skiplane._new_rate('rate_limit', g.rate_limit, g.burst, o.rate, o.burst);
    n.rate := r.rate;
    n.burst := r.burst;
    r := skiplane._new_rate('tenant_rate_limit', g.tenant_rate_limit, g.tenant_burst, o.tenant_rate, o.tenant_burst);
    n.tenant_rate := r.rate;
    n.tenant_burst := r.burst;
    n.concurrency := skiplane._new_count('concurrency', g.concurrency, o.concurrency);
    n.key_concurrency := coalesce(g.key_concurrency, o.key_concurrency);
    n.breaker_threshold := nullif(coalesce(g.breaker_threshold, o.breaker_threshold), -1);
    n.breaker_window := coalesce(g.breaker_window_seconds, o.breaker_window);
    n.breaker_minimum := coalesce(g.breaker_minimum, o.breaker_minimum);
    n.breaker_cooldown := coalesce(g.breaker_cooldown_seconds, o.breaker_cooldown);
    n.breaker_probes := coalesce(g.breaker_probes, o.breaker_probes);
    n.paused := coalesce(g.paused, o.paused);
    if p_by_app and n is not distinct from o and p_given <> '{}' and exists (
        select from skiplane.flow_action a where a.kind = 'type' and a.name = p_task_type) then
        return false;
    end if;
    update skiplane.task_type_setting x
    set rate = n.rate, burst = n.burst, tenant_rate = n.tenant_rate, tenant_burst = n.tenant_burst, concurrency = n.concurrency,
        key_concurrency = n.key_concurrency, breaker_threshold = n.breaker_threshold, breaker_window = n.breaker_window,
        breaker_minimum = n.breaker_minimum, breaker_cooldown = n.breaker_cooldown, breaker_probes = n.breaker_probes,
        paused = n.paused, by_app = p_by_app, changed_at = y.at, changed_by = y.actor
    from (select skiplane.clock() as at, coalesce(left(p_actor, 200), session_user) as actor) y
    where x.task_type = p_task_type;
    if n.breaker_threshold is null and o.breaker_threshold is not null then
        delete from skiplane.breaker b where b.task_type = p_task_type and not b.manual;
    end if;
    perform skiplane._note_change('type', p_task_type,
        case when n.paused and not o.paused then 'pause' when o.paused and not n.paused then 'resume' else 'set' end, p_actor, p_given);
    return true;
end
$$;

comment on function skiplane._store_task_type(text, jsonb, boolean, text) is
'Changes the settings of a type. What an application says counts only while no operator has spoken.';

create or replace function skiplane.declare_task_type(p_task_type text, p_settings jsonb) returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
begin
    perform skiplane._check_fields(p_settings, array['rate_limit', 'burst', 'tenant_rate_limit', 'tenant_burst', 'concurrency',
        'key_concurrency', 'breaker_threshold', 'breaker_window_seconds', 'breaker_minimum', 'breaker_cooldown_seconds',
        'breaker_probes'], 'settings');
    return skiplane._store_task_type(p_task_type, p_settings, true, 'application');
end
$$;

comment on function skiplane.declare_task_type(text, jsonb) is
'What an application''s code says of a type, told at the start of its workers. Changes nothing once an operator has set the type; tells whether it changed something.';

create or replace function skiplane.set_tenant(
    p_tenant_id text, p_weight integer default null, p_concurrency integer default null, p_rates jsonb default null,
    p_paused boolean default null, p_actor text default null
) returns jsonb language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    o skiplane.tenant_setting;
    n skiplane.tenant_setting;
    r record;
    k record;
begin
    perform skiplane._check_name('tenant_id', p_tenant_id);
    perform skiplane._check_number('weight', p_weight, 1, 1000);
    if jsonb_typeof(p_rates) <> 'object' then
        perform skiplane._refuse('SK001', 'rates', p_rates::text, 'rates is not an object',
            'give {"task type": "100/s"}; "none" takes a limit away');
    end if;
    insert into skiplane.tenant_setting (tenant_id, changed_at, changed_by)
    values (p_tenant_id, skiplane.clock(), session_user) on conflict do nothing;
    select * into o from skiplane.tenant_setting x where x.tenant_id = p_tenant_id for no key update;
    n := o;
    n.weight := coalesce(p_weight, o.weight);
    n.concurrency := skiplane._new_count('concurrency', p_concurrency, o.concurrency);
    n.paused := coalesce(p_paused, o.paused);
    for k in select * from jsonb_each(p_rates) loop
        perform skiplane._check_name('rates', k.key);
        if jsonb_typeof(k.value) not in ('string', 'object', 'number') then
            perform skiplane._refuse('SK001', 'rates', k.value::text, 'this is not a rate', 'give "100/s" or {"rate_limit": "100/s", "burst": 5}');
        end if;
        n.rates := n.rates - k.key;
        r := skiplane._new_rate('rate_limit', coalesce(k.value ->> 'rate_limit', k.value #>> '{}'),
            skiplane._bounded_number(k.value, 'burst', 1e9), null, null);
        if r.rate is not null then
            n.rates := n.rates || jsonb_build_object(k.key, jsonb_build_object('rate', r.rate, 'burst', r.burst));
        end if;
    end loop;
    update skiplane.tenant_setting x
    set weight = n.weight, concurrency = n.concurrency, paused = n.paused, rates = n.rates, changed_at = y.at, changed_by = y.actor
    from (select skiplane.clock() as at, coalesce(left(p_actor, 200), session_user) as actor) y
    where x.tenant_id = p_tenant_id;
    perform skiplane._note_change('tenant', p_tenant_id,
        case when n.paused and not o.paused then 'pause' when o.paused and not n.paused then 'resume' else 'set' end, p_actor,
        jsonb_build_object('weight', p_weight, 'concurrency', p_concurrency, 'rates', p_rates, 'paused', p_paused));
    return skiplane.get_tenant(p_tenant_id);
end
$$;

comment on function skiplane.set_tenant(text, integer, integer, jsonb, boolean, text) is
'Sets what is given of a tenant and keeps the rest: weight = its share of capacity against other tenants (1 to 1000, default 1), concurrency = most tasks at once over the fleet (-1: no limit), rates = {"task type": "100/s"} for it alone ("none" takes one away), paused. Answers as get_tenant.';

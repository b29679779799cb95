-- Pausing and resuming, and breakers by hand.

create or replace function skiplane.pause_queue(p_queue text, p_actor text default null) returns jsonb
language sql volatile security definer set search_path = pg_catalog, pg_temp
as $$ select skiplane.set_queue(p_queue => p_queue, p_paused => true, p_actor => p_actor) $$;

comment on function skiplane.pause_queue(text, text) is 'From now on nothing of the queue starts; what runs goes on.';

create or replace function skiplane.resume_queue(p_queue text, p_actor text default null) returns jsonb
language sql volatile security definer set search_path = pg_catalog, pg_temp
as $$ select skiplane.set_queue(p_queue => p_queue, p_paused => false, p_actor => p_actor) $$;

comment on function skiplane.resume_queue(text, text) is 'Ends pause_queue.';

create or replace function skiplane.pause_task_type(p_task_type text, p_actor text default null) returns jsonb
language sql volatile security definer set search_path = pg_catalog, pg_temp
as $$ select skiplane.set_task_type(p_task_type => p_task_type, p_paused => true, p_actor => p_actor) $$;

comment on function skiplane.pause_task_type(text, text) is 'From now on nothing of the type starts; what runs goes on.';

create or replace function skiplane.resume_task_type(p_task_type text, p_actor text default null) returns jsonb
language sql volatile security definer set search_path = pg_catalog, pg_temp
as $$ select skiplane.set_task_type(p_task_type => p_task_type, p_paused => false, p_actor => p_actor) $$;

comment on function skiplane.resume_task_type(text, text) is 'Ends pause_task_type.';

create or replace function skiplane.pause_tenant(p_tenant_id text, p_actor text default null) returns jsonb
language sql volatile security definer set search_path = pg_catalog, pg_temp
as $$ select skiplane.set_tenant(p_tenant_id => p_tenant_id, p_paused => true, p_actor => p_actor) $$;

comment on function skiplane.pause_tenant(text, text) is 'From now on nothing of the tenant starts; what runs goes on.';

create or replace function skiplane.resume_tenant(p_tenant_id text, p_actor text default null) returns jsonb
language sql volatile security definer set search_path = pg_catalog, pg_temp
as $$ select skiplane.set_tenant(p_tenant_id => p_tenant_id, p_paused => false, p_actor => p_actor) $$;

comment on function skiplane.resume_tenant(text, text) is 'Ends pause_tenant.';

create or replace function skiplane.open_breaker(
    p_task_type text, p_seconds double precision default null, p_reason text default null, p_actor text default null
) returns jsonb language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_now timestamptz := skiplane.clock();
    v_actor text := coalesce(left(p_actor, 200), session_user);
    v_reason text := coalesce(skiplane._clean_text(p_reason, 1000), 'opened by hand');
begin
    perform skiplane._check_name('task_type', p_task_type);
    perform skiplane._check_number('seconds', p_seconds, 0, 31536000);
    insert into skiplane.breaker (task_type, state, manual, since, until, reason, changed_by)
    values (p_task_type, 'open', p_seconds is null, v_now, v_now + make_interval(secs => p_seconds), v_reason, v_actor)
    on conflict (task_type) do update
    set state = excluded.state, manual = excluded.manual, since = excluded.since, until = excluded.until, reason = excluded.reason,
        changed_by = excluded.changed_by;
    -- Half open, its probes are counted as the type's settings say: there have to be some.
    insert into skiplane.task_type_setting (task_type, by_app, changed_at, changed_by)
    values (p_task_type, true, v_now, v_actor) on conflict do nothing;
    perform skiplane._note_change('type', p_task_type, 'open_breaker', p_actor,
        jsonb_build_object('reason', p_reason, 'seconds', p_seconds));
    return skiplane.get_task_type(p_task_type);
end
$$;

comment on function skiplane.open_breaker(text, double precision, text, text) is
'Opens the circuit breaker of a type by hand: nothing of it starts until close_breaker, or with p_seconds until then, when probes decide.';

create or replace function skiplane.close_breaker(p_task_type text, p_actor text default null) returns jsonb
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
begin
    delete from skiplane.breaker b where b.task_type = p_task_type;
    if not found then
        perform skiplane._refuse('SK003', 'task_type', p_task_type, 'the breaker of this type is not open',
            'get_task_type shows why it waits');
    end if;
    -- What failed before does not open it again.
    delete from skiplane.breaker_tally t where t.task_type = p_task_type;
    perform skiplane._note_change('type', p_task_type, 'close_breaker', p_actor, null);
    return skiplane.get_task_type(p_task_type);
end
$$;

comment on function skiplane.close_breaker(text, text) is 'Closes the circuit breaker of a type at once. SK003 when it is closed.';

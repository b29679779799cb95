-- The verbs for callers that may be bound to one tenant: p_within is that tenant, NULL for none. What belongs to
-- another tenant is refused as unknown, by the very refusal of an unknown id.

create or replace function skiplane._check_visible(p_task_id uuid, p_within text) returns void
language plpgsql stable
as $$
declare v_tenant text;
begin
    if p_within is null then
        return;
    end if;
    v_tenant := (skiplane._find_task(p_task_id)).tenant_id;
    if v_tenant is null then
        v_tenant := (skiplane._find_timer(p_task_id, skiplane.task_shard(p_task_id))).tenant_id;
    end if;
    if v_tenant is null then
        -- Retention has dropped the task; its dead letter may be left.
        select d.tenant_id into v_tenant from skiplane.dead d
        where d.id = p_task_id and d.shard = skiplane.task_shard(p_task_id);
    end if;
    if v_tenant is distinct from p_within then
        perform skiplane._refuse_unknown(p_task_id);
    end if;
end
$$;

comment on function skiplane._check_visible(uuid, text) is 'Refuses, as unknown, a task of another tenant.';

create or replace function skiplane.cancel_task_within(p_within text, p_task_id uuid, p_reason text, p_actor text) returns jsonb
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
begin
    perform skiplane._check_visible(p_task_id, p_within);
    return skiplane.cancel_task(p_task_id, p_reason, p_actor);
end
$$;

comment on function skiplane.cancel_task_within(text, uuid, text, text) is 'cancel_task for a caller bound to a tenant.';

create or replace function skiplane.edit_task_within(
    p_within text, p_task_id uuid, p_version integer, p_changes jsonb, p_actor text
) returns jsonb language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
begin
    perform skiplane._check_visible(p_task_id, p_within);
    return skiplane.edit_task(p_task_id, p_version, p_changes, p_actor);
end
$$;

comment on function skiplane.edit_task_within(text, uuid, integer, jsonb, text) is 'edit_task for a caller bound to a tenant.';

create or replace function skiplane.retry_task_within(p_within text, p_task_id uuid, p_reason text, p_actor text) returns jsonb
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
begin
    perform skiplane._check_visible(p_task_id, p_within);
    return skiplane.retry_task(p_task_id, p_reason, p_actor);
end
$$;

comment on function skiplane.retry_task_within(text, uuid, text, text) is 'retry_task for a caller bound to a tenant.';

create or replace function skiplane.retry_dead_letter_within(p_within text, p_task_id uuid, p_reason text, p_actor text)
returns jsonb language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
begin
    perform skiplane._check_visible(p_task_id, p_within);
    return skiplane.retry_dead_letter(p_task_id, p_reason, p_actor);
end
$$;

comment on function skiplane.retry_dead_letter_within(text, uuid, text, text) is 'retry_dead_letter for a caller bound to a tenant.';

create or replace function skiplane.discard_dead_letter_within(p_within text, p_task_id uuid, p_reason text, p_actor text)
returns jsonb language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
begin
    perform skiplane._check_visible(p_task_id, p_within);
    return skiplane.discard_dead_letter(p_task_id, p_reason, p_actor);
end
$$;

comment on function skiplane.discard_dead_letter_within(text, uuid, text, text) is 'discard_dead_letter for a caller bound to a tenant.';

create or replace function skiplane._check_within(p_within text, p_tenant_id text) returns void
language plpgsql immutable
as $$
begin
    if p_within is not null and p_tenant_id is distinct from p_within then
        perform skiplane._refuse('SK010', 'tenant_id', p_tenant_id, 'the caller is bound to another tenant',
            'leave the tenant out, or use a key that is bound to none');
    end if;
end
$$;

comment on function skiplane._check_within(text, text) is 'Refuses a tenant that the caller is not bound to.';

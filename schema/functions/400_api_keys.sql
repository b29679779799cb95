-- API keys: made, used, listed, revoked. p_within is the tenant that the caller's own key is bound to (NULL: none);
-- such a caller sees and makes keys of that tenant only.

create or replace function skiplane._key_document(p_key skiplane.api_key) returns jsonb
language sql stable
as $$
    select jsonb_build_object('key_id', p_key.key_id, 'name', p_key.name, 'role', p_key.role, 'tenant_id', p_key.tenant_id,
        'created_at', skiplane._utc_text(p_key.created_at), 'created_by', p_key.created_by,
        'expires_at', skiplane._utc_text(p_key.expires_at), 'revoked_at', skiplane._utc_text(p_key.revoked_at),
        'last_used_at', skiplane._utc_text(p_key.last_used_at))
$$;

comment on function skiplane._key_document(skiplane.api_key) is 'What may be shown of a key.';

create or replace function skiplane.create_api_key(
    p_key_id text, p_hash bytea, p_name text, p_role text, p_tenant_id text default null,
    p_expires_at timestamptz default null, p_actor text default null, p_within text default null
) returns jsonb language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_now timestamptz := skiplane.clock();
    k skiplane.api_key;
begin
    perform skiplane._check_name('name', p_name);
    perform skiplane._check_choice('role', p_role, '{reader,producer,operator,admin}');
    if p_tenant_id is not null then
        perform skiplane._check_name('tenant_id', p_tenant_id);
    end if;
    if p_within is not null and p_within is distinct from p_tenant_id then
        perform skiplane._refuse('SK010', 'tenant_id', p_tenant_id, 'a key of one tenant makes keys of that tenant only',
            format('give tenant_id %s, or use a key that is bound to none', p_within));
    end if;
    perform skiplane._check_time('expires_at', p_expires_at);
    if p_expires_at <= v_now then
        perform skiplane._refuse('SK001', 'expires_at', p_expires_at::text, 'expires_at has passed already', 'give a time to come, or none');
    end if;
    insert into skiplane.api_key (key_id, hash, name, role, tenant_id, created_at, created_by, expires_at)
    values (p_key_id, p_hash, p_name, p_role, p_tenant_id, v_now, coalesce(left(p_actor, 200), session_user), p_expires_at)
    returning * into k;
    return skiplane._key_document(k);
end
$$;

comment on function skiplane.create_api_key(text, bytea, text, text, text, timestamptz, text, text) is
'Makes an API key known by its SHA-256. The caller draws the key (`skiplane keys create` does) and shows it once.';

create or replace function skiplane.list_api_keys(
    p_within text default null, p_limit integer default 50, p_cursor text default null
) returns setof jsonb language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_at timestamptz;
begin
    perform skiplane._check_number('limit', p_limit, 1, 1000);
    if p_cursor is not null then
        select k.created_at into v_at from skiplane.api_key k where k.key_id = p_cursor;
        if v_at is null then
            perform skiplane._refuse('SK001', 'cursor', p_cursor, 'cursor is not one of ours', 'pass the cursor of the page before, unchanged');
        end if;
    end if;
    return query
    select skiplane._key_document(k) from skiplane.api_key k
    where (p_within is null or k.tenant_id = p_within)
        and (v_at is null or (k.created_at, k.key_id) < (v_at, p_cursor))
    order by k.created_at desc, k.key_id desc limit p_limit;
end
$$;

comment on function skiplane.list_api_keys(text, integer, text) is
'API keys, newest first; the next page: pass the key_id of the last one as p_cursor.';

create or replace function skiplane.revoke_api_key(p_key_id text, p_actor text default null, p_within text default null)
returns jsonb language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare k skiplane.api_key;
begin
    select * into k from skiplane.api_key x
    where x.key_id = p_key_id and (p_within is null or x.tenant_id = p_within) for update;
    if k.key_id is null then
        perform skiplane._refuse('SK002', 'key_id', p_key_id, 'no such API key', 'list_api_keys shows what there is');
    end if;
    if k.revoked_at is null then
        update skiplane.api_key x set revoked_at = skiplane.clock(), revoked_by = coalesce(left(p_actor, 200), session_user)
        where x.key_id = k.key_id returning * into k;
    end if;
    return skiplane._key_document(k);
end
$$;

comment on function skiplane.revoke_api_key(text, text, text) is
'Ends a key for good; once more does nothing. Web processes heed it within two seconds. SK002 when unknown.';

create or replace function skiplane.authenticate_api_key(p_hash bytea)
returns table (key_id text, role text, tenant_id text, expires_at timestamptz, problem text)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_now timestamptz := skiplane.clock();
    k skiplane.api_key;
begin
    select * into k from skiplane.api_key x where x.hash = p_hash;
    if k.key_id is null then
        return;
    end if;
    -- Rarely, and never in anybody's way: whoever finds the row locked leaves it.
    if k.revoked_at is null and (k.last_used_at is null or k.last_used_at < v_now - interval '5 minutes') then
        perform from skiplane.api_key x where x.key_id = k.key_id for no key update skip locked;
        if found then
            update skiplane.api_key x set last_used_at = v_now where x.key_id = k.key_id;
        end if;
    end if;
    return query select k.key_id, k.role, k.tenant_id, k.expires_at,
        case when k.revoked_at is not null then 'revoked' when k.expires_at <= v_now then 'expired' end;
end
$$;

comment on function skiplane.authenticate_api_key(bytea) is
'Who comes with a key of this SHA-256; no row when nobody. problem: revoked or expired, NULL when all is well.';

-- Sessions of the dashboard: opened with an API key, looked at with every request, closed.

create or replace function skiplane.open_web_session(p_hash bytea, p_key_hash bytea, p_seconds double precision default 43200)
returns timestamptz language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_now timestamptz := skiplane.clock();
    v_end timestamptz := v_now + make_interval(secs => p_seconds);
    k record;
begin
    select * into k from skiplane.authenticate_api_key(p_key_hash);
    if k.key_id is null or k.problem is not null then
        return null;
    end if;
    v_end := least(v_end, k.expires_at);
    insert into skiplane.web_session (hash, key_id, created_at, expires_at) values (p_hash, k.key_id, v_now, v_end);
    delete from skiplane.web_session s where s.hash = any (array(
        select x.hash from skiplane.web_session x where x.expires_at < v_now order by x.expires_at limit 100 for update skip locked));
    return v_end;
end
$$;

comment on function skiplane.open_web_session(bytea, bytea, double precision) is
'Signs a browser in with an API key, both given as SHA-256; answers when the session ends, NULL when the key opens nothing.';

create or replace function skiplane.authenticate_web_session(p_hash bytea)
returns table (key_id text, role text, tenant_id text, expires_at timestamptz, problem text)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
declare v_now timestamptz := skiplane.clock();
begin
    return query
    select k.key_id, k.role, k.tenant_id, s.expires_at,
        case when k.revoked_at is not null then 'revoked' when least(k.expires_at, s.expires_at) <= v_now then 'expired' end
    from skiplane.web_session s join skiplane.api_key k on k.key_id = s.key_id
    where s.hash = p_hash;
end
$$;

comment on function skiplane.authenticate_web_session(bytea) is
'Who comes with a session of this SHA-256, with the rights that its key has now; no row when nobody.';

create or replace function skiplane.close_web_session(p_hash bytea) returns void
language sql volatile security definer set search_path = pg_catalog, pg_temp
as $$ delete from skiplane.web_session where hash = p_hash $$;

comment on function skiplane.close_web_session(bytea) is 'Signs a browser out.';

-- Submitting what many callers sent at the same moment: tasks that share all options but payload, metadata and key.

create or replace function skiplane._read_metadata(p_metadata text[], p_tenant_id text) returns jsonb[]
language plpgsql volatile
as $$
declare v_all jsonb[];
begin
    perform skiplane._check_json('metadata', m, 16384) from unnest(p_metadata) as u (m);
    v_all := p_metadata::jsonb[];
    perform skiplane._check_metadata(x.m), skiplane._check_within(p_tenant_id, coalesce(x.m ->> 'tenant_id', 'default'))
    from unnest(v_all) as x (m) where jsonb_typeof(x.m) <> 'object' or coalesce(x.m ->> 'tenant_id', 'default') <> p_tenant_id;
    return v_all;
end
$$;

comment on function skiplane._read_metadata(text[], text) is 'Metadata texts as jsonb; each names the tenant.';

-- Waiting for whoever uses the same key in an open transaction has a bound: behind a caller of this function others wait.
create or replace function skiplane.submit_group(
    p_options jsonb, p_payloads text[], p_tenant_id text, p_metadata text[] default null, p_keys text[] default null
) returns setof skiplane.submitted
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set lock_timeout = '3s'
as $$
declare
    v_now timestamptz;
    t skiplane.task;
    s record;
begin
    perform pg_current_xact_id();
    v_now := skiplane.clock();
    t := skiplane._object_template(p_options || jsonb_build_object('metadata', jsonb_build_object('tenant_id', p_tenant_id)), v_now);
    s := skiplane._submit(t, skiplane._read_payloads(p_payloads), p_keys, case when p_keys is not null then
        skiplane._body(t, skiplane._time_field(p_options, 'scheduled_at'), skiplane._number_field(p_options, 'delay_seconds', null)) end,
        null, skiplane._read_metadata(p_metadata, p_tenant_id));
    return query
    select x.* from unnest(s.ids, s.duplicates) with ordinality as u (id, duplicate, ord)
    cross join lateral skiplane._submitted(u.ord::integer, u.id, coalesce(u.duplicate, false), t) x order by u.ord;
end
$$;

comment on function skiplane.submit_group(jsonb, text[], text, text[], text[]) is
'Submits tasks that share p_options (fields of submit_tasks without payload, metadata and idempotency_key) and a tenant; payload, metadata and key of each in arrays. All or nothing; one row per task, in order. Waits at most 3 s for an open transaction that uses one of the keys (55P03 then).';

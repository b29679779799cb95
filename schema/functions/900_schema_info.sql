-- What a process asks at its start: can this release work with this database?

create or replace function skiplane.schema_info() returns jsonb
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
    select jsonb_build_object(
        'version', (select version_num from skiplane.schema_version),
        'code', (select value from skiplane.setting where name = 'code'),
        'oldest_code', (select value from skiplane.setting where name = 'oldest_code')
    )
$$;

comment on function skiplane.schema_info() is
'version: number of the last table migration; code: the release that changed the schema last; oldest_code: the oldest release whose processes work with it.';

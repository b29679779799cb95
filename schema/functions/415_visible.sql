-- Schedules and workflows for callers that may be bound to one tenant, as 410_bounded_verbs.sql does for tasks.

create or replace function skiplane.check_schedule_within(p_cron_id uuid, p_within text) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
begin
    if p_within is not null and not exists (
        select from skiplane.schedule s
        where s.id = p_cron_id and s.shard = skiplane.task_shard(p_cron_id) and s.tenant_id = p_within)
    then
        perform skiplane._refuse('SK002', 'cron_id', p_cron_id::text, 'no schedule has this id', 'look the id up with list_cron_tasks');
    end if;
end
$$;

comment on function skiplane.check_schedule_within(uuid, text) is
'Refuses, as unknown, a schedule of another tenant than p_within (NULL: every tenant''s may be seen).';

create or replace function skiplane.check_workflow_within(p_workflow_id uuid, p_within text) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
begin
    if p_within is not null and (skiplane._known_workflow(p_workflow_id)).tenant_id <> p_within then
        perform skiplane._refuse('SK002', 'workflow_id', p_workflow_id::text, 'no workflow has this id',
            'look the id up with list_workflows; history is dropped after the retention');
    end if;
end
$$;

comment on function skiplane.check_workflow_within(uuid, text) is
'Refuses, as unknown, a workflow of another tenant than p_within (NULL: every tenant''s may be seen).';

create or replace function skiplane.explain_waiting_within(p_within text, p_task_id uuid) returns jsonb
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
as $$
begin
    perform skiplane._check_visible(p_task_id, p_within);
    return skiplane._explain_waiting(p_task_id, p_within is not null);
end
$$;

comment on function skiplane.explain_waiting_within(text, uuid) is
'explain_waiting for a caller bound to the tenant p_within (NULL: to none). A bound one is not told how many other tenants take turns.';

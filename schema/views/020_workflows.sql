create or replace view skiplane.workflows as
select
    w.id as workflow_id,
    w.name as workflow_name,
    s.status,
    w.definition as dag_definition,
    w.created_at,
    s.completed_at,
    w.tenant_id
from skiplane.workflow w
join skiplane.workflow_state s on s.id = w.id and s.shard = w.shard and s.day = w.day;

comment on view skiplane.workflows is
'All workflows with their state. A filter on workflow_id or tenant_id is answered from indexes; their tasks are in the view tasks.';

grant execute on function
    skiplane.get_workflow(uuid), skiplane.workflow_status(uuid), skiplane.workflow_results(uuid),
    skiplane.workflow_graph(uuid), skiplane.dependency_results(uuid),
    skiplane.list_workflows(text[], text, text, timestamptz, timestamptz, integer, text)
to skiplane_reader, skiplane_producer, skiplane_worker, skiplane_operator;
grant select on skiplane.workflows to skiplane_reader, skiplane_operator;

grant execute on function
    skiplane.submit_workflow(text, jsonb, text, jsonb), skiplane.submit_workflows(jsonb), skiplane.cancel_workflow(uuid, text, text)
to skiplane_producer, skiplane_operator;

grant execute on function skiplane.retry_workflow(uuid, text, text) to skiplane_operator;

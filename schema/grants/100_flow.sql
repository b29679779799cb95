grant execute on function skiplane.explain_waiting(uuid)
to skiplane_reader, skiplane_producer, skiplane_worker, skiplane_operator;

grant execute on function
    skiplane.get_queue(text), skiplane.get_task_type(text), skiplane.get_tenant(text), skiplane.list_queues(integer, text),
    skiplane.list_task_types(integer, text), skiplane.list_tenants(integer, text)
to skiplane_reader, skiplane_operator;

grant execute on function
    skiplane.set_queue(text, text, integer, boolean, text),
    skiplane.set_task_type(text, text, double precision, text, double precision, integer, integer, double precision,
        double precision, integer, double precision, integer, boolean, text),
    skiplane.set_tenant(text, integer, integer, jsonb, boolean, text),
    skiplane.pause_queue(text, text), skiplane.resume_queue(text, text),
    skiplane.pause_task_type(text, text), skiplane.resume_task_type(text, text),
    skiplane.pause_tenant(text, text), skiplane.resume_tenant(text, text),
    skiplane.open_breaker(text, double precision, text, text), skiplane.close_breaker(text, text), skiplane.recount_limits()
to skiplane_operator;

grant execute on function
    skiplane.declare_task_type(text, jsonb), skiplane.refresh_flow(jsonb, smallint), skiplane.sweep_flow(integer)
to skiplane_worker;

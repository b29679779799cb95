-- What `skiplane web` calls. An operator may do all of it by hand as well.
grant execute on function
    skiplane.create_api_key(text, bytea, text, text, text, timestamptz, text, text),
    skiplane.list_api_keys(text, integer, text), skiplane.revoke_api_key(text, text, text),
    skiplane.authenticate_api_key(bytea),
    skiplane.cancel_task_within(text, uuid, text, text), skiplane.edit_task_within(text, uuid, integer, jsonb, text),
    skiplane.retry_task_within(text, uuid, text, text), skiplane.retry_dead_letter_within(text, uuid, text, text),
    skiplane.discard_dead_letter_within(text, uuid, text, text),
    skiplane.check_schedule_within(uuid, text), skiplane.check_workflow_within(uuid, text),
    skiplane.explain_waiting_within(text, uuid),
    skiplane.read_tasks(uuid[], text[]), skiplane.ended_tasks(uuid[]),
    skiplane.list_tasks_page(text, text[], text, text, text, uuid, text, timestamptz, timestamptz, integer, text),
    skiplane.submit_group(jsonb, text[], text, text[], text[]),
    skiplane.take_submissions(text, integer, integer), skiplane.overflow_queue(text), skiplane.queue_pressure(),
    skiplane.read_events(jsonb, integer), skiplane.measurements()
to skiplane_operator;

-- The loops of the scheduler, which a worker's role may run.
grant execute on function skiplane.return_overflow(integer, smallint) to skiplane_worker;

grant execute on function skiplane.autoscale(text[], double precision, integer, integer, integer)
to skiplane_reader, skiplane_operator;

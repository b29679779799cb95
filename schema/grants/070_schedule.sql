grant execute on function
    skiplane.get_cron_task(uuid), skiplane.find_cron_task(text, text),
    skiplane.list_cron_tasks(text, text, text, integer, text), skiplane.list_fires(uuid, timestamptz, integer)
to skiplane_reader, skiplane_producer, skiplane_worker, skiplane_operator;
grant select on skiplane.cron_tasks, skiplane.cron_fires to skiplane_reader, skiplane_operator;

grant execute on function
    skiplane.create_cron_task(text, text, text, jsonb, text, text, text, integer, boolean, double precision, timestamptz,
        timestamptz, text, text, integer, text, double precision, double precision, text, double precision,
        double precision, text, text, jsonb, timestamptz, text),
    skiplane.edit_cron_task(uuid, integer, jsonb, timestamptz, text), skiplane.pause_cron_task(uuid, text, text),
    skiplane.resume_cron_task(uuid, timestamptz, text), skiplane.run_cron_task(uuid, text),
    skiplane.delete_cron_task(uuid, text), skiplane.sync_cron_tasks(text, jsonb, boolean, boolean, text)
to skiplane_producer, skiplane_operator;

-- The scheduler's own.
grant execute on function
    skiplane.take_due_schedules(integer, timestamptz, smallint), skiplane.fire_schedules(jsonb, smallint),
    skiplane.release_queued_fires(integer, smallint)
to skiplane_worker;

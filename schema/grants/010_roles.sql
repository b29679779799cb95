-- Roles are granted verbs, not tables. Functions are nobody's until granted here.
revoke all on all functions in schema skiplane from public;
grant usage on schema skiplane to skiplane_producer, skiplane_worker, skiplane_operator, skiplane_reader;

grant execute on function
    skiplane.get_task(uuid), skiplane.get_result(uuid), skiplane.get_results(uuid[]),
    skiplane.list_tasks(text[], text, text, text, timestamptz, timestamptz, integer, text),
    skiplane.list_dead_letters(text, text, text, integer, text), skiplane.health(), skiplane.clock(),
    skiplane.task_shard(uuid), skiplane.shard_labels()
to skiplane_reader, skiplane_producer, skiplane_worker, skiplane_operator;
grant select on skiplane.queues, skiplane.workers, skiplane.tasks, skiplane.dead_letter_queue
to skiplane_reader, skiplane_operator;
grant execute on function skiplane._find_lease(uuid, smallint) to skiplane_reader, skiplane_operator;

grant execute on function
    skiplane.submit_task(text, jsonb, text, text, timestamptz, double precision, integer, text, double precision,
        double precision, text, double precision, text, double precision, text, timestamptz, text, jsonb),
    skiplane.submit_tasks(jsonb),
    skiplane.submit_batch(text, text[], text, text, timestamptz, double precision, integer, text, double precision,
        double precision, text, double precision, text[], double precision, text, timestamptz, text, jsonb),
    skiplane.cancel_task(uuid, text, text), skiplane.edit_task(uuid, integer, jsonb, text)
to skiplane_producer, skiplane_operator;

grant execute on function
    skiplane.retry_task(uuid, text, text), skiplane.retry_dead_letter(uuid, text, text),
    skiplane.retry_dead_letters(text, text, text, integer, text), skiplane.discard_dead_letter(uuid, text, text),
    skiplane.drain_worker(uuid, text)
to skiplane_operator;

grant execute on function
    skiplane.register_worker(uuid, text, text[], text[], integer, text, integer, double precision, uuid),
    skiplane.unregister_worker(uuid),
    skiplane.claim_tasks(uuid, text[], integer, text[], double precision, jsonb, smallint),
    skiplane.finish_tasks(uuid, bigint, uuid[], text[], integer[], integer[], text, smallint),
    skiplane.finish_and_claim(uuid, bigint, uuid[], text[], integer[], integer[], text, text[], integer, text[],
        double precision, jsonb, smallint),
    skiplane.heartbeat(uuid, bigint[], uuid[], jsonb, double precision, boolean, smallint),
    skiplane.extend_leases(uuid[], double precision, smallint),
    skiplane.release_worker(uuid, text, boolean, smallint, uuid[], uuid[]),
    skiplane.checkpoint_task(uuid, bigint, uuid, jsonb, smallint),
    skiplane.report_progress(uuid, bigint, uuid, double precision, text, smallint),
    skiplane.wait_for_work(text[]), skiplane.stop_waiting(text[]), skiplane.queue_channel(text),
    skiplane.worker_channel(uuid),
    -- A worker process of the operator's own fleet may run the scheduler's loops, too.
    skiplane.promote_tasks(integer, timestamptz, smallint), skiplane.sweep_leases(integer, timestamptz, smallint),
    skiplane.expire_tasks(integer, smallint), skiplane.wake_workers(smallint), skiplane.refresh_lanes(jsonb, smallint),
    skiplane.refresh_depth(smallint), skiplane.maintain_partitions(integer), skiplane.sweep_history(integer)
to skiplane_worker;

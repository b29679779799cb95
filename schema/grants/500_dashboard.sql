-- What the dashboard of `skiplane web` calls. An operator may do all of it by hand as well.
grant execute on function
    skiplane.open_web_session(bytea, bytea, double precision), skiplane.authenticate_web_session(bytea),
    skiplane.close_web_session(bytea),
    skiplane.dead_letter_kinds(text, text, text, text, integer),
    skiplane.count_dead_letters(text, text, text, text, text, timestamptz, integer),
    skiplane.dead_letters_page(text, text, text, text, text, integer, text),
    skiplane.settle_dead_letters(text, text, text, text, text, text, timestamptz, integer, text, text),
    skiplane.recent_totals(integer), skiplane.recent_outcomes(text, integer), skiplane.depth_history(text, integer),
    skiplane.worker_tasks(uuid, integer), skiplane.fleet(integer),
    skiplane.failure_analytics(text, double precision, text, text, text, text, integer)
to skiplane_operator;

-- The loops of the scheduler, which a worker's role may run.
grant execute on function skiplane.refresh_rollup(smallint) to skiplane_worker;

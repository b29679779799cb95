-- Every process asks it at its start, whatever it may do afterwards.
grant execute on function skiplane.schema_info()
to skiplane_producer, skiplane_worker, skiplane_operator, skiplane_reader;

-- On every node: Citus makes the extension known to new nodes, and expects its files there.
create schema partman;
create extension pg_partman schema partman;

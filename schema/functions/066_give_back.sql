-- What goes back to limits and breakers when tasks leave a lease. Whoever takes them out does it, in the same transaction.
-- In a lease, hold_ids and hold_gates are pairs; an id that is NULL stands for all tasks of the lease.

create or replace function skiplane._places_of(
    p_hold_ids uuid[], p_hold_gates text[], p_ids uuid[], out gates text[], out places integer[]
) language plpgsql immutable
as $$
declare v_count integer := cardinality(p_ids);
begin
    if array_remove(p_hold_ids, null) = '{}' then
        for i in 1 .. cardinality(p_hold_gates) loop
            if p_hold_gates[i] not like 'breaker|%' then
                gates := gates || p_hold_gates[i];
                places := places || v_count;
            end if;
        end loop;
        return;
    end if;
    select array_agg(x.gate), array_agg(x.places) into gates, places
    from (
        select h.gate, sum(case when h.id is null then v_count when h.id in (select i from unnest(p_ids) as i) then 1 else 0 end)::integer
            as places
        from unnest(p_hold_ids, p_hold_gates) as h (id, gate) where h.gate not like 'breaker|%' group by h.gate
    ) x where x.places > 0;
end
$$;

comment on function skiplane._places_of(uuid[], text[], uuid[]) is
'Places that go back when tasks leave a lease: limits, and how many of each; NULL when none do.';

create or replace function skiplane._give_back(p_gates text[], p_places integer[]) returns void
language plpgsql volatile
as $$
begin
    insert into skiplane.gate_release (gate, xid, shard, places, at)
    select u.gate, pg_current_xact_id(), skiplane._home_shard(), u.places, skiplane.clock()
    from unnest(p_gates, p_places) as u (gate, places) where u.places > 0;
end
$$;

comment on function skiplane._give_back(text[], integer[]) is
'Gives back the places of tasks that have left a lease. Called once for each by whoever took it out, in the same transaction.';

create or replace function skiplane._count_successes(
    p_hold_ids uuid[], p_hold_gates text[], p_left uuid[], p_succeeded uuid[], p_claimed_at timestamptz
) returns void language plpgsql volatile
as $$
declare v_home smallint;
begin
    if not exists (select from unnest(p_hold_gates) as g where g like 'breaker|%') then
        return;
    end if;
    v_home := skiplane._home_shard();
    insert into skiplane.breaker_tally (task_type, at, shard, begun_at, succeeded, failed)
    select substr(h.gate, 9), skiplane.clock(), v_home, p_claimed_at, count(*), 0
    from unnest(p_succeeded) as s (id)
    join unnest(p_hold_ids, p_hold_gates) as h (id, gate) on h.id is null or h.id = s.id
    where h.gate like 'breaker|%' and s.id in (select x from unnest(p_left) as x)
    group by h.gate;
end
$$;

comment on function skiplane._count_successes(uuid[], text[], uuid[], uuid[], timestamptz) is
'Tells circuit breakers of tasks that succeeded.';

create or replace function skiplane._count_failure(p_task_type text, p_begun_at timestamptz) returns void
language plpgsql volatile
as $$
declare v_home smallint := skiplane._home_shard();
begin
    insert into skiplane.breaker_tally (task_type, at, shard, begun_at, succeeded, failed)
    select t.task_type, skiplane.clock(), v_home, p_begun_at, 0, 1 from skiplane.task_type_setting t
    where t.task_type = p_task_type
        and (t.breaker_threshold is not null or exists (select from skiplane.breaker b where b.task_type = p_task_type));
end
$$;

comment on function skiplane._count_failure(text, timestamptz) is 'Tells the circuit breaker of a type of a failed attempt, if it has one.';

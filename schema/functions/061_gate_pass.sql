-- A claim at a gate. What it means to take from is entered under the gate's advisory lock, which ends with the
-- transaction, so that places and tokens are exact. Two things keep claims under one limit out of each other's way:
-- A finish hands the places that it gives back to the claim in the same transaction: only the difference comes to the
-- gate. While no more are taken than there may be, such a place needs no lock, since the sum stays the same.
-- A rate is counted in parts of equal rate and burst, each with its own lock; a claim goes on from part to part until
-- it has enough, so that no token is out of reach.
-- Locks: advisory locks of gates, in any order, tried and never waited for; under them only rows of the gate. A claim
-- that does not get one takes the gate for closed. Whoever finishes takes none: it inserts what it gives back.

create or replace function skiplane._lock_gate(p_gate text, p_part integer) returns boolean
language plpgsql volatile
as $$
begin
    -- A snapshot that was taken before the lock may not show the last state.
    return current_setting('transaction_isolation') = 'read committed'
        and pg_try_advisory_xact_lock(1397442900, hashtext(case p_part when 0 then p_gate else p_gate || '#' || p_part end));
end
$$;

comment on function skiplane._lock_gate(text, integer) is 'Takes the lock of a part of a gate, if nobody has it.';

-- Slow rates need no parts, and whole starts need a burst that can be divided.
create or replace function skiplane._gate_parts(p_gate skiplane.gate) returns integer
language plpgsql immutable
as $$
begin
    return case when p_gate.rate >= 400 and p_gate.burst >= 400 then 4 else 1 end;
end
$$;

comment on function skiplane._gate_parts(skiplane.gate) is 'In how many parts a gate is counted.';

-- As they are, where the rate is counted in so many parts; else what there is in all, in equal shares.
create or replace function skiplane._part_tokens(
    p_gate skiplane.gate, p_parts integer, p_now timestamptz, p_home smallint
) returns double precision[] language plpgsql stable
as $$
declare
    v_name text := p_gate.name;
    v_tokens double precision[] := '{}';
    v_parts integer := 1;
    s record;
begin
    for v_part in 0 .. 3 loop
        exit when v_part >= v_parts;
        select x.tokens, x.at, x.parts into s from skiplane.gate_state x
        where x.gate = v_name and x.part = v_part and x.shard = p_home order by x.n desc limit 1;
        if s.parts is null then
            return array_fill(p_gate.burst / p_parts, array[p_parts]);
        end if;
        v_parts := s.parts;
        v_tokens := v_tokens || least(p_gate.burst / v_parts,
            s.tokens + p_gate.rate / v_parts * greatest(0, extract(epoch from p_now - s.at)::double precision));
    end loop;
    if v_parts = p_parts then
        return v_tokens;
    end if;
    return array_fill((select sum(x) from unnest(v_tokens) as x) / p_parts, array[p_parts]);
end
$$;

comment on function skiplane._part_tokens(skiplane.gate, integer, timestamptz, smallint) is
'Tokens in each part of a rate, seen without its locks.';

-- Under the locks of all parts that there may have been.
create or replace function skiplane._share_tokens(p_gate skiplane.gate, p_now timestamptz, p_home smallint) returns boolean
language plpgsql volatile
as $$
declare
    v_name text := p_gate.name;
    v_parts integer := skiplane._gate_parts(p_gate);
    v_at timestamptz;
    v_tokens double precision[];
begin
    for v_part in 0 .. 3 loop
        if not skiplane._lock_gate(v_name, v_part) then
            return false;
        end if;
    end loop;
    select greatest(p_now, max(x.at)) into v_at from skiplane.gate_state x where x.gate = v_name and x.shard = p_home;
    v_tokens := skiplane._part_tokens(p_gate, v_parts, v_at, p_home);
    delete from skiplane.gate_state x where x.gate = v_name and x.shard = p_home;
    insert into skiplane.gate_state (gate, shard, part, parts, tokens, at, folded)
    select v_name, p_home, u.ord - 1, v_parts, u.tokens, v_at, pg_current_snapshot()
    from unnest(v_tokens) with ordinality as u (tokens, ord);
    return true;
end
$$;

comment on function skiplane._share_tokens(skiplane.gate, timestamptz, smallint) is
'Begins to count a rate, or counts it in another number of parts; false when somebody else is at one of them.';

-- What a finish gave back, and is not counted in yet.
create or replace function skiplane._look_at_gate(
    p_gate skiplane.gate, p_back_gates text[], p_back_places integer[], p_home smallint
) returns skiplane.gate_pass language plpgsql volatile
as $$
declare
    v_name text := p_gate.name;
    v_back integer := coalesce(p_back_places[array_position(p_back_gates, v_name)], 0);
    v_carried integer := 0;
begin
    -- Where more are taken than there may be (a limit was lowered) none goes from hand to hand.
    if v_back > 0 and current_setting('transaction_isolation') = 'read committed' and p_gate.places >= (
        select x.held from skiplane.gate_state x
        where x.gate = v_name and x.part = 0 and x.shard = p_home order by x.n desc limit 1)
    then
        v_carried := v_back;
    end if;
    -- One expression: each costs a microsecond or two in every transaction.
    return row(v_name, 0, v_back, v_carried, false, false, false, false, null, null, null, null, 0, null, '{}', '{}', '{}', '{}')::skiplane.gate_pass;
end
$$;

comment on function skiplane._look_at_gate(skiplane.gate, text[], integer[], smallint) is
'Comes to a gate, with what the finish in the same transaction gave back of it.';

create or replace function skiplane._pass_room(p_gate skiplane.gate, p_pass skiplane.gate_pass) returns integer
language plpgsql immutable
as $$
begin
    if p_gate.rate is not null then
        return p_pass.whole - p_pass.taken;
    elsif p_pass.mine then
        return greatest(0, p_gate.places - p_pass.held - p_pass.taken);
    end if;
    return p_pass.carried - p_pass.taken;
end
$$;

comment on function skiplane._pass_room(skiplane.gate, skiplane.gate_pass) is 'How many more tasks may pass a gate in this claim.';

-- Where there is room for p_want already, nothing is locked.
create or replace function skiplane._enter_gate(
    p_gate skiplane.gate, p_pass skiplane.gate_pass, p_want integer, p_home smallint
) returns skiplane.gate_pass language plpgsql volatile
as $$
declare
    v_pass skiplane.gate_pass := p_pass;
    v_name text := p_gate.name;
    s record;
    v_places integer;
    v_more integer;
    v_low xid8;
    v_others xid8[];
begin
    if v_pass.entered or v_pass.carried - v_pass.taken >= p_want then
        return v_pass;
    elsif p_gate.rate is not null then
        return skiplane._enter_rate(p_gate, v_pass, p_want, p_home);
    end if;
    v_pass.entered := true;
    v_pass.mine := skiplane._lock_gate(v_name, 0);
    if not v_pass.mine then
        v_pass.missed := true;
        return v_pass;
    end if;
    select x.n, x.held, x.at, x.folded into s from skiplane.gate_state x
    where x.gate = v_name and x.part = 0 and x.shard = p_home order by x.n desc limit 1;
    v_pass.n := s.n;
    v_pass.at := greatest(s.at, skiplane.clock());
    -- What came in since the last fold, without a walk over what was deleted then: transactions that its snapshot did
    -- not show.
    v_pass.folded := pg_current_snapshot();
    v_low := coalesce(pg_snapshot_xmax(s.folded), '0');
    with gone as (
        delete from skiplane.gate_release r where r.gate = v_name and r.xid >= v_low and r.shard = p_home returning r.places)
    select coalesce(sum(g.places), 0) into v_places from gone g;
    -- And this one itself, which no snapshot of its own names: it may have entered this gate before.
    v_others := array(
        select x.xid from pg_snapshot_xip(s.folded) as x (xid)
        union all select x.xid from pg_current_xact_id_if_assigned() as x (xid) where x.xid < v_low);
    if v_others <> '{}' then
        with gone as (
            delete from skiplane.gate_release r where r.gate = v_name and r.xid = any (v_others) and r.shard = p_home
            returning r.places)
        select coalesce(sum(g.places), 0) into v_more from gone g;
        v_places := v_places + v_more;
    end if;
    v_pass.held := coalesce(s.held, 0) - v_places - v_pass.back;
    v_pass.changed := v_places + v_pass.back <> 0;
    v_pass.back := 0;
    v_pass.carried := 0;
    return v_pass;
end
$$;

comment on function skiplane._enter_gate(skiplane.gate, skiplane.gate_pass, integer, smallint) is
'Takes the lock of a gate, if nobody has it and it is needed, and counts in what was given back.';

-- Each claim begins at a part of its own, and leaves the others alone if that has enough.
create or replace function skiplane._enter_rate(
    p_gate skiplane.gate, p_pass skiplane.gate_pass, p_want integer, p_home smallint
) returns skiplane.gate_pass language plpgsql volatile
as $$
declare
    v_pass skiplane.gate_pass := p_pass;
    v_name text := p_gate.name;
    v_parts integer := skiplane._gate_parts(p_gate);
    v_part integer;
    v_tokens double precision;
    v_found boolean;
    v_n bigint;
    v_now timestamptz;
    v_at timestamptz;
    s record;
begin
    v_pass.mine := true;
    for v_step in coalesce(cardinality(v_pass.part_no), 0) .. v_parts - 1 loop
        if v_pass.whole - v_pass.taken >= p_want then
            return v_pass;
        end if;
        v_part := case v_parts when 1 then 0 else (pg_backend_pid() + v_step) % v_parts end;
        -- A part that was missed is not tried again in this claim.
        v_pass.part_no := v_pass.part_no || v_part;
        if skiplane._lock_gate(v_name, v_part) then
            v_now := skiplane.clock();
            select x.n, x.tokens, x.at, x.parts into s from skiplane.gate_state x
            where x.gate = v_name and x.part = v_part and x.shard = p_home order by x.n desc limit 1;
            if (s.parts = v_parts) is not true and skiplane._share_tokens(p_gate, v_now, p_home) then
                select x.n, x.tokens, x.at, x.parts into s from skiplane.gate_state x
                where x.gate = v_name and x.part = v_part and x.shard = p_home order by x.n desc limit 1;
            end if;
            v_found := coalesce(s.parts = v_parts, false);
        else
            v_found := false;
        end if;
        if v_found then
            v_n := s.n;
            v_at := greatest(s.at, v_now);
            v_tokens := least(p_gate.burst / v_parts,
                s.tokens + p_gate.rate / v_parts * extract(epoch from v_at - s.at)::double precision);
            v_pass.at := greatest(v_pass.at, v_at);
            v_pass.whole := v_pass.whole + floor(v_tokens + 1e-9)::integer;
            v_pass.wait := least(v_pass.wait, (1 - v_tokens) / p_gate.rate * v_parts);
        else
            v_pass.missed := true;
            v_tokens := null;
            v_at := null;
            v_n := null;
        end if;
        v_pass.part_n := v_pass.part_n || v_n;
        v_pass.part_at := v_pass.part_at || v_at;
        v_pass.part_tokens := v_pass.part_tokens || v_tokens;
    end loop;
    v_pass.entered := true;
    return v_pass;
end
$$;

comment on function skiplane._enter_rate(skiplane.gate, skiplane.gate_pass, integer, smallint) is
'Enters parts of a rate until they have enough.';

-- Answers with the places that this transaction still has to give back.
create or replace function skiplane._leave_gate(p_gate skiplane.gate, p_pass skiplane.gate_pass, p_home smallint) returns integer
language plpgsql volatile
as $$
declare
    v_left integer := p_pass.taken;
    v_use integer;
    v_parts integer;
begin
    if p_gate.rate is not null then
        v_parts := skiplane._gate_parts(p_gate);
        for i in 1 .. cardinality(p_pass.part_no) loop
            -- NULL is what somebody else was at.
            continue when p_pass.part_tokens[i] is null;
            v_use := least(v_left, greatest(0, floor(p_pass.part_tokens[i] + 1e-9))::integer);
            continue when v_use = 0;
            v_left := v_left - v_use;
            perform skiplane._write_gate(p_pass.name, p_pass.part_no[i], v_parts, p_pass.part_n[i], 0,
                p_pass.part_tokens[i] - v_use, p_pass.part_at[i], pg_current_snapshot(), p_home);
        end loop;
        return 0;
    elsif not p_pass.mine then
        return p_pass.back - p_pass.taken;
    elsif p_pass.changed or p_pass.taken > 0 then
        perform skiplane._write_gate(p_pass.name, 0, 1, p_pass.n, p_pass.held + p_pass.taken, null, p_pass.at, p_pass.folded, p_home);
    end if;
    return 0;
end
$$;

comment on function skiplane._leave_gate(skiplane.gate, skiplane.gate_pass, smallint) is
'Writes what a claim took of a gate; answers how many places its transaction has yet to give back.';

create or replace function skiplane._write_gate(
    p_gate text, p_part integer, p_parts integer, p_n bigint, p_held integer, p_tokens double precision, p_at timestamptz,
    p_folded pg_snapshot, p_home smallint
) returns void language plpgsql volatile
as $$
begin
    insert into skiplane.gate_state (gate, shard, part, parts, held, tokens, at, folded)
    values (p_gate, p_home, p_part, p_parts, p_held, p_tokens, p_at, p_folded);
    -- By its own number: a range would walk all that were deleted before.
    delete from skiplane.gate_state x where x.gate = p_gate and x.part = p_part and x.n = p_n and x.shard = p_home;
end
$$;

comment on function skiplane._write_gate(text, integer, integer, bigint, integer, double precision, timestamptz, pg_snapshot, smallint) is
'Writes the new state of a part of a gate that is locked.';

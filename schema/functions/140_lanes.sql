-- Keeping lanes cheap: low-water marks, late commits, closing what is idle.
-- A claim that starts at the mark of its lane never walks rows which are dead but cannot be vacuumed (a held
-- snapshot). The mark may pass no row that is not committed yet: every writer takes its transaction id BEFORE it
-- reads the clock for due_at, so once all transactions older than a sample have ended, nothing due before the sample
-- can appear any more. Transactions that write for over a second do not hold the marks back: all writers are
-- remembered, and when one that old has ended, what it left below the marks is moved to the present.

create or replace function skiplane._settled_at(p_shard smallint) returns timestamptz
language sql volatile
    set jit = off set enable_seqscan = off
as $$
    select coalesce((
        select w.at from skiplane.watermark w
        where w.shard = p_shard and w.next_xid <= pg_snapshot_xmin(pg_current_snapshot())
        order by w.n desc limit 1), '-infinity')
$$;

comment on function skiplane._settled_at(smallint) is 'Everything that was submitted before this time has committed or failed.';

create or replace function skiplane.refresh_lanes(p_state jsonb default null, p_shard smallint default 0) returns jsonb
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off
as $$
declare
    -- One scheduler at a time: two would leave marks behind, and the earlier clock of one would look like a step back
    -- to the other. Whoever comes second only looks after late writers. Taken before the clock is read.
    v_mine boolean := pg_try_advisory_xact_lock(1397442899, p_shard);
    -- The clock before the own id: whoever gets a higher transaction id reads a later time. The end of the snapshot
    -- would not do for the sample: it is one past the last transaction that ENDED, and later ones may be writing.
    v_now timestamptz := skiplane.clock();
    v_xid xid8 := pg_current_xact_id();
    v_snapshot pg_snapshot := pg_current_snapshot();
    v_old_xid xid8;
    v_writers jsonb;
    v_since timestamptz;
    v_settled timestamptz;
    v_lane bigint := coalesce((p_state ->> 'lane')::bigint, 0);
begin
    if v_mine then
        perform skiplane._heed_clock(v_now, p_shard);
        insert into skiplane.watermark (shard, at, next_xid) values (p_shard, v_now, v_xid);
    end if;
    -- Every writer with a time before its first write: another scheduler may move the marks past it and be gone.
    select coalesce(jsonb_object_agg(x.xid::text, coalesce(p_state -> 'writers' ->> x.xid::text, (
        select w.at::text from skiplane.watermark w
        where w.shard = p_shard and w.next_xid <= x.xid order by w.n desc limit 1), '-infinity')), '{}')
    into v_writers from pg_snapshot_xip(v_snapshot) as x (xid);
    select w.next_xid into v_old_xid from skiplane.watermark w
    where w.shard = p_shard and w.at < v_now - interval '1 second' order by w.n desc limit 1;
    select w.at into v_settled from skiplane.watermark w
    where w.shard = p_shard and w.next_xid <= coalesce((
        select min(x.xid::text::numeric)::text::xid8 from pg_snapshot_xip(v_snapshot) as x (xid)
        where (x.xid < v_old_xid) is not true), pg_snapshot_xmax(v_snapshot))
    order by w.n desc limit 1;
    if p_state is null then
        v_since := '-infinity';
    else
        select min(e.value::timestamptz) into v_since from jsonb_each_text(p_state -> 'writers') e
        where not v_writers ? e.key and e.value::timestamptz < v_now - interval '1 second';
    end if;
    if v_since is not null then
        perform skiplane._rescue_late(v_since, p_shard);
        -- What was committed late without a mark to pass it wakes nobody by its age.
        perform skiplane._wake_queues('-infinity', p_shard);
    end if;
    if v_mine and v_settled is not null then
        v_lane := skiplane._move_marks(v_lane, v_settled, v_now, p_shard);
    end if;
    if v_mine then
        perform skiplane._drop_lanes(p_shard);
    end if;
    return jsonb_build_object('writers', v_writers, 'lane', v_lane);
end
$$;

comment on function skiplane.refresh_lanes(jsonb, smallint) is
'Moves the low-water marks of lanes, serves what was committed late, closes idle lanes. Keep the answer and pass it with the next call; NULL at the start of a process makes one full look.';

-- A server's clock may step back. What is submitted then would lie below the marks until the clock has caught up, so
-- marks and samples of the future go: claims walk a while, and lose nothing.
create or replace function skiplane._heed_clock(p_now timestamptz, p_shard smallint) returns void
language plpgsql volatile
    set jit = off set enable_seqscan = off
as $$
begin
    if p_now < (select w.at from skiplane.watermark w where w.shard = p_shard order by w.n desc limit 1) then
        delete from skiplane.watermark w where w.shard = p_shard and w.at > p_now;
        delete from skiplane.lane_mark m where m.shard = p_shard and m.due_at > p_now;
    end if;
end
$$;

comment on function skiplane._heed_clock(timestamptz, smallint) is 'Forgets marks of the future when the clock has stepped back.';

-- Rows that became visible below their lane's mark get the present as their due time.
create or replace function skiplane._rescue_late(p_since timestamptz, p_shard smallint) returns integer
language plpgsql volatile
    set jit = off set enable_seqscan = off set enable_bitmapscan = off
    set enable_sort = off set plan_cache_mode = force_generic_plan
as $$
declare
    m record;
    v_ids uuid[];
    v_now timestamptz;
    v_count integer := 0;
begin
    for m in
        select l.lane, l.queue, k.due_at, k.estimate, k.id from skiplane.lane l
        cross join lateral (
            select x.due_at, x.estimate, x.id from skiplane.lane_mark x
            where x.lane = l.lane and x.shard = p_shard order by x.n desc limit 1) k
        where l.shard = p_shard and k.due_at >= p_since
    loop
        loop
            v_ids := array(
                select r.id from skiplane.ready r
                where r.lane = m.lane and r.shard = p_shard and r.due_at >= p_since
                    and (r.due_at, r.estimate, r.id) < (m.due_at, m.estimate, m.id)
                order by r.due_at, r.estimate, r.id limit 1000 for update skip locked);
            exit when v_ids = '{}';
            -- Read now: this transaction has its id by then (see refresh_lanes).
            v_now := skiplane.clock();
            update skiplane.ready r set due_at = v_now where r.id = any (v_ids) and r.shard = p_shard;
            v_count := v_count + cardinality(v_ids);
            perform skiplane._wake(m.queue);
        end loop;
    end loop;
    return v_count;
end
$$;

comment on function skiplane._rescue_late(timestamptz, smallint) is 'Moves rows below the marks, due since a time, to the present.';

-- A slice of the lanes per call, so that a tick costs the same with any number of them.
create or replace function skiplane._move_marks(p_lane bigint, p_settled timestamptz, p_now timestamptz, p_shard smallint)
returns bigint language plpgsql volatile
    set jit = off set enable_seqscan = off set enable_bitmapscan = off
    set enable_sort = off set plan_cache_mode = force_generic_plan
as $$
declare
    c record;
    v_count integer := 0;
    v_head record;
begin
    for c in
        select l.lane, l.created_at, l.closed_at, k.n, k.due_at, k.estimate, k.id
        from (select * from skiplane.lane x where x.lane > p_lane and x.shard = p_shard order by x.lane limit 200) l
        left join lateral (
            select x.n, x.due_at, x.estimate, x.id from skiplane.lane_mark x
            where x.lane = l.lane and x.shard = p_shard order by x.n desc limit 1) k on true
        order by l.lane
    loop
        v_count := v_count + 1;
        p_lane := c.lane;
        select r.due_at, r.estimate, r.id into v_head from skiplane.ready r
        where r.lane = c.lane and r.shard = p_shard
            and (r.due_at, r.estimate, r.id) >= (coalesce(c.due_at, '-infinity'), coalesce(c.estimate, 0),
                coalesce(c.id, '00000000-0000-0000-0000-000000000000'))
        order by r.due_at, r.estimate, r.id limit 1;
        if v_head.id is null and c.closed_at is null and c.created_at < p_now - interval '10 seconds' then
            update skiplane.lane x set closed_at = p_now, closed_xid = pg_current_xact_id()
            where x.lane = c.lane and x.shard = p_shard;
        end if;
        if v_head.id is null or v_head.due_at > p_settled then
            select p_settled as due_at, 0 as estimate, '00000000-0000-0000-0000-000000000000'::uuid as id into v_head;
        end if;
        if c.n is null or (v_head.due_at, v_head.estimate, v_head.id) > (c.due_at, c.estimate, c.id) then
            insert into skiplane.lane_mark (lane, shard, due_at, estimate, id)
            values (c.lane, p_shard, v_head.due_at, v_head.estimate, v_head.id);
            -- By its own number: a range would walk all the marks that were deleted before.
            delete from skiplane.lane_mark x where x.lane = c.lane and x.n = c.n and x.shard = p_shard;
        end if;
    end loop;
    return case when v_count < 200 then 0 else p_lane end;
end
$$;

comment on function skiplane._move_marks(bigint, timestamptz, timestamptz, smallint) is
'Moves the marks of the next 200 lanes to their first live row, closes those that are empty; answers where it stopped.';

-- A closed lane goes in two steps, since a writer may have seen it open just before the closing was committed: when it
-- is seen closed, the next transaction id seals it; it is dropped once every transaction before the seal has ended
-- and nothing is in it. No writer is overlooked here, however long it takes.
create or replace function skiplane._drop_lanes(p_shard smallint) returns integer
language plpgsql volatile
    set jit = off set enable_seqscan = off
as $$
declare
    v_lanes bigint[];
    v_lane bigint;
    v_xid xid8 := pg_current_xact_id();
    v_snapshot pg_snapshot := pg_current_snapshot();
begin
    v_lanes := array(
        select l.lane from skiplane.lane l
        where l.shard = p_shard and l.closed_at is not null and l.sealed_xid <= pg_snapshot_xmin(v_snapshot) and not exists (
            select from skiplane.ready r where r.lane = l.lane and r.shard = p_shard)
        order by l.lane limit 100 for update skip locked);
    foreach v_lane in array v_lanes loop
        -- Once more, now that it is locked: a writer with an old snapshot may have held it until just now.
        delete from skiplane.lane l where l.lane = v_lane and l.shard = p_shard and not exists (
            select from skiplane.ready r where r.lane = v_lane and r.shard = p_shard);
        if found then
            delete from skiplane.lane_mark x where x.lane = v_lane and x.shard = p_shard;
        end if;
    end loop;
    update skiplane.lane l set sealed_xid = v_xid
    where l.shard = p_shard and l.closed_at is not null and l.sealed_xid is null
        and pg_visible_in_snapshot(l.closed_xid, v_snapshot);
    return cardinality(v_lanes);
end
$$;

comment on function skiplane._drop_lanes(smallint) is 'Seals and deletes closed lanes that nothing can be in.';

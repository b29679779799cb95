-- Task ids: UUIDv7 (RFC 9562) whose bits 66 to 79 are the shard label and whose rand_a holds the fraction of the
-- millisecond, so that ids of one submission grow in its order.

create or replace function skiplane.task_shard(p_task_id uuid) returns smallint
language sql immutable strict parallel safe
as $$
    select (((get_byte(uuid_send(p_task_id), 8) & 63) << 8) | get_byte(uuid_send(p_task_id), 9))::smallint
$$;

comment on function skiplane.task_shard(uuid) is 'Shard label that a task id carries.';

create or replace function skiplane._id_day(p_task_id uuid) returns date
language sql immutable strict parallel safe
as $$
    select (timestamp '1970-01-01' + make_interval(secs =>
        ('x' || left(replace(p_task_id::text, '-', ''), 12))::bit(48)::bigint / 1000.0))::date
$$;

comment on function skiplane._id_day(uuid) is 'UTC day on which the id was made: no row of the task lies in an earlier partition.';

create or replace function skiplane._utc_day(p_at timestamptz) returns date
language sql immutable strict parallel safe
as $$ select (p_at at time zone 'UTC')::date $$;

comment on function skiplane._utc_day(timestamptz) is 'UTC day of an instant, whatever TimeZone the session has.';

-- The last 48 bits count up from a random start: unique with 2^47 possible starts per quarter microsecond, and
-- in order inside one call. Unique is enough, nobody is kept out by not guessing an id; gen_random_uuid() opens the
-- random device at each call where the server was built without TLS.
create or replace function skiplane._first_place() returns bigint
language sql volatile
as $$ select floor(random() * 140737488355328)::bigint $$;

comment on function skiplane._first_place() is 'A random start for the last 48 bits of ids.';

create or replace function skiplane._id_at(p_shard smallint, p_us bigint, p_place bigint) returns uuid
language sql immutable
as $$
    select (lpad(to_hex(p_us / 1000 * 65536 + 28672 + p_us % 1000 * 4096 / 1000), 16, '0')
        || to_hex((((32768 | (p_shard & 16383))::bigint) << 48) + p_place))::uuid
$$;

comment on function skiplane._id_at(smallint, bigint, bigint) is
'The task id of a shard, an instant in microseconds since 1970, and last 48 bits. One plain expression, for the planner to inline.';

create or replace function skiplane._new_id(p_shard smallint, p_at timestamptz) returns uuid
language sql volatile
as $$ select skiplane._id_at(p_shard, floor(extract(epoch from p_at) * 1000000)::bigint, skiplane._first_place()) $$;

comment on function skiplane._new_id(smallint, timestamptz) is 'A new task id of a shard.';

create or replace function skiplane._new_ids(
    p_shard smallint, p_count integer, p_at timestamptz, p_places bigint[] default null
) returns uuid[] language plpgsql volatile
as $$
declare
    v_us bigint := floor(extract(epoch from p_at) * 1000000)::bigint;
    v_start bigint;
begin
    if p_places is not null then
        return array(
            select skiplane._id_at(p_shard, v_us, p.place) from unnest(p_places) with ordinality as p (place, ord) order by p.ord
        );
    end if;
    v_start := skiplane._first_place();
    return array(select skiplane._id_at(p_shard, v_us, v_start + n) from generate_series(1, p_count) n);
end
$$;

comment on function skiplane._new_ids(smallint, integer, timestamptz, bigint[]) is
'New task ids of one shard, in growing order. p_places are their last 48 bits: ids of several calls then grow together.';

-- Any label will do for a task without a key; one with a key must always come to the same shard.
create or replace function skiplane._pick_shard(p_tenant_id text, p_key text) returns smallint
language plpgsql volatile
as $$
declare
    v_labels smallint[] := skiplane.shard_labels();
    v_count integer := cardinality(v_labels);
begin
    if v_count = 1 then
        return v_labels[1];
    elsif p_key is null then
        return v_labels[1 + floor(random() * v_count)::integer];
    end if;
    return v_labels[1 + (hashtextextended(p_tenant_id || chr(31) || p_key, 0) & 9223372036854775807) % v_count];
end
$$;

comment on function skiplane._pick_shard(text, text) is 'Shard for a new task: by hash of tenant and idempotency key, or any.';

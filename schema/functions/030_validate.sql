-- The rules for input, in one place for every door. Each check raises SK001 (or SK007) naming field, value, remedy.

create or replace function skiplane._check_name(p_field text, p_value text) returns void
language plpgsql immutable
as $$
begin
    if p_value is null or p_value !~ '[^[:space:]]' or octet_length(p_value) > 200 or p_value ~ '[[:cntrl:]]' then
        perform skiplane._refuse('SK001', p_field, p_value, format('%s is not a usable name', p_field),
            'give 1 to 200 bytes of text without control characters');
    end if;
end
$$;

comment on function skiplane._check_name(text, text) is 'Refuses empty, overlong and unprintable names.';

create or replace function skiplane._check_number(
    p_field text, p_value double precision, p_least double precision, p_most double precision
) returns void language plpgsql immutable
as $$
begin
    -- NaN sorts above everything in PostgreSQL: it fails the upper bound.
    if p_value < p_least or p_value > p_most then
        perform skiplane._refuse('SK001', p_field, p_value::text, format('%s is out of range', p_field),
            format('give a number from %s to %s', p_least, p_most));
    end if;
end
$$;

comment on function skiplane._check_number(text, double precision, double precision, double precision) is
'Refuses a number outside its range, NaN and infinities included; NULL passes.';

create or replace function skiplane._check_choice(p_field text, p_value text, p_choices text[]) returns void
language plpgsql immutable
as $$
begin
    if p_value is null or p_value <> all (p_choices) then
        perform skiplane._refuse('SK001', p_field, p_value, format('%s is not known', p_field),
            'give one of ' || array_to_string(p_choices, ', '));
    end if;
end
$$;

comment on function skiplane._check_choice(text, text, text[]) is 'Refuses a word that is not one of the choices.';

create or replace function skiplane._check_time(p_field text, p_value timestamptz) returns void
language plpgsql volatile
as $$
declare v_now timestamptz := skiplane.clock();
begin
    if p_value < v_now - interval '10 years' or p_value > v_now + interval '10 years' then
        perform skiplane._refuse('SK001', p_field, p_value::text, format('%s is out of range', p_field),
            'give an instant at most 10 years from now');
    end if;
end
$$;

comment on function skiplane._check_time(text, timestamptz) is 'Refuses infinite times and those more than 10 years away.';

-- When a task is due, from either way of saying it.
create or replace function skiplane._due_time(p_scheduled_at timestamptz, p_delay_seconds double precision, p_now timestamptz)
returns timestamptz language plpgsql volatile
as $$
begin
    if p_scheduled_at is not null and p_delay_seconds is not null then
        perform skiplane._refuse('SK001', 'delay_seconds', p_delay_seconds::text,
            'scheduled_at and delay_seconds are both given', 'give only one of the two');
    end if;
    perform skiplane._check_number('delay_seconds', p_delay_seconds, 0, 315360000);
    perform skiplane._check_time('scheduled_at', p_scheduled_at);
    return coalesce(p_scheduled_at, p_now + make_interval(secs => coalesce(p_delay_seconds, 0)));
end
$$;

comment on function skiplane._due_time(timestamptz, double precision, timestamptz) is
'Due time from scheduled_at or delay_seconds; absent means now, both is an error.';

-- What jsonb takes and workers cannot read: bottomless nesting, and numbers beyond any machine type.
-- Inlined by the planner: keep it one plain expression.
create or replace function skiplane._is_beyond_json(p_json jsonb) returns boolean
language sql immutable parallel safe
as $$ select p_json @? '$.**{101}' or p_json @? '$.** ? (@ >= 1e300 || @ <= -1e300)' $$;

comment on function skiplane._is_beyond_json(jsonb) is 'Whether a document is nested deeper than 100 levels or holds a number beyond 1e300.';

-- json keeps the text as given, which is what workers want back, but it lets pass what nobody can read later:
-- NUL and lone surrogates (both only as \u escapes). jsonb refuses these, and reads faster than any pattern matches.
create or replace function skiplane._unreadable_json(p_text text) returns text
language plpgsql immutable
as $$
declare v_json jsonb;
begin
    v_json := p_text::jsonb;
    return case
        when v_json @? '$.**{101}' then 'nesting is deeper than 100 levels'
        when skiplane._is_beyond_json(v_json) then 'a number is too large'
    end;
exception
    when untranslatable_character then return 'it holds a NUL character';
    when numeric_value_out_of_range then return 'a number is too large';
    when statement_too_complex then return 'nesting is deeper than 100 levels';
    when data_exception then return 'it is not valid JSON';
end
$$;

comment on function skiplane._unreadable_json(text) is 'Why a JSON text cannot be stored or read back by workers; NULL when it can.';

-- The common case at one look; what is not readable is then told one by one.
create or replace function skiplane._all_readable(p_texts text[]) returns boolean
language plpgsql immutable
as $$
begin
    return not exists (
        select from (select u.x, u.x::jsonb as j from unnest(p_texts) as u (x) offset 0) y
        where octet_length(y.x) > 1048576 or skiplane._is_beyond_json(y.j));
exception when data_exception or statement_too_complex then
    return false;
end
$$;

comment on function skiplane._all_readable(text[]) is 'Whether all of some JSON texts can be stored and read back; NULLs can.';

create or replace function skiplane._check_json(p_field text, p_text text, p_most integer) returns void
language plpgsql immutable
as $$
declare v_reason text;
begin
    if octet_length(p_text) > p_most then
        perform skiplane._refuse('SK007', p_field, octet_length(p_text) || ' bytes', format('%s is too large', p_field),
            format('keep it under %s bytes and store large data elsewhere', p_most));
    end if;
    v_reason := skiplane._unreadable_json(p_text);
    if v_reason is not null then
        perform skiplane._refuse('SK001', p_field, p_text, format('%s cannot be stored: %s', p_field, v_reason),
            'send plain JSON: no NUL, at most 100 levels, numbers below 1e300');
    end if;
end
$$;

comment on function skiplane._check_json(text, text, integer) is 'Refuses a JSON text that is too large or that nobody could read back.';

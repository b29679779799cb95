-- Reading fields of JSON objects that callers wrote: every wrong type is a refusal that names the field.

create or replace function skiplane._check_fields(p_object jsonb, p_known text[], p_where text) returns void
language plpgsql immutable
as $$
declare v_field text;
begin
    if p_object is null or jsonb_typeof(p_object) <> 'object' then
        perform skiplane._refuse('SK001', p_where, p_object::text, format('%s is not an object', p_where), 'give a JSON object');
    end if;
    select k into v_field from jsonb_object_keys(p_object) k where k <> all (p_known) order by k limit 1;
    if v_field is not null then
        perform skiplane._refuse('SK001', v_field, p_object ->> v_field, format('%s has an unknown field %s', p_where, v_field),
            'known fields: ' || array_to_string(p_known, ', '));
    end if;
end
$$;

comment on function skiplane._check_fields(jsonb, text[], text) is 'Refuses what is no object or has unknown fields.';

create or replace function skiplane._text_field(p_object jsonb, p_field text, p_default text) returns text
language plpgsql immutable
as $$
begin
    if p_object -> p_field is null or jsonb_typeof(p_object -> p_field) = 'null' then
        return p_default;
    elsif jsonb_typeof(p_object -> p_field) <> 'string' then
        perform skiplane._refuse('SK001', p_field, p_object ->> p_field, format('%s is not text', p_field), 'give a JSON string');
    end if;
    return p_object ->> p_field;
end
$$;

comment on function skiplane._text_field(jsonb, text, text) is 'A text field, or its default when absent or null.';

create or replace function skiplane._number_field(p_object jsonb, p_field text, p_default double precision)
returns double precision language plpgsql immutable
as $$
begin
    if p_object -> p_field is null or jsonb_typeof(p_object -> p_field) = 'null' then
        return p_default;
    elsif jsonb_typeof(p_object -> p_field) <> 'number' then
        perform skiplane._refuse('SK001', p_field, p_object ->> p_field, format('%s is not a number', p_field), 'give a JSON number');
    end if;
    return (p_object ->> p_field)::double precision;
exception when numeric_value_out_of_range then
    perform skiplane._refuse('SK001', p_field, left(p_object ->> p_field, 40), format('%s is out of range', p_field),
        'give a smaller number');
end
$$;

comment on function skiplane._number_field(jsonb, text, double precision) is 'A number field, or its default when absent or null.';

create or replace function skiplane._integer_field(p_object jsonb, p_field text, p_default integer) returns integer
language plpgsql immutable
as $$
declare v_number double precision := skiplane._number_field(p_object, p_field, p_default);
begin
    if v_number <> floor(v_number) or abs(v_number) > 2147483647 then
        perform skiplane._refuse('SK001', p_field, p_object ->> p_field, format('%s is not a whole number', p_field), 'give an integer');
    end if;
    return v_number::integer;
end
$$;

comment on function skiplane._integer_field(jsonb, text, integer) is 'An integer field, or its default when absent or null.';

-- RFC 3339 section 5.6: an instant without an offset is nobody's time, so it is refused rather than guessed.
create or replace function skiplane._time_field(p_object jsonb, p_field text) returns timestamptz
language plpgsql stable set datestyle = 'ISO, YMD'
as $$
declare v_text text := skiplane._text_field(p_object, p_field, null);
begin
    if v_text is null then
        return null;
    elsif v_text !~ '^[0-9]{4}(-[0-9]{2}){2}[Tt ]([0-9]{2}:){2}[0-9]{2}([.][0-9]{1,9})?([Zz]|[+-][0-9]{2}:[0-9]{2})$' then
        perform skiplane._refuse('SK001', p_field, v_text, format('%s is not an instant', p_field),
            'give RFC 3339 text with an offset, such as 2026-04-04T09:00:00Z');
    end if;
    return v_text::timestamptz;
exception when datetime_field_overflow or invalid_datetime_format or invalid_time_zone_displacement_value then
    perform skiplane._refuse('SK001', p_field, v_text, format('%s is no date of the calendar', p_field),
        'give RFC 3339 text with an offset, such as 2026-04-04T09:00:00Z');
end
$$;

comment on function skiplane._time_field(jsonb, text) is 'An instant as RFC 3339 text with an offset; NULL when absent or null.';

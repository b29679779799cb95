-- Time, settings and refusals: what every other file builds on.
-- Functions whose name begins with an underscore are private: they run inside public ones, which pin search_path for
-- them (pinning it again at each level cost a third of a submit).

create or replace function skiplane.clock() returns timestamptz
language sql volatile parallel safe
as $$
    -- Inside the public functions current_user is the owner of the schema: nobody else may turn the clock.
    select case
        when nullif(current_setting('skiplane.now', true), '') is null
            or not pg_has_role(session_user, current_user, 'member') then clock_timestamp()
        else current_setting('skiplane.now')::timestamptz
    end
$$;

comment on function skiplane.clock() is
'The time that all rules use: clock_timestamp(), or the session setting skiplane.now where a test has set it; only members of the schema''s owner can.';

create or replace function skiplane._refuse(p_code text, p_field text, p_value text, p_message text, p_remedy text)
returns void language plpgsql volatile
as $$
begin
    raise exception using errcode = p_code, message = p_message, column = coalesce(p_field, ''),
        detail = left(coalesce(p_value, 'null'), 200), hint = coalesce(p_remedy, '');
end
$$;

comment on function skiplane._refuse(text, text, text, text, text) is
'Raises a refusal of class SK: column = the field at fault, detail = its value, hint = the remedy.';

create or replace function skiplane._utc_text(p_at timestamptz) returns text
language sql immutable parallel safe
as $$
    select case when isfinite(p_at) then
        to_char(p_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') else p_at::text end
$$;

comment on function skiplane._utc_text(timestamptz) is 'RFC 3339 text in UTC, whatever TimeZone and DateStyle the session has.';

create or replace function skiplane._priority_name(p_priority smallint) returns text
language sql immutable parallel safe
as $$ select case p_priority when 10 then 'high' when 5 then 'medium' else 'low' end $$;

comment on function skiplane._priority_name(smallint) is 'The word for a stored priority.';

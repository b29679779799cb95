-- Sign-ins of people at the dashboard. A session is what its key is: it ends when the key does.
create table skiplane.web_session (
    hash bytea primary key check (octet_length(hash) = 32),
    key_id text not null,
    created_at timestamptz not null,
    expires_at timestamptz not null
);

comment on table skiplane.web_session is 'Sign-ins at the dashboard, as hashes of what the browser holds.';
comment on column skiplane.web_session.hash is 'SHA-256 of the token, which is 256 random bits.';
comment on column skiplane.web_session.key_id is 'The API key that was used to sign in.';
comment on column skiplane.web_session.created_at is 'Sign-in.';
comment on column skiplane.web_session.expires_at is 'It opens nothing from then on.';

create index web_session_expires on skiplane.web_session (expires_at);
create index web_session_key on skiplane.web_session (key_id);

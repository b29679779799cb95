"""Which procedures tasks may call, as whom, and with what arguments."""

import json
from typing import Any

import pytest

from skiplane.tests.support.engine import Connection, Engine, refused


@pytest.fixture
def app(engine: Engine) -> Engine:
    engine.conn.execute(
        "create schema app; create role app_closer;"
        "create function app.add(a integer, b integer default 2, tags text[] default '{}')"
        " returns text language sql as $$ select (a + b)::text || array_to_string(tags, '|') $$;"
        "create function app.rows(n integer) returns table (i integer)"
        " language sql as $$ select generate_series(1, n) $$;"
        "create procedure app.echo(inout x jsonb) language plpgsql"
        " as $$ begin x := x || '{}'; end $$;"
        "grant usage on schema app to app_closer"
    )
    return engine


def prepared(engine: Engine, procedure: str, arguments: Any) -> Any:
    role, statement = engine.value(
        "prepare_procedure", procedure=procedure, arguments=json.dumps(arguments)
    )
    assert role == "app_closer"
    return engine.one(statement)


def test_listed_procedures_are_called_by_name_or_place(app: Engine):
    app.value("allow_procedure", procedure="app.add", role="app_closer")
    assert prepared(app, "app.add", {"b": 5, "a": 1}) == "6"
    assert prepared(app, "app.add", [1]) == "3"
    assert prepared(app, "app.add", {"a": 1, "tags": ["x'y", '"', "\\"]}) == "3x'y|\"|\\"
    app.value("allow_procedure", procedure="app.rows(integer)", role="app_closer")
    assert prepared(app, "app.rows", {"n": 2}) == [1, 2]
    app.value("allow_procedure", procedure="app.echo(jsonb)", role="app_closer")
    assert prepared(app, "app.echo", {"x": {"k": "'"}}) == {"k": "'"}


def test_what_is_not_listed_is_refused(app: Engine):
    for procedure in ("app.add", "app.add(integer)", "pg_sleep", "app.add; drop schema app"):
        with refused(app.conn, "SK010", "procedure"):
            prepared(app, procedure, {"a": 1})
    signature = app.value("allow_procedure", procedure="app.add", role="app_closer")
    assert app.value("disallow_procedure", procedure=signature) is True
    assert app.value("disallow_procedure", procedure=signature) is False
    with refused(app.conn, "SK010", "procedure"):
        prepared(app, "app.add", {"a": 1})


def test_arguments_are_values_and_never_sql(app: Engine):
    app.value("allow_procedure", procedure="app.add", role="app_closer")
    with refused(app.conn, "SK001", "c"):
        prepared(app, "app.add", {"a": 1, "c": 2})
    with refused(app.conn, "SK001", "arguments"):
        prepared(app, "app.add", [1, 2, [], 4])
    with refused(app.conn, "22P02"):
        prepared(app, "app.add", {"a": "1); drop schema app cascade; --"})


@pytest.mark.parametrize(
    ("procedure", "role", "field"),
    [
        ("app.nothing", "app_closer", "procedure"),
        ("app.add(text)", "app_closer", "procedure"),
        ("pg_catalog.pg_sleep", "app_closer", "procedure"),
        ("skiplane.drain_worker", "app_closer", "procedure"),
        ("app.add", "app_nobody", "role"),
        ("app.add", "pg_read_all_data", "role"),
        ("app.hidden", "app_closer", "role"),
    ],
)
def test_only_safe_pairs_are_listed(app: Engine, procedure: str, role: str, field: str):
    app.conn.execute(
        "create function app.hidden() returns void language sql as '';"
        "revoke all on function app.hidden() from public"
    )
    with refused(app.conn, "SK001", field):
        app.value("allow_procedure", procedure=procedure, role=role)


def test_the_owner_of_the_engine_is_no_restricted_role(app: Engine, shared_conn: Connection):
    owner = shared_conn.info.user
    with refused(app.conn, "SK001", "role"):
        app.value("allow_procedure", procedure="app.add", role=owner)

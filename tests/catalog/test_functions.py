"""Rules for every function, looked up in the catalog of an installed schema."""

import re
from collections import Counter
from typing import Any

import psycopg
import pytest

from skiplane.schema.install.files import ROOT, functions, read_files

Connection = psycopg.Connection[tuple[Any, ...]]

OURS = """
    p.pronamespace = 'skiplane'::regnamespace
    and not exists (select from pg_depend d
                    where d.classid = 'pg_proc'::regclass and d.objid = p.oid and d.deptype = 'e')
"""
CLOCK = re.compile(
    r"\b(now|clock_timestamp|statement_timestamp|transaction_timestamp|timeofday)\s*\("
    r"|\b(current_timestamp|current_date|current_time|localtime|localtimestamp)\b",
    re.I,
)
COMMENT = re.compile(r"--[^\n]*|/\*.*?\*/", re.S)
MADE = re.compile(
    r"^create\s+(?:or\s+replace\s+)?(?:function|procedure)\s+(skiplane\.\w+)\s*\(", re.I | re.M
)

# How long a function itself took is measured by the real clock.
MEASURES_ITSELF = {"refresh_depth", "refresh_rollup"}


def names(conn: Connection, query: str) -> list[str]:
    return [row[0] for row in conn.execute(query.encode())]


def test_definers_pin_search_path(conn: Connection):
    assert (
        names(
            conn,
            f"""
        select p.oid::regprocedure::text from pg_proc p
        where {OURS} and p.prosecdef and not exists (
            select from unnest(p.proconfig) c where c like 'search\\_path=pg_catalog%')
        """,
        )
        == []
    )


def test_what_steers_the_planner_is_not_compiled(conn: Connection):
    # A plan with a forbidden node is so dear that it would be compiled at every call, for seconds.
    assert (
        names(
            conn,
            f"""
        select p.oid::regprocedure::text from pg_proc p
        where {OURS} and exists (select from unnest(p.proconfig) c where c like 'enable\\_%')
            and not p.proconfig @> '{{jit=off}}'
        """,
        )
        == []
    )


def test_every_function_comes_from_a_file(conn: Connection):
    [(known,)] = conn.execute(
        "select array_agg(o) from skiplane.applied_file f, jsonb_object_keys(f.objects) o"
        " where f.name like 'functions/%' or f.name like 'generated/%'"
    )
    with conn.transaction():
        conn.execute("set local search_path = pg_catalog")
        assert functions(conn).keys() - set(known) == set()


def test_no_function_is_made_twice():
    made = Counter(
        re.sub(r"\s+", " ", text[match.start() : text.index(")", match.end())]).lower()
        for text in (COMMENT.sub("", file.text) for file in read_files(ROOT, "functions"))
        for match in MADE.finditer(text)
    )
    assert len(made) > 50
    assert [name for name, times in made.items() if times > 1] == []


def test_time_comes_from_the_clock(conn: Connection):
    rows = conn.execute(
        f"""
        select p.proname, coalesce(nullif(p.prosrc, ''), pg_get_functiondef(p.oid))
        from pg_proc p where {OURS}
        union all
        select c.relname, pg_get_viewdef(c.oid) from pg_class c
        where c.relnamespace = 'skiplane'::regnamespace and c.relkind = 'v'
        """.encode()
    )
    guilty = {name for name, source in rows if CLOCK.search(COMMENT.sub("", source))}
    assert guilty - {"clock"} - MEASURES_ITSELF == set()


def test_backslashes_mean_the_same_in_every_session(conn: Connection):
    # Outside of E'', the setting standard_conforming_strings says what one is.
    escaped = re.compile(r"\bE'(?:[^'\\]|''|\\.)*'(?:\s*'(?:[^'\\]|''|\\.)*')*", re.S)
    rows = conn.execute(f"select p.proname, p.prosrc from pg_proc p where {OURS}".encode())
    guilty = {name for name, source in rows if "\\" in escaped.sub("", COMMENT.sub("", source))}
    assert guilty == set()


def test_defaults_of_tables_do_not_ask_the_time(conn: Connection):
    rows = conn.execute(
        "select d.adrelid::regclass::text, pg_get_expr(d.adbin, d.adrelid) from pg_attrdef d"
        " join pg_class c on c.oid = d.adrelid where c.relnamespace = 'skiplane'::regnamespace"
    )
    assert [name for name, default in rows if CLOCK.search(default)] == []


def test_nobody_but_the_owner_may_call_what_was_not_granted(conn: Connection):
    assert (
        names(
            conn,
            f"""
        select p.oid::regprocedure::text from pg_proc p
        where {OURS} and has_function_privilege('public', p.oid, 'execute')
        """,
        )
        == []
    )


def test_group_roles_cannot_write_tables(conn: Connection):
    assert (
        names(
            conn,
            """
        select format('%s %s %s', r.rolname, a.privilege, c.oid::regclass)
        from pg_class c
        cross join unnest(array['insert', 'update', 'delete', 'truncate']) as a (privilege)
        join pg_roles r on r.rolname like 'skiplane\\_%' and not r.rolcanlogin
        where c.relnamespace = 'skiplane'::regnamespace and c.relkind in ('r', 'p')
            and has_table_privilege(r.oid, c.oid, a.privilege)
        """,
        )
        == []
    )


@pytest.mark.parametrize("role", ["producer", "worker", "operator", "reader"])
def test_group_role_sees_the_schema(conn: Connection, role: str):
    assert names(
        conn, f"select has_schema_privilege('skiplane_{role}', 'skiplane', 'usage')::text"
    ) == ["true"]

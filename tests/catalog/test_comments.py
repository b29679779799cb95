"""The comments are the manual for SQL users: whatever they meet has one."""

from typing import Any

import psycopg

Connection = psycopg.Connection[tuple[Any, ...]]


def names(conn: Connection, query: str) -> list[str]:
    return [row[0] for row in conn.execute(query.encode())]


def test_every_table_and_view_has_a_comment(conn: Connection):
    assert (
        names(
            conn,
            """
        select c.oid::regclass::text from pg_class c
        where c.relnamespace = 'skiplane'::regnamespace and c.relkind in ('r', 'p', 'v', 'm')
            and not c.relispartition and obj_description(c.oid, 'pg_class') is null
        """,
        )
        == []
    )


def test_every_column_of_a_table_has_a_comment(conn: Connection):
    assert (
        names(
            conn,
            """
        select format('%s.%I', c.oid::regclass, a.attname) from pg_class c
        join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
        where c.relnamespace = 'skiplane'::regnamespace and c.relkind in ('r', 'p')
            and not c.relispartition and col_description(c.oid, a.attnum) is null
        """,
        )
        == []
    )


def test_every_public_function_has_a_comment(conn: Connection):
    assert (
        names(
            conn,
            """
        select p.oid::regprocedure::text from pg_proc p
        where p.pronamespace = 'skiplane'::regnamespace and p.proname not like '\\_%'
            and obj_description(p.oid, 'pg_proc') is null
        """,
        )
        == []
    )


def test_every_type_has_a_comment(conn: Connection):
    assert (
        names(
            conn,
            """
        select t.oid::regtype::text from pg_type t left join pg_class c on c.oid = t.typrelid
        where t.typnamespace = 'skiplane'::regnamespace and t.typtype in ('e', 'd', 'c')
            and coalesce(c.relkind, 'c') = 'c' and obj_description(t.oid, 'pg_type') is null
        """,
        )
        == []
    )


def test_parameters_of_public_functions_have_names(conn: Connection):
    # Callers in SQL use named arguments.
    assert (
        names(
            conn,
            """
        select p.oid::regprocedure::text from pg_proc p
        where p.pronamespace = 'skiplane'::regnamespace and p.proname not like '\\_%'
            and p.pronargs > 0
            and (p.proargnames is null or '' = any (p.proargnames[1:p.pronargs]))
        """,
        )
        == []
    )

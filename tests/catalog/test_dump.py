"""schema/dump.sql shows the schema as it is."""

from typing import Any

import psycopg

from skiplane.schema.dump import FILE, dump

Connection = psycopg.Connection[tuple[Any, ...]]


def test_dump_is_up_to_date(conn: Connection):
    assert FILE.read_text(encoding="utf-8") == dump(conn), "run: python -m skiplane.schema.dump"


def test_dump_leaves_out_partitions_and_days(conn: Connection):
    before = dump(conn)
    conn.execute(
        "create table skiplane.task_some_day partition of skiplane.task"
        " for values from ('1999-01-01') to ('1999-01-02')"
    )
    assert dump(conn) == before


def test_dump_shows_a_change_of_a_table(conn: Connection):
    before = dump(conn)
    conn.execute("alter table skiplane.worker add shoe_size int not null default 42")
    after = dump(conn)
    assert set(after.splitlines()) - set(before.splitlines()) == {
        "    shoe_size integer default 42 not null,"
    }

"""Functions, views and grants follow their files."""

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from skiplane.schema.migrate import MigrationError, SqlFileError

from .conftest import FILES, Tree

Query = Callable[..., Any]

GONE = "create or replace function skiplane.gone() returns int language sql as 'select 1';"


def test_first_migration_installs_everything_and_the_second_does_nothing(
    tree: Tree, empty_dsn: str, query: Query
):
    assert tree.check(empty_dsn) == [
        "schema skiplane is not installed",
        "version 0001 initial tables",
    ]
    done = tree.migrate(empty_dsn)
    assert "version 0001 initial tables" in done
    assert query("select count(*) from skiplane.thing_names") == 0
    assert tree.check(empty_dsn) == []
    assert tree.migrate(empty_dsn) == []


def test_up_to_date_migration_writes_nothing(tree: Tree, empty_dsn: str, query: Query):
    tree.migrate(empty_dsn)
    before = query("select max(xmin::text::bigint) from pg_class")
    tree.migrate(empty_dsn)
    assert query("select max(xmin::text::bigint) from pg_class") == before
    assert query("select count(distinct applied_at) from skiplane.applied_file") == 1


def test_new_objects_are_owned_by_the_migrating_role(tree: Tree, empty_dsn: str, query: Query):
    tree.migrate(empty_dsn)
    assert (
        query(
            "select count(*) from pg_class where relnamespace = 'skiplane'::regnamespace"
            " and relowner <> user::regrole"
        )
        == 0
    )


def test_changed_function_is_applied(tree: Tree, empty_dsn: str, query: Query):
    tree.migrate(empty_dsn)
    tree.write(
        "functions/010_first.sql", FILES["functions/010_first.sql"].replace("select 1", "select 2")
    )
    assert tree.check(empty_dsn) == ["functions/010_first.sql changed"]
    assert tree.migrate(empty_dsn) == ["functions: functions/010_first.sql changed", "grants"]
    assert query("select skiplane.one()") == 2
    assert tree.migrate(empty_dsn) == []


def test_function_removed_from_its_file_is_dropped(tree: Tree, empty_dsn: str, query: Query):
    tree.write(
        "functions/020_more.sql",
        """
        create or replace function skiplane.keep() returns int language sql as $$ select 1 $$;
        create or replace function skiplane.gone(a int, b text default 'x') returns int
        language sql as $$ select 1 $$;
    """,
    )
    tree.migrate(empty_dsn)
    query("create function skiplane.users_own() returns int language sql as 'select 1'")
    tree.write(
        "functions/020_more.sql",
        """
        create or replace function skiplane.keep() returns int language sql as $$ select 1 $$;
    """,
    )
    assert "dropped function skiplane.gone(integer,text)" in tree.migrate(empty_dsn)
    assert query("select to_regproc('skiplane.gone') is null")
    assert query("select skiplane.keep() + skiplane.users_own()") == 2


def test_functions_of_a_removed_file_are_dropped(tree: Tree, empty_dsn: str, query: Query):
    tree.write("functions/020_more.sql", GONE)
    tree.migrate(empty_dsn)
    tree.remove("functions/020_more.sql")
    assert tree.check(empty_dsn) == ["functions/020_more.sql removed"]
    assert "dropped function skiplane.gone()" in tree.migrate(empty_dsn)
    assert tree.migrate(empty_dsn) == []
    assert tree.check(empty_dsn) == []


def test_function_that_moves_to_another_file_stays(tree: Tree, empty_dsn: str, query: Query):
    text = "create or replace function skiplane.moves() returns int language sql as 'select 7';"
    tree.write("functions/020_more.sql", text)
    tree.migrate(empty_dsn)
    tree.remove("functions/020_more.sql")
    tree.write("functions/030_other.sql", text)
    tree.migrate(empty_dsn)
    assert query("select skiplane.moves()") == 7


def test_function_changed_or_dropped_by_hand_is_put_back(tree: Tree, empty_dsn: str, query: Query):
    tree.migrate(empty_dsn)
    query("create or replace function skiplane.one() returns int language sql as 'select 3'")
    assert tree.check(empty_dsn) == ["skiplane.one() changed by hand"]
    tree.migrate(empty_dsn)
    assert query("select skiplane.one()") == 1
    query("drop function skiplane.names()")
    assert tree.check(empty_dsn) == ["skiplane.names() missing"]
    tree.migrate(empty_dsn)
    assert query("select to_regproc('skiplane.names') is not null")


def test_function_that_a_user_builds_on_is_not_dropped(tree: Tree, empty_dsn: str, query: Query):
    tree.write("functions/020_more.sql", GONE)
    tree.migrate(empty_dsn)
    query("create view public.mine as select skiplane.gone()")
    tree.remove("functions/020_more.sql")
    with pytest.raises(MigrationError, match=r"skiplane\.gone\(\).*still used.*view public.mine"):
        tree.migrate(empty_dsn)
    assert query("select gone from public.mine") == 1


def test_wrong_statement_is_told_with_its_file_and_line(tree: Tree, empty_dsn: str, query: Query):
    tree.write("functions/020_more.sql", "select 1;\n\ncreate fun skiplane.x();")
    with pytest.raises(SqlFileError, match=r"functions/020_more.sql line 3: syntax error"):
        tree.migrate(empty_dsn)
    assert query("select to_regnamespace('skiplane') is null")


@pytest.mark.parametrize("language", ["sql", "plpgsql"])
def test_wrong_body_stops_the_migration(tree: Tree, empty_dsn: str, query: Query, language: str):
    body = "select no_such_column from skiplane.thing"
    if language == "plpgsql":
        body = "begin retrun 1; end"
    tree.write(
        "functions/020_more.sql",
        f"""
        create or replace function skiplane.bad() returns int language {language} as $$ {body} $$;
    """,
    )
    with pytest.raises(SqlFileError, match=r"function skiplane\.bad\(\)"):
        tree.migrate(empty_dsn)
    assert query("select to_regnamespace('skiplane') is null")


def test_view_with_a_new_column_keeps_what_a_user_built_on_it(
    tree: Tree, empty_dsn: str, query: Query
):
    tree.migrate(empty_dsn)
    query("create view public.mine as select id from skiplane.things")
    tree.write(
        "views/010_things.sql",
        """
        create or replace view skiplane.things as
        select id, name, skiplane.one(), 5 as five from skiplane.thing;
    """,
    )
    assert tree.migrate(empty_dsn) == ["views: views/010_things.sql changed", "grants"]
    assert query("select count(five) from skiplane.things") == 0
    assert query("select count(*) from public.mine") == 0


def test_view_whose_columns_change_is_made_again_with_its_grants(
    tree: Tree, empty_dsn: str, query: Query
):
    tree.migrate(empty_dsn)
    tree.write(
        "views/010_things.sql",
        """
        create or replace view skiplane.things as select name, id::bigint from skiplane.thing;
    """,
    )
    assert "dropped and re-created all views" in tree.migrate(empty_dsn)
    assert query("select has_table_privilege('skiplane_reader', 'skiplane.things', 'select')")
    assert query("select count(name) from skiplane.thing_names") == 0


def test_view_that_must_go_but_is_used_stops_the_migration(
    tree: Tree, empty_dsn: str, query: Query
):
    tree.migrate(empty_dsn)
    query("create view public.mine as select id from skiplane.things")
    tree.write(
        "views/010_things.sql",
        """
        create or replace view skiplane.things as select name from skiplane.thing;
    """,
    )
    with pytest.raises(MigrationError, match=r"view public\.mine"):
        tree.migrate(empty_dsn)
    assert query("select count(id) from public.mine") == 0


def test_removed_and_missing_views_follow_the_files(tree: Tree, empty_dsn: str, query: Query):
    tree.migrate(empty_dsn)
    query("drop view skiplane.thing_names")
    assert tree.check(empty_dsn) == ["skiplane.thing_names missing"]
    tree.migrate(empty_dsn)
    assert query("select count(*) from skiplane.thing_names") == 0
    tree.remove("views/020_names.sql")
    assert "dropped view skiplane.thing_names" in tree.migrate(empty_dsn)
    assert query("select to_regclass('skiplane.thing_names') is null")
    assert tree.migrate(empty_dsn) == []


def test_version_changes_tables_once(tree: Tree, empty_dsn: str, query: Query):
    tree.migrate(empty_dsn)
    tree.version(2, "alter table skiplane.thing add extra int")
    assert tree.check(empty_dsn) == ["version 0002 more"]
    assert tree.migrate(empty_dsn) == ["version 0002 more", "grants"]
    assert query("select count(extra) from skiplane.thing") == 0
    assert query("select version_num from skiplane.schema_version") == "0002"
    assert tree.migrate(empty_dsn) == []


def test_changed_table_file_is_reported(tree: Tree, empty_dsn: str):
    tree.migrate(empty_dsn)
    tree.write("tables/020_thing.sql", "create table skiplane.thing (id bigint);")
    [line] = tree.check(empty_dsn)
    assert "tables/020_thing.sql is not what this database was made from" in line
    said: list[str] = []
    assert tree.migrate(empty_dsn, report=said.append) == []
    assert said == [line]


def test_invalid_index_is_reported(tree: Tree, empty_dsn: str, query: Query):
    tree.migrate(empty_dsn)
    query("insert into skiplane.thing values (1, 'same'), (2, 'same')")
    with pytest.raises(psycopg.errors.UniqueViolation):
        query("create unique index concurrently half_made on skiplane.thing (name)")
    assert tree.check(empty_dsn) == [
        "index skiplane.half_made is invalid: drop it and make it again"
    ]


def test_check_takes_no_lock_that_anybody_waits_for(tree: Tree, empty_dsn: str, query: Query):
    tree.migrate(empty_dsn)
    with psycopg.connect(empty_dsn) as other:
        other.execute("lock table skiplane.thing in access exclusive mode")
        assert tree.check(empty_dsn) == []


def test_partitions_are_made_ahead_by_every_migration(tree: Tree, empty_dsn: str, query: Query):
    tree.write(
        "functions/020_more.sql",
        """
        create or replace function skiplane.maintain_partitions(p_days int default 1) returns int
        language plpgsql as $$ begin
            insert into skiplane.thing select coalesce(max(id), 0) + 1 from skiplane.thing;
            return 1;
        end $$;
    """,
    )
    tree.migrate(empty_dsn)
    tree.migrate(empty_dsn)
    assert query("select count(*) from skiplane.thing") == 2

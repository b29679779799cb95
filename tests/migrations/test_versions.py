"""Shards and versions: what grows, and who may touch what."""

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from skiplane.schema.install import versions
from skiplane.schema.install.shards import CITUS, MOST, wanted_labels
from skiplane.schema.install.versions import ordered
from skiplane.schema.migrate import MigrationError, SchemaMissing, SchemaTooNew, ensure_served

from .conftest import Tree

Query = Callable[..., Any]


def test_one_shard_unless_asked(tree: Tree, empty_dsn: str, query: Query):
    tree.migrate(empty_dsn)
    assert query("select skiplane.shard_labels()") == [0]
    assert query("select value from skiplane.setting where name = 'shards'") == [0]


def test_shards_can_be_raised(tree: Tree, empty_dsn: str, query: Query):
    tree.migrate(empty_dsn, 2)
    assert query("select skiplane.shard_labels()") == [0, 1]
    assert "shards 4" in tree.migrate(empty_dsn, 4)
    assert query("select skiplane.shard_labels()") == [0, 1, 2, 3]
    assert tree.migrate(empty_dsn) == []
    assert tree.migrate(empty_dsn, 4) == []
    assert tree.check(empty_dsn) == []


def test_shards_are_never_lowered(tree: Tree, empty_dsn: str, query: Query):
    tree.migrate(empty_dsn, 4)
    with pytest.raises(MigrationError, match="has 4 shards and 3 were asked for"):
        tree.migrate(empty_dsn, 3)
    assert query("select skiplane.shard_labels()") == [0, 1, 2, 3]


@pytest.mark.parametrize("count", [0, -1, MOST + 1])
def test_senseless_number_of_shards_is_refused(tree: Tree, empty_dsn: str, count: int):
    with pytest.raises(MigrationError, match=f"from 1 to {MOST}, and {count} was"):
        tree.migrate(empty_dsn, count)


def test_labels_cost_a_plan_nothing(tree: Tree, empty_dsn: str, query: Query):
    tree.migrate(empty_dsn, 3)
    plan = query("explain (verbose, format json) select skiplane.shard_labels()")
    assert plan[0]["Plan"]["Output"] == ["'{0,1,2}'::smallint[]"]


def test_labels_on_citus_fall_on_shards_of_their_own():
    assert wanted_labels([0], None, citus=True, fresh=True) == list(CITUS)
    assert len(set(CITUS)) == 32
    grown = wanted_labels([0, 1], 33, citus=True, fresh=False)
    assert grown[:2] == [0, 1]
    assert len(set(grown)) == 33


def test_unknown_version_is_too_new(tree: Tree, empty_dsn: str, query: Query):
    tree.migrate(empty_dsn)
    query("update skiplane.schema_version set version_num = '0099'")
    for action in (tree.migrate, tree.check):
        with pytest.raises(SchemaTooNew, match="schema version 0099"):
            action(empty_dsn)


def test_older_release_never_takes_a_newer_ones_functions_back(
    tree: Tree, empty_dsn: str, query: Query
):
    tree.migrate(empty_dsn)
    query("""update skiplane.setting set value = '"99.1"' where name = 'code'""")
    tree.remove("functions/010_first.sql")
    for action in (tree.migrate, tree.check):
        with pytest.raises(SchemaTooNew, match=r"Skiplane 99\.1 has migrated"):
            action(empty_dsn)
    assert query("select skiplane.one()") == 1


def test_release_numbers_are_ordered():
    rising = ["0.1.0.dev0", "0.1.0a1", "0.1.0b2", "0.1.0rc1", "0.1", "0.1.1", "0.2", "0.10", "1.0"]
    assert sorted(rising, key=ordered) == rising
    assert ordered("1.0.0") == ordered("1")


def served(dsn: str) -> None:
    with psycopg.connect(dsn) as connection:
        ensure_served(connection)


def test_process_serves_its_own_and_a_newer_schema(tree: Tree, empty_dsn: str, query: Query):
    tree.migrate(empty_dsn)
    served(empty_dsn)
    # Rolling upgrade: the schema first, the processes later.
    query("update skiplane.schema_version set version_num = '0099'")
    query("""update skiplane.setting set value = '"99.1"' where name = 'code'""")
    served(empty_dsn)


def test_process_refuses_a_schema_that_is_too_new_to_serve(
    tree: Tree, empty_dsn: str, query: Query
):
    tree.migrate(empty_dsn)
    query("""update skiplane.setting set value = '"99.1"' where name = 'oldest_code'""")
    with pytest.raises(SchemaTooNew, match=r"needs Skiplane 99\.1 or newer"):
        served(empty_dsn)


def test_process_refuses_a_missing_or_older_schema(
    tree: Tree, empty_dsn: str, monkeypatch: pytest.MonkeyPatch
):
    with pytest.raises(SchemaMissing, match="run skiplane migrate"):
        served(empty_dsn)
    tree.migrate(empty_dsn)
    monkeypatch.setattr(versions, "head", lambda: "0002")
    with pytest.raises(SchemaMissing, match=r"version 0001, and .* needs 0002"):
        served(empty_dsn)

"""skiplane dlq"""

from uuid import UUID

import pytest

from skiplane.tests.cli.conftest import Run
from skiplane.tests.support.engine import Engine


@pytest.fixture
def dead(engine: Engine) -> list[UUID]:
    """Five dead tasks: two of type a, three of type b."""
    ids = [engine.submit(task_type="ab"[n > 1], max_retries=0) for n in range(5)]
    engine.fail(engine.claim(5), error_type="ValueError", error_message="no luck")
    assert [engine.status(task_id) for task_id in ids] == ["DEAD"] * 5
    return ids


def test_list_shows_what_died_of_what(skiplane: Run, dead: list[UUID]):
    said = skiplane("dlq", "list")
    assert said.out.count("no luck") == 5
    assert {d["task_id"] for d in skiplane("dlq", "list", "--json").document} == set(map(str, dead))
    assert len(skiplane("dlq", "list", "--type", "a", "--json").document) == 2
    page = skiplane("dlq", "list", "--limit", "2", "--json").document
    rest = skiplane("dlq", "list", "--cursor", page[-1]["cursor"], "--json").document
    assert {d["task_id"] for d in page + rest} == set(map(str, dead))


def test_show_is_for_dead_tasks(skiplane: Run, engine: Engine, dead: list[UUID]):
    assert "no luck" in skiplane("dlq", "show", str(dead[0])).out
    said = skiplane("dlq", "show", str(engine.submit()))
    assert said.code == 1
    assert "PENDING" in said.err


def test_retry_of_one_leaves_the_others(skiplane: Run, engine: Engine, dead: list[UUID]):
    assert skiplane("dlq", "retry", str(dead[0]), "--reason", "fixed").code == 0
    assert engine.status(dead[0]) == "PENDING"
    assert engine.status(dead[1]) == "DEAD"


def test_retry_all_asks_with_the_number(skiplane: Run, engine: Engine, dead: list[UUID]):
    refused = skiplane("dlq", "retry-all", stdin="n\n")
    assert refused.code == 1
    assert "Retry 5 dead tasks?" in refused.err
    assert engine.status(dead[0]) == "DEAD"
    agreed = skiplane("dlq", "retry-all", "--json", stdin="y\n")
    assert agreed.code == 0
    assert agreed.document == {"retried": 5}
    assert {engine.status(task_id) for task_id in dead} == {"PENDING"}


def test_retry_all_of_a_filter(skiplane: Run, engine: Engine, dead: list[UUID]):
    assert skiplane("dlq", "retry-all", "--type", "b", "--yes", "--json").document == {"retried": 3}
    assert [engine.status(task_id) for task_id in dead] == ["DEAD"] * 2 + ["PENDING"] * 3
    assert skiplane("dlq", "retry-all", "--type", "b", "--yes").out == "Retried 0 tasks.\n"


def test_discard_by_id_and_by_filter(skiplane: Run, engine: Engine, dead: list[UUID]):
    assert skiplane("dlq", "discard", str(dead[0])).out == "Discarded 1 task.\n"
    said = skiplane("dlq", "discard", "--all", "--type", "b", "--yes", "--json")
    assert said.document == {"discarded": 3}
    [left] = skiplane("dlq", "list", "--json").document
    assert left["task_id"] == str(dead[1])


def test_discard_of_nothing_named_is_bad_input(skiplane: Run, dead: list[UUID]):
    assert skiplane("dlq", "discard").code == 2
    assert skiplane("dlq", "discard", str(dead[0]), "--all").code == 2


def test_bulk_goes_on_over_pages(skiplane: Run, engine: Engine):
    engine.many(1100, max_retries=0)
    while (claim := engine.claim(500)).lease_id:
        engine.fail(claim, error_type="E", error_message="m")
    assert skiplane("dlq", "retry-all", "--yes", "--json").document == {"retried": 1100}
    while (claim := engine.claim(500)).lease_id:
        engine.fail(claim, error_type="E", error_message="m")
    said = skiplane("dlq", "discard", "--all", "--yes", "--json")
    assert said.document == {"discarded": 1100}
    assert skiplane("dlq", "list", "--json").document == []

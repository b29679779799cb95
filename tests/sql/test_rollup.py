"""What ended is counted once, by group and by kind of error."""

from typing import Any

import pytest

from skiplane.tests.support.engine import Engine, refused


@pytest.fixture
def counted(engine: Engine) -> Engine:
    """An engine whose rollup has begun."""
    engine.value("refresh_rollup")
    return engine


def totals(engine: Engine) -> dict[str, Any]:
    row = engine.one(
        "select jsonb_build_object('succeeded', sum(succeeded), 'failed', sum(failed),"
        " 'cancelled', sum(cancelled), 'dead', sum(dead), 'retried', sum(retried))"
        " from skiplane.rollup_total"
    )
    assert isinstance(row, dict)
    return row


def make_ends(engine: Engine) -> None:
    engine.many(7, "good")
    engine.finish(engine.claim(7))
    engine.many(3, "bad", max_retries=0)
    engine.fail(engine.claim(3), error_type="E", error_message="at host 7")
    engine.many(2, "bad", max_retries=1, retry_delay_seconds=3600)
    engine.fail(engine.claim(2), error_type="E", error_message="at host 8")
    engine.submit("bad")
    engine.fail(engine.claim(1), "permanent", error_type="F", error_message="no")
    engine.value("cancel_task", task_id=engine.submit("good"))


def test_every_end_is_counted_once(counted: Engine):
    make_ends(counted)
    counted.count_ends()
    expected = {"succeeded": 7, "failed": 1, "cancelled": 1, "dead": 3, "retried": 2}
    assert totals(counted) == expected
    counted.count_ends()
    assert totals(counted) == expected


def test_groups_add_up_to_the_whole(counted: Engine):
    make_ends(counted)
    counted.count_ends()
    found = counted.value("failure_analytics", seconds=3600)
    assert {one["task_type"]: one["succeeded"] for one in found["types"]} == {"bad": 0, "good": 7}
    bad = found["types"][0]
    assert (bad["failed"], bad["dead"], bad["retried"]) == (1, 3, 2)
    assert [(one["error_type"], one["errors"]) for one in found["errors"]] == [("E", 5), ("F", 1)]
    assert sum(one["errors"] for one in found["over_time"]) == 6
    assert found["errors"][0]["first_seen"] <= found["errors"][0]["last_seen"]


def test_hours_are_folded_and_say_the_same(counted: Engine):
    make_ends(counted)
    counted.count_ends()
    before = counted.value("failure_analytics", seconds=3600)
    counted.skip(7200)
    while counted.value("refresh_rollup") < 0.5:
        pass
    after = counted.value("failure_analytics", seconds=7 * 86_400)
    for name in ("types", "errors"):
        assert after[name] == before[name]


def test_histograms_hold_every_start(counted: Engine):
    make_ends(counted)
    counted.count_ends()
    assert counted.one("select sum(x) from skiplane.rollup_total, unnest(runs) x") == 11
    assert counted.one("select sum(x) from skiplane.rollup_total, unnest(waits) x") == 11
    assert [counted.value("_bucket", ms=ms) for ms in (0, 1, 1.4, 2, 1e12)] == [1, 1, 2, 3, 48]


def test_one_scheduler_at_a_time_counts(two: Any):
    first, second = two
    with first.transaction():
        first.execute("select skiplane.refresh_rollup()")
        [(pause,)] = second.execute("select skiplane.refresh_rollup()")
        assert pause == 5
        assert Engine(second).one("select count(*) from skiplane.rollup_total") == 0


def test_a_tenant_sees_its_own_counts(counted: Engine):
    counted.many(2, max_retries=0, metadata={"tenant_id": "a"})
    counted.many(3, max_retries=0, metadata={"tenant_id": "b"})
    counted.fail(counted.claim(5), error_type="E")
    counted.count_ends()
    found = counted.value("failure_analytics", within="a", seconds=3600)
    assert found["errors"][0]["errors"] == 2
    assert found["types"][0]["dead"] == 2
    with refused(counted.conn, "SK010", "tenant_id"):
        counted.value("failure_analytics", within="a", tenant_id="b")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("after 17 s", "after 3 s", True),
        ("no 'abc' in table", "no 'x y' in table", True),
        ('bad "a"', 'bad "b"', True),
        ("task 01a22fd0-9705-73ef-8000-0b77a7d523f5 is gone",
         "task 01a22fd0-9705-73ef-8000-0b77a7d523ff is gone", True),
        ("cannot read", "cannot write", False),
    ],
)  # fmt: skip
def test_errors_of_one_kind_have_one_fingerprint(engine: Engine, one: str, other: str, same: bool):
    prints = {engine.one("select skiplane._fingerprint('E', %s)", [text]) for text in (one, other)}
    assert (len(prints) == 1) is same
    engine.submit(max_retries=0)
    engine.fail(engine.claim(1), error_type="E", error_message=one)
    # A generated column cannot call our function: the two must stay the same.
    assert engine.one("select fingerprint from skiplane.dead") in prints


def test_dead_letters_are_grouped_and_settled_by_kind(engine: Engine):
    engine.many(4, max_retries=0)
    engine.fail(engine.claim(3), error_type="E", error_message="at 1")
    engine.fail(engine.claim(1), error_type="F", error_message="no")
    found = engine.value("dead_letter_kinds")
    assert [(kind["error_type"], kind["tasks"]) for kind in found["kinds"]] == [("E", 3), ("F", 1)]
    kind = found["kinds"][0]["fingerprint"]
    assert engine.value("count_dead_letters", fingerprint=kind) == 3
    assert engine.value("count_dead_letters", fingerprint=kind, most=2) == 3
    assert len(engine.rows("dead_letters_page", fingerprint=kind)) == 3
    assert engine.value("settle_dead_letters", verb="retry", fingerprint=kind, limit=2) == 2
    assert engine.value("settle_dead_letters", verb="retry", fingerprint=kind, limit=2) == 1
    assert engine.value("settle_dead_letters", verb="retry", fingerprint=kind, limit=2) == 0
    assert engine.one("select count(*) from skiplane.ready") == 3
    assert engine.value("settle_dead_letters", verb="discard") == 1
    with refused(engine.conn, "SK001", "verb"):
        engine.value("settle_dead_letters", verb="drop")


def test_dead_letters_of_another_tenant_are_not_settled(engine: Engine):
    engine.submit(max_retries=0, metadata={"tenant_id": "b"})
    engine.fail(engine.claim(1))
    assert engine.value("settle_dead_letters", verb="discard", within="a") == 0
    assert engine.value("count_dead_letters", within="a") == 0
    with refused(engine.conn, "SK010", "tenant_id"):
        engine.value("settle_dead_letters", verb="discard", within="a", tenant_id="b")

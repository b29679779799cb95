"""What a worker may send with a finish: nothing that it sends keeps a task running for ever."""

import uuid

import pytest

from skiplane.tests.support.engine import Claim, Engine, refused


def finish_text(engine: Engine, claim: Claim, failures: str) -> list[uuid.UUID]:
    """Finish with failures as text that a careless worker might send."""
    return list(
        engine.value(
            "finish_tasks",
            worker_id=claim.worker,
            lease_id=claim.lease_id,
            task_ids=[],
            results=[],
            failures=failures,
        )
    )


@pytest.mark.parametrize(
    "result",
    [
        '"\\u0000"',
        '"\\ud800"',
        "NaN",
        "nope",
        "",
        "1e400",
        "1e140000",
        "[" * 5000 + "]" * 5000,
        "[" * 300000 + "]" * 300000,
        f'"{"x" * 1048577}"',
    ],
)
def test_result_that_cannot_be_stored_fails_only_its_task(engine: Engine, result: str):
    ids = engine.many(3)
    claim = engine.claim(3)
    stale = engine.value(
        "finish_tasks",
        worker_id=claim.worker,
        lease_id=claim.lease_id,
        task_ids=ids,
        results=["1", result, "2"],
    )
    assert stale == []
    assert [engine.status(i) for i in ids] == ["SUCCEEDED", "FAILED", "SUCCEEDED"]
    task = engine.get(ids[1])
    assert task["error_type"] == "ResultNotStorable"
    assert task["attempts"][0]["outcome"] == "permanent"


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("a\\u0000b", "a?b"),
        ("\\ud800", "?"),
        ("\\udc00\\ud83d\\ude00\\ud83d", "?😀?"),
        (
            "NUL \\u0000 and the text \\\\u0000 and \\\\\\u0000",
            "NUL ? and the text \\u0000 and \\?",
        ),
        ("\\u00e9 \\\\ud800 \\\\\\\\", "é \\ud800 \\\\"),
    ],
)
def test_error_text_is_cleaned_of_what_nobody_can_read(engine: Engine, written: str, kept: str):
    task_id = engine.submit()
    claim = engine.claim()
    failures = f'[{{"task_id": "{task_id}", "kind": "error", "error_message": "{written}"}}]'
    assert finish_text(engine, claim, failures) == []
    assert engine.get(task_id)["attempts"][0]["error_message"] == kept


def test_long_error_texts_are_cut(engine: Engine):
    task_id = engine.submit()
    text = "é" * 5_000_000
    engine.fail(engine.claim(), error_type=text, error_message=text, error_detail=text)
    [attempt] = engine.get(task_id)["attempts"]
    sizes = [len(attempt[k].encode()) for k in ("error_type", "error_message", "error_detail")]
    assert sizes[0] < 401
    assert sizes[1] < 16385
    assert sizes[2] < 65537


@pytest.mark.parametrize(
    "failures",
    [
        "",
        "x",
        "{}",
        "[1]",
        '[{"kind": "error"}]',
        '[{"task_id": "%s"}]',
        '[{"task_id": "%s", "kind": "dead"}]',
    ],
)
def test_failures_that_name_nothing_are_refused(engine: Engine, failures: str):
    task_id = engine.submit()
    claim = engine.claim()
    with refused(engine.conn, "SK001", "failures"):
        finish_text(engine, claim, failures.replace("%s", str(task_id)))
    assert engine.status(task_id) == "RUNNING"


def test_task_named_twice_or_without_a_result_is_refused(engine: Engine):
    ids = engine.many(2)
    claim = engine.claim(2)
    same = {"worker_id": claim.worker, "lease_id": claim.lease_id}
    with refused(engine.conn, "SK001", "task_ids"):
        engine.rows("finish_tasks", task_ids=[ids[0], ids[0]], results=["1", "2"], **same)
    with refused(engine.conn, "SK001", "task_ids"):
        engine.finish(claim, {ids[0]: 1}, [{"task_id": ids[0], "kind": "error"}])
    with refused(engine.conn, "SK001", "results"):
        engine.rows("finish_tasks", task_ids=ids, results=["1"], **same)
    assert engine.rows("finish_tasks", task_ids=ids, results=None, **same) == [([],)]

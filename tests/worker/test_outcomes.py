"""Every attempt ends in a recorded state, whatever its function does."""

import json
from pathlib import Path

import pytest

from skiplane.tests.worker.helpers import Tasks, running_worker

RETRIED = {
    "value": "ValueError",
    "nul": "ValueError",
    "surrogate": "ValueError",
    "huge": "ValueError",
    "unprintable": "skiplane.tests.worker.sample_app.Unprintable",
    "itself": "ValueError",
    "group": "ExceptionGroup",
    "exit0": "SystemExit",
    "exit1": "SystemExit",
    "interrupt": "KeyboardInterrupt",
    "generator": "GeneratorExit",
    "cancelled": "asyncio.exceptions.CancelledError",
    "own": "skiplane.tests.worker.sample_app.OwnBase",
    "memory": "MemoryError",
    "recursion": "RecursionError",
}


def test_every_exception_is_a_recorded_failure(dsn: str, tasks: Tasks, tmp_path: Path):
    with running_worker(dsn, tmp_path, "--threads", "3") as worker:
        for mode in ("fail", "sync_fail", "thread_fail"):
            ids = {
                name: tasks.submit(mode, {"name": name}, max_retries=0)
                for name in [*RETRIED, "stop"]
            }
            for name, task_id in ids.items():
                task = tasks.wait(task_id)
                assert task["status"] == "DEAD", (mode, name, task)
                if name != "stop":
                    assert task["error_type"] == RETRIED[name], (mode, name)
                assert len((task["error_message"] or "").encode()) <= 8192
                assert len(task["attempts"]) == 1
        # None of it cost the processes anything.
        after = tasks.submit("echo", {"value": 1})
        assert tasks.wait(after)["status"] == "SUCCEEDED"
        assert len(worker.child_pids()) == 1
        assert worker.stop() == 0


def test_error_texts_are_cleaned(dsn: str, tasks: Tasks, tmp_path: Path):
    with running_worker(dsn, tmp_path):
        names = ("nul", "surrogate", "huge", "unprintable")
        ids = [tasks.submit("fail", {"name": name}, max_retries=0) for name in names]
        nul, surrogate, huge, unprintable = (tasks.wait(i)["error_message"] for i in ids)
    assert nul == "ab"
    assert surrogate == "�"
    assert huge.startswith("éé")
    assert huge.endswith("… (cut)")
    assert "no text" in unprintable


@pytest.mark.parametrize("mode", ["fail", "sync_fail"])
def test_a_task_steers_its_own_fate(dsn: str, tasks: Tasks, tmp_path: Path, mode: str):
    with running_worker(dsn, tmp_path):
        permanent = tasks.submit(mode, {"name": "permanent"})
        listed = tasks.submit(mode, {"name": "lookup"})
        retry = tasks.submit(mode, {"name": "retry"})
        postpone = tasks.submit(mode, {"name": "postpone"})
        assert tasks.wait(permanent)["status"] == "FAILED"
        assert tasks.wait(listed)["error_type"] == "KeyError"
        retried = tasks.wait(retry, "RETRYING")
        assert retried["attempt"] == 1
        assert tasks.wait(postpone, "RETRYING", "SCHEDULED")["attempts"] == []
        wait = tasks.scalar(
            "select extract(epoch from (skiplane.get_task(%s) ->> 'next_attempt_at')::timestamptz"
            " - clock_timestamp())",
            [retry],
        )
        assert 50 < wait <= 60


@pytest.mark.parametrize("mode", ["odd_result", "sync_odd_result"])
def test_a_result_that_cannot_be_stored_is_one_clear_failure(
    dsn: str, tasks: Tasks, tmp_path: Path, mode: str
):
    bad = ["nan", "infinity", "nul", "surrogate", "object", "deep", "huge_int"]
    good = {"escaped": "a\\u0000b", "decimal_nan": "NaN", "set": [1], "bytes": "eA=="}
    with running_worker(dsn, tmp_path):
        bad_ids = [tasks.submit(mode, {"name": name}) for name in bad]
        good_ids = {name: tasks.submit(mode, {"name": name}) for name in good}
        for task_id in bad_ids:
            task = tasks.wait(task_id)
            assert (task["status"], task["error_type"]) == ("FAILED", "ResultNotStorable"), task
            assert task["attempt"] == 1
        for name, task_id in good_ids.items():
            assert tasks.wait(task_id)["result"] == good[name]


def test_a_payload_that_cannot_be_read_costs_its_own_task_only(
    dsn: str, tasks: Tasks, tmp_path: Path
):
    # The engine refuses these at submission; a restored dump or an older version may hold them.
    deep, number = tasks.submit("echo", {"value": 1}), tasks.submit("echo", {"value": 1})
    stored = "update skiplane.task set payload = %s where id = %s"
    tasks.conn.execute(stored, ['{"value":' + "[" * 5000 + "]" * 5000 + "}", deep])
    tasks.conn.execute(stored, ['{"value":1e400}', number])
    wrong = tasks.submit("typed", {"to": 5})
    unknown = tasks.submit("typed", {"to": "a", "more": 1})
    missing = tasks.submit("typed", {"count": 1})
    good = tasks.many("echo", {"value": 1}, 50)
    with running_worker(dsn, tmp_path):
        tasks.wait_all([*good, deep, number, wrong, unknown, missing])
    parts = {deep: "recursion", number: "range", wrong: "$.to", unknown: "more", missing: "to"}
    for task_id, part in parts.items():
        error = tasks.conn.execute(
            "select status::text, error_type, error_message from skiplane.get_result(%s)", [task_id]
        ).fetchone()
        assert error is not None
        assert error[:2] == ("FAILED", "InvalidPayload")
        assert part in error[2]
    assert all(tasks.status(task_id) == "SUCCEEDED" for task_id in good)


@pytest.mark.parametrize("payload", [5, "text", [1, 2], None, True])
def test_a_payload_that_is_no_object_is_the_one_argument(
    dsn: str, tasks: Tasks, tmp_path: Path, payload: object
):
    with running_worker(dsn, tmp_path):
        task_id = tasks.scalar(
            "select task_id from skiplane.submit_task('echo', (%s)::jsonb)",
            [json.dumps(payload)],
        )
        assert tasks.wait(str(task_id))["result"] == payload


@pytest.mark.parametrize("task", ["cancel_everything", "stop_loop", "stray_exit", "stray_thread"])
def test_a_task_cannot_take_the_worker_down(dsn: str, tasks: Tasks, tmp_path: Path, task: str):
    options = ("--lease-seconds", "2", "--poll-seconds", "600")
    with running_worker(dsn, tmp_path, *options) as worker:
        rude = tasks.submit(task, max_retries=0)
        assert tasks.wait(rude)["status"] == (
            "DEAD" if task == "cancel_everything" else "SUCCEEDED"
        )
        more = tasks.many("echo", {"value": 1}, 30)
        tasks.wait_all(more)
        # Still quick: notifications work, not only the poll.
        assert tasks.wait(tasks.submit("echo", {"value": 2}), timeout=30)["status"] == "SUCCEEDED"
        assert len(worker.child_pids()) == 1
        assert worker.stop() == 0

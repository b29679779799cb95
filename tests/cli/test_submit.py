"""skiplane submit"""

import threading
from pathlib import Path

import pytest

from skiplane.tests.cli.conftest import Run
from skiplane.tests.support import wait_until
from skiplane.tests.support.engine import Claim, Engine


def test_submitted_task_is_shown_and_stored(skiplane: Run):
    said = skiplane("submit", "send_email", '{"to": "a@example.com"}')
    assert said.code == 0
    assert "PENDING" in said.out
    [task] = skiplane("task", "list", "--json").document
    assert task["task_type"] == "send_email"
    assert task["payload"] == {"to": "a@example.com"}


def test_json_is_what_the_api_answers(skiplane: Run):
    document = skiplane("submit", "t", "--json").document
    assert set(document) == {"task_id", "status", "scheduled_at", "created_at", "duplicate"}
    assert document["status"] == "PENDING"


def test_every_option_reaches_the_task(skiplane: Run):
    options = {
        "queue": "email",
        "priority": "high",
        "max-retries": "7",
        "retry-backoff": "linear",
        "retry-delay": "3s",
        "retry-max-delay": "2m",
        "retry-jitter": "none",
        "timeout": "1h",
        "idempotency-key": "k1",
        "estimate": "90s",
        "concurrency-key": "customer-1",
        "expires-at": "2035-01-31T17:00:00+01:00",
        "callback-url": "https://example.com/done",
        "metadata": '{"tags": ["a"]}',
        "tenant": "acme",
        "delay": "1d",
    }
    flags = [part for name, value in options.items() for part in (f"--{name}", value)]
    task_id = skiplane("submit", "t", "[1, 2]", *flags, "--json").document["task_id"]
    task = skiplane("task", "show", task_id, "--json").document
    assert task["status"] == "SCHEDULED"
    wanted = {
        "queue": "email",
        "priority": "high",
        "payload": [1, 2],
        "max_retries": 7,
        "retry_backoff": "linear",
        "retry_delay_seconds": 3,
        "retry_max_delay_seconds": 120,
        "retry_jitter": "none",
        "timeout_seconds": 3600,
        "idempotency_key": "k1",
        "estimated_duration_seconds": 90,
        "concurrency_key": "customer-1",
        "callback_url": "https://example.com/done",
        "metadata": {"tags": ["a"], "tenant_id": "acme"},
        "tenant_id": "acme",
    }
    assert {name: task[name] for name in wanted} == wanted
    assert task["expires_at"].startswith("2035-01-31T16:00:00")


def test_payload_from_file_and_standard_input(skiplane: Run, tmp_path: Path):
    (tmp_path / "p.json").write_text('{"from": "file"}')
    for argument, stdin, wanted in (("@p.json", "", "file"), ("-", '{"from": "pipe"}', "pipe")):
        task_id = skiplane("submit", "t", argument, "--json", stdin=stdin).document["task_id"]
        task = skiplane("task", "show", task_id, "--json").document
        assert task["payload"] == {"from": wanted}


def test_second_submission_with_a_key_is_said_to_be_a_duplicate(skiplane: Run):
    first = skiplane("submit", "t", "--idempotency-key", "k", "--json").document
    again = skiplane("submit", "t", "--idempotency-key", "k")
    assert again.code == 0
    assert first["task_id"] in again.out
    assert "earlier submission" in again.out
    other = skiplane("submit", "t", '{"other": 1}', "--idempotency-key", "k")
    assert other.code == 1
    assert "idempotency key" in other.err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["{"], "is not JSON"),
        (["--priority", "urgent"], "urgent"),
        (["--max-retries", "-1"], "0<=x<=10000"),
        (["--delay", "soon"], "no length of time"),
        (["--at", "2035-01-01"], "no zone"),
        (["--delay", "1", "--at", "2035-01-01T00:00Z"], "delay_seconds"),
        (["--metadata", "[]"], "no JSON object"),
        (["--max-retries", "99999999999"], "0<=x<=10000"),
        (["--delay", "nan"], "no length of time"),
        (["--timeout", "inf"], "no length of time"),
    ],
)
def test_bad_input_is_refused_in_a_sentence_with_code_2(
    skiplane: Run, arguments: list[str], says: str
):
    said = skiplane("submit", "t", *arguments)
    assert said.code == 2
    assert says in " ".join(said.err.replace("│", " ").split())
    assert said.out == ""
    # It speaks of what was typed, not of the language behind it.
    assert not {"dict", "str", "int", "timedelta", "datetime", "None"} & set(said.err.split())


def test_too_large_a_payload_is_bad_input(skiplane: Run, tmp_path: Path):
    (tmp_path / "big.json").write_text(f'"{"x" * 2_000_000}"')
    said = skiplane("submit", "t", "@big.json")
    assert said.code == 2
    assert len(said.err) < 500


def finish_next(engine: Engine, failures: bool) -> None:
    """Do what a worker does."""

    def claim() -> Claim | None:
        found = engine.claim()
        return found if found.lease_id else None

    claimed = wait_until(claim, 60, "a task to claim")
    assert claimed
    if failures:
        engine.fail(claimed, kind="permanent", error_type="ValueError", error_message="no")
    else:
        engine.finish(claimed, {claimed.ids[0]: 7})


@pytest.mark.parametrize(
    ("fails", "status", "code"), [(False, "SUCCEEDED", 0), (True, "FAILED", 1)]
)
def test_wait_prints_the_finished_task_and_tells_how_it_ended(
    skiplane: Run, engine: Engine, fails: bool, status: str, code: int
):
    worker = threading.Thread(target=finish_next, args=(engine, fails))
    worker.start()
    said = skiplane("submit", "t", "{}", "--wait", "--json")
    worker.join()
    assert said.code == code
    task = said.document
    assert task["status"] == status
    assert task == skiplane("task", "show", task["task_id"], "--json").document


def test_wait_that_is_not_long_enough_shows_the_task_and_fails(skiplane: Run):
    said = skiplane("submit", "t", "--wait", "0.2", "--json")
    assert said.code == 1
    assert said.document["status"] == "PENDING"
    assert "still PENDING after 0.2 s" in said.err


def test_without_a_database_it_says_what_to_do(skiplane: Run):
    said = skiplane("submit", "t", SKIPLANE_DSN="")
    assert said.code == 1
    assert "skiplane up" in said.err


def test_database_that_cannot_be_reached_is_named(skiplane: Run):
    said = skiplane("submit", "t", "--dsn", "postgresql://nobody@127.0.0.1:1/none")
    assert said.code == 1
    assert said.err.count("\n") == 1
    assert "127.0.0.1" in said.err


def test_database_without_schema_is_told_apart(skiplane: Run, empty_dsn: str):
    said = skiplane("submit", "t", "--dsn", empty_dsn)
    assert said.code == 1
    assert "skiplane migrate" in said.err

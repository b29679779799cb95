"""skiplane task"""

import uuid

from skiplane.tests.cli.conftest import Run
from skiplane.tests.support.engine import Engine


def test_show_has_attempts_and_history(skiplane: Run, engine: Engine):
    task_id = engine.submit(max_retries=3)
    engine.fail(engine.claim(), error_type="ValueError", error_message="bad [red]luck[/red]")
    skiplane("task", "cancel", str(task_id), "--reason", "enough", "--actor", "ann")
    said = skiplane("task", "show", str(task_id))
    assert said.code == 0
    # What a task says is text, and no markup.
    for word in ("CANCELLED", "ValueError", "bad [red]luck[/red]", "ann", "enough"):
        assert word in said.out
    assert skiplane("task", "show", str(task_id), "--json").document == engine.get(task_id)


def test_unknown_task_is_an_error_in_a_sentence(skiplane: Run):
    said = skiplane("task", "show", str(uuid.uuid4()))
    assert said.code == 1
    assert said.err.startswith("Error: ")
    assert said.err.count("\n") == 1


def test_id_that_is_none_is_bad_input(skiplane: Run):
    assert skiplane("task", "show", "7").code == 2


def test_list_filters_and_pages(skiplane: Run, engine: Engine):
    for number in range(5):
        engine.submit(task_type="a" if number % 2 else "b", queue=f"q{number}")
    engine.submit(task_type="a", delay_seconds=60)
    assert len(skiplane("task", "list", "--json").document) == 6
    assert len(skiplane("task", "list", "--type", "b", "--json").document) == 3
    assert len(skiplane("task", "list", "--queue", "q1", "--json").document) == 1
    [waiting] = skiplane("task", "list", "--status", "scheduled", "--json").document
    assert waiting["status"] == "SCHEDULED"
    first = skiplane("task", "list", "--limit", "4", "--json").document
    rest = skiplane("task", "list", "--cursor", first[-1]["cursor"], "--json").document
    assert len({task["task_id"] for task in first + rest}) == 6
    assert "--cursor" in skiplane("task", "list", "--limit", "4").out
    assert skiplane("task", "list", "--after", "2035-01-01T00:00Z", "--json").document == []


def test_cancel_of_what_has_ended_is_a_conflict(skiplane: Run, engine: Engine):
    task_id = str(engine.submit())
    assert skiplane("task", "cancel", task_id, "--json").document["status"] == "CANCELLED"
    said = skiplane("task", "cancel", task_id)
    assert said.code == 1
    assert "CANCELLED" in said.err


def test_cancel_and_retry_of_several(skiplane: Run, engine: Engine):
    ids = [str(task_id) for task_id in engine.many(3)]
    done = skiplane("task", "cancel", *ids, "--json").document
    assert [task["status"] for task in done] == ["CANCELLED"] * 3
    again = skiplane("task", "retry", *ids)
    assert again.code == 0
    assert again.out.count("PENDING") == 3


def test_edit_changes_what_is_given_and_only_that(skiplane: Run, engine: Engine):
    task_id = engine.submit(delay_seconds=60, payload={"old": 1}, concurrency_key="k")
    said = skiplane(
        "task", "edit", str(task_id), "--priority", "high", "--payload", "null", "--json"
    )
    assert said.code == 0
    task = engine.get(task_id)
    assert said.document == task
    assert (task["priority"], task["payload"], task["concurrency_key"]) == ("high", None, "k")
    assert task["version"] == 2


def test_edit_of_an_older_version_is_refused(skiplane: Run, engine: Engine):
    task_id = str(engine.submit(delay_seconds=60))
    assert skiplane("task", "edit", task_id, "--priority", "high", "--version", "1").code == 0
    said = skiplane("task", "edit", task_id, "--priority", "low", "--version", "1")
    assert said.code == 1
    assert "version" in said.err
    assert engine.get(uuid.UUID(task_id))["priority"] == "high"


def test_edit_of_nothing_is_bad_input(skiplane: Run, engine: Engine):
    said = skiplane("task", "edit", str(engine.submit(delay_seconds=60)))
    assert said.code == 2
    assert "Nothing to change" in said.err


def test_wait_for_a_task_that_has_ended(skiplane: Run, engine: Engine):
    task_id = engine.submit()
    claim = engine.claim()
    engine.finish(claim, {task_id: "done"})
    said = skiplane("task", "wait", str(task_id), "5", "--json")
    assert said.code == 0
    assert said.document["result"] == "done"

"""skiplane queue, task-type, tenant, and task why"""

import uuid

import pytest

from skiplane.tests.cli.conftest import Run
from skiplane.tests.support.engine import Engine


@pytest.mark.parametrize(("group", "name"), [("queue", "q"), ("task-type", "t"), ("tenant", "n")])
def test_pause_and_resume_are_shown(skiplane: Run, group: str, name: str):
    assert skiplane(group, "pause", name, "--actor", "ann", "--json").document["paused"] is True
    [listed] = skiplane(group, "list", "--json").document
    assert (listed["paused"], listed["changed_by"]) == (True, "ann")
    said = skiplane(group, "list")
    assert name in said.out
    assert "yes" in said.out
    assert skiplane(group, "resume", name, "--json").document["paused"] is False
    assert skiplane(group, "show", name, "--json").document["paused"] is False


def test_settings_are_kept_unless_given(skiplane: Run):
    skiplane("queue", "set", "q", "--priority-order", "strict", "--concurrency", "7")
    shown = skiplane("queue", "set", "q", "--concurrency", "-1", "--json").document
    assert (shown["priority_order"], shown["concurrency"]) == ("strict", None)
    skiplane("task-type", "set", "t", "--rate-limit", "10/min", "--breaker-threshold", "0.5")
    shown = skiplane("task-type", "set", "t", "--breaker-window", "2m", "--json").document
    assert (shown["rate_limit"], shown["burst"]) == ("10/min", 1)
    assert (shown["breaker"]["threshold"], shown["breaker"]["window_seconds"]) == (0.5, 120)
    shown = skiplane(
        "tenant", "set", "n", "--weight", "10", "--rate", "t", "5/s", "--json"
    ).document
    assert (shown["weight"], shown["rates"]["t"]["rate_limit"]) == (10, "5/s")


@pytest.mark.parametrize(
    "arguments",
    [
        ("queue", "set", "q", "--concurrency", "-2"),
        ("task-type", "set", "t", "--rate-limit", "often"),
        ("task-type", "set", "t", "--rate-limit", "0/s"),
        ("task-type", "set", "t", "--burst", "5"),
        ("task-type", "set", "t", "--breaker-threshold", "1.5"),
        ("tenant", "set", "n", "--weight", "0"),
        ("tenant", "set", "n", "--rate", "t", "never"),
    ],
)
def test_what_cannot_be_set_is_refused_in_a_sentence(skiplane: Run, arguments: tuple[str, ...]):
    said = skiplane(*arguments)
    assert said.code == 2
    assert said.err.startswith("Error: ")


def test_breaker_is_opened_and_closed_by_hand(skiplane: Run):
    opened = skiplane(
        "task-type", "open-breaker", "t", "--for", "5m", "--reason", "mail is down", "--json"
    ).document
    assert opened["breaker"]["state"] == "open"
    assert "mail is down" in skiplane("task-type", "list").out
    closed = skiplane("task-type", "close-breaker", "t", "--json").document
    assert closed["breaker"]["state"] == "closed"
    again = skiplane("task-type", "close-breaker", "t")
    assert again.code == 1
    assert "not open" in again.err


def test_why_tells_what_would_start_a_task(skiplane: Run, engine: Engine):
    task_id = engine.submit(queue="q")
    skiplane("queue", "pause", "q", "--actor", "ann")
    said = skiplane("task", "why", str(task_id))
    assert said.code == 0
    for word in ("PENDING", "paused by ann", "it is resumed", "no worker serves queue q"):
        assert word in said.out.replace("No worker", "no worker")
    told = skiplane("task", "why", str(task_id), "--json").document
    assert [reason["code"] for reason in told["reasons"]] == ["queue_paused", "no_worker"]
    assert skiplane("task", "why", str(uuid.uuid4())).code == 1


def test_needed_workers_are_told(skiplane: Run, engine: Engine):
    engine.many(100, queue="q", estimated_duration_seconds=60)
    engine.conn.execute("select skiplane.refresh_depth()")
    told = skiplane("queue", "autoscale", "q", "--max-workers", "7", "--json").document
    assert told["desired_workers"] == 7
    assert told["queues"][0]["depth"] == 100
    assert "Together: 7" in skiplane("queue", "autoscale", "--max-workers", "7").out
    refused = skiplane("queue", "autoscale", "--target-seconds", "0")
    assert "target_seconds" in refused.err

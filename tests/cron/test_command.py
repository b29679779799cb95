"""skiplane cron"""

import uuid

import pytest

from skiplane.tests.cli.conftest import Run, bare, skiplane

__all__ = ["bare", "skiplane"]


def test_life_of_a_schedule(skiplane: Run):
    said = skiplane(
        "cron", "create", "nightly", "30 2 * * *", "cleanup", '{"days": 7}', "--zone",
        "Europe/Berlin", "--overlap", "queue", "--jitter", "5m", "--max-retries", "1", "--json",
    )  # fmt: skip
    assert said.code == 0, said.err
    made = said.document
    assert (made["payload"], made["overlap_policy"], made["jitter_seconds"]) == (
        {"days": 7}, "queue", 300,
    )  # fmt: skip
    assert made["next_fire_time"]
    shown = skiplane("cron", "show", "nightly").out
    for word in ("ACTIVE", "30 2 * * *", "Europe/Berlin", "next fires", "02:30:00 CE"):
        assert word in shown
    said = skiplane("cron", "edit", "nightly", "--queue", "q", "--without", "jitter", "--json")
    assert (said.document["queue"], said.document["jitter_seconds"]) == ("q", 0)
    assert said.document["max_retries"] == 1
    assert skiplane("cron", "edit", "nightly", "--queue", "r", "--version", "1").code == 1
    paused = skiplane("cron", "pause", "nightly", "--reason", "holiday", "--json").document
    assert (paused["status"], paused["reason"]) == ("PAUSED", "holiday")
    [listed] = skiplane("cron", "list", "--status", "paused", "--json").document
    assert listed["name"] == "nightly"
    assert skiplane("cron", "resume", made["cron_id"], "--json").document["status"] == "ACTIVE"
    task = skiplane("cron", "run", "nightly", "--actor", "ann", "--json").document
    [fire] = skiplane("cron", "history", "nightly", "--json").document
    assert (fire["task_id"], fire["outcome"]) == (task["task_id"], "manual")
    assert "manual" in skiplane("cron", "history", "nightly").out
    assert skiplane("cron", "delete", "nightly", stdin="n\n").code == 1
    assert "Deleted nightly" in skiplane("cron", "delete", "nightly", "--yes").out
    assert "nightly" not in skiplane("cron", "list").out


def test_preview_shows_both_clocks(skiplane: Run):
    options = ("--expression", "30 2 * * *", "--timezone", "America/New_York", "--count", "3")
    after = ("--after", "2026-03-07T06:59:00Z")
    said = skiplane("cron", "preview", *options, *after, "--json")
    assert said.document == [
        "2026-03-07T07:30:00Z", "2026-03-08T07:00:00Z", "2026-03-09T06:30:00Z",
    ]  # fmt: skip
    assert "Sun 2026-03-08 03:00:00 EDT" in skiplane("cron", "preview", *options, *after).out


@pytest.mark.parametrize(
    "arguments",
    [
        ("create", "n", "60 * * * *", "t"),
        ("create", "n", "0 0 31 4 *", "t"),
        ("create", "n", "@daily", "t", "--zone", "Mars/Olympus"),
        ("create", "n", "@daily", "t", "--start-at", "2030-01-01T00:00:00"),
        ("create", "n", "@daily", "t", "--delay", "5"),
        ("preview",),
        ("preview", "n", "--expression", "@daily"),
        ("preview", "--expression", "nonsense"),
        ("edit", "n"),
    ],
)
def test_bad_input_is_told_in_a_sentence(skiplane: Run, arguments: tuple[str, ...]):
    said = skiplane("cron", *arguments)
    assert said.code == 2
    assert "Error" in said.err


def test_unknown_schedule_is_an_error(skiplane: Run):
    for name in ("nobody", str(uuid.uuid4())):
        said = skiplane("cron", "show", name)
        assert said.code == 1
        assert said.err.startswith("Error: ")

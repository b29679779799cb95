"""How commands show values and explain refusals."""

import io
from datetime import UTC, datetime, timedelta, timezone
from uuid import uuid4

import pytest
from rich.console import Console

from skiplane.commands.output import cell, explain, short, span, table, utc_text, when
from skiplane.schema.errors import InvalidInput, NotFound


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (None, None),
        (0.00002, "under 1 ms"),
        (0.0123, "12 ms"),
        (7.25, "7.2 s"),
        (61, "1m 1s"),
        (3 * 3600 + 120, "3h 2m"),
        (2 * 86400 + 7200, "2d 2h"),
    ],
)
def test_length_of_time_has_two_units_at_most(seconds: float | None, shown: str | None):
    assert span(seconds) == shown


def test_times_are_shown_in_utc():
    moment = datetime(2030, 1, 31, 17, 0, 0, 250_000, timezone(timedelta(hours=2)))
    assert when(moment) == "2030-01-31 15:00:00Z"
    assert when("2030-01-31T17:00:00+02:00") == "2030-01-31 15:00:00Z"
    assert utc_text(moment) == "2030-01-31T15:00:00.250000Z"
    assert utc_text(datetime(2030, 1, 1, tzinfo=UTC)) == "2030-01-01T00:00:00Z"


def test_long_values_are_cut_to_one_line():
    assert short({"a": "line\nbreak"}) == '{"a": "line\\nbreak"}'
    assert short("two\nlines") == "two lines"
    assert len(short("x" * 500)) == 60


def test_text_of_tasks_is_no_markup():
    assert cell("[bold]x[/bold]").plain == "[bold]x[/bold]"
    assert cell(None).plain == "–"


def test_empty_table_says_so():
    assert table("Queues", ("queue",), []).title == "Queues: none"


@pytest.mark.parametrize("width", [40, 80])
def test_ids_stay_whole_on_narrow_terminals(width: int):
    ids = [uuid4(), uuid4()]
    rows = [(task_id, "a.long.task.type", "SUCCEEDED", "much " * 20) for task_id in ids]
    console = Console(width=width, file=io.StringIO())
    with console.capture() as shown:
        console.print(table(None, ("task", "type", "status", "says"), rows))
    assert [str(task_id) in shown.get() for task_id in ids] == [True, True]


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (
            InvalidInput("priority is not known", "priority", "hi", "give high, medium or low"),
            "priority is not known (hi). Give high, medium or low.",
        ),
        (
            NotFound("no task has this id", "task_id", "7", "look it up"),
            "No task has this id (task_id = 7). Look it up.",
        ),
        (NotFound("No task has the id 7."), "No task has the id 7."),
        (
            InvalidInput("tasks[1].queue is empty", "tasks[1].queue", None, None),
            "tasks[1].queue is empty.",
        ),
    ],
)
def test_refusal_names_field_value_and_remedy(error: InvalidInput | NotFound, told: str):
    assert explain(error) == told

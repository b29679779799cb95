"""What people may write for payloads, lengths of time and times."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from skiplane.commands.parameters import Instant, JsonValue, Span, task_options


def convert(kind: Any, text: str) -> Any:
    return kind.convert(text, None, None)


@pytest.mark.parametrize(
    ("text", "value"),
    [('{"a": [1, null]}', {"a": [1, None]}), ('"text"', "text"), ("null", None), ("7", 7)],
)
def test_payload_is_json_text(text: str, value: Any):
    assert convert(JsonValue(), text) == value


def test_payload_comes_from_a_file(tmp_path: Path):
    (tmp_path / "payload.json").write_text('{"grüße": "é"}', encoding="utf-8")
    assert convert(JsonValue(), f"@{tmp_path}/payload.json") == {"grüße": "é"}


def test_payload_of_other_bytes_than_utf_8_is_refused():
    # What the shell hands on as bytes arrives as lone surrogates.
    with pytest.raises(click.BadParameter, match="is not UTF-8"):
        convert(JsonValue(), '{"a": "\udcff"}')


def test_payload_comes_from_standard_input():
    @click.command()
    @click.argument("payload", type=JsonValue())
    def echo(payload: Any) -> None:
        click.echo(json.dumps(payload))

    assert CliRunner().invoke(echo, ["-"], input="[1, 2]").output == "[1, 2]\n"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("hello", "is not JSON"),
        ('{"a": }', "column 7"),
        ("@/no/such/file", "/no/such/file cannot be read"),
        ("[" * 100_000, "nested"),
    ],
)
def test_bad_payload_is_refused_with_its_reason(text: str, says: str):
    with pytest.raises(click.BadParameter, match=says):
        convert(JsonValue(), text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        ("1.5", 1.5),
        ("500ms", 0.5),
        ("10s", 10),
        ("5m", 300),
        ("2h", 7200),
        ("1d", 86400),
    ],
)
def test_length_of_time_has_units(text: str, seconds: float):
    assert convert(Span(), text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["soon", "5 weeks", "", "s", "5mm"])
def test_bad_length_of_time_is_refused(text: str):
    with pytest.raises(click.BadParameter, match="no length of time"):
        convert(Span(), text)


def test_time_is_given_in_utc():
    assert convert(Instant(), "2030-01-31T17:00:00+02:00") == datetime(2030, 1, 31, 15, tzinfo=UTC)
    assert convert(Instant(), "2030-01-31T17:00:00Z").utcoffset() == timedelta(0)


@pytest.mark.parametrize(
    ("text", "says"),
    [("2030-01-31 17:00", "no zone"), ("tomorrow", "no time"), ("0001-01-01T00:00+14", "no time")],
)
def test_bad_time_is_refused(text: str, says: str):
    with pytest.raises(click.BadParameter, match=says):
        convert(Instant(), text)


def test_short_and_long_names_of_an_option_are_one():
    @click.command()
    @task_options
    def echo(**options: Any) -> None:
        click.echo(
            json.dumps({name: value for name, value in options.items() if value}, default=str)
        )

    for names in (("--delay", "--timeout"), ("--delay-seconds", "--timeout-seconds")):
        result = CliRunner().invoke(echo, [names[0], "2m", names[1], "30"])
        assert json.loads(result.output) == {"delay_seconds": 120.0, "timeout_seconds": 30.0}

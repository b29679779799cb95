"""Parameters of commands that stand for values of the engine."""

import json
import math
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from ..schema.encode import MAX_DEPTH, decode_json

Command = Callable[..., Any]
UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}


if TYPE_CHECKING:
    ParamType = click.ParamType[Any]
else:
    ParamType = click.ParamType  # generic only since click 8.4


class JsonValue(ParamType):
    """JSON text, @FILE, or - for standard input."""

    name = "json"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read and decode it."""
        text = self._read(value, param, ctx)
        try:
            return decode_json(text)
        except json.JSONDecodeError as error:
            where = f"line {error.lineno} column {error.colno}"
            self.fail(
                f"{text[:60]!r} is not JSON: {error.msg} at {where}. "
                "Text needs quotes of its own, like '\"text\"'.",
                param,
                ctx,
            )
        except RecursionError:
            self.fail(f"It is nested more than {MAX_DEPTH} levels deep.", param, ctx)

    def _read(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            if value == "-":
                return sys.stdin.buffer.read().decode()
            if value.startswith("@"):
                return Path(value[1:]).read_text(encoding="utf-8")
        except OSError as error:
            self.fail(f"{value[1:]} cannot be read: {error.strerror}.", param, ctx)
        except UnicodeDecodeError as error:
            self.fail(f"It is not UTF-8: {error.reason} at byte {error.start}.", param, ctx)
        if not value.isascii() and any("\ud800" <= letter <= "\udfff" for letter in value):
            self.fail(f"{value[:60]!r} is not UTF-8.", param, ctx)
        return value


class JsonObject(JsonValue):
    """JSON text of an object."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read and decode it."""
        decoded = super().convert(value, param, ctx)
        if not isinstance(decoded, dict):
            self.fail(
                f'{value[:60]!r} is no JSON object. Give one like \'{{"source": "import"}}\'.',
                param,
                ctx,
            )
        return decoded


class Span(ParamType):
    """A length of time: seconds, or a number with ms, s, m, h or d."""

    name = "seconds"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Give it in seconds; whether it is in range is for the engine to say."""
        text = str(value).strip()
        unit = next((u for u in UNITS if text.endswith(u) and text[: -len(u)].strip()), "")
        try:
            seconds = float(text.removesuffix(unit)) * UNITS.get(unit, 1)
        except ValueError:
            seconds = math.nan
        if not math.isfinite(seconds):
            self.fail(f"{text!r} is no length of time. Give seconds, or 500ms, 5m, 2h.", param, ctx)
        return seconds


class Instant(ParamType):
    """A point in time in ISO 8601 form, with its zone."""

    name = "time"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> datetime:
        """Give it in UTC."""
        try:
            moment = datetime.fromisoformat(value)
            zoned = moment.astimezone(UTC) if moment.tzinfo else None
        except (ValueError, OverflowError):
            self.fail(f"{value!r} is no time. Give one like 2030-01-31T17:00:00Z.", param, ctx)
        if zoned is None:
            self.fail(
                f"{value!r} has no zone. Add Z for UTC, or an offset like +02:00.", param, ctx
            )
        return zoned


def task_options(command: Command) -> Command:
    """Add an option for each field of a submission that an edit may change as well.

    Their values come as keyword arguments under the engine's names.
    """
    span, instant = Span(), Instant()
    text = str
    for names, kind, says in reversed(
        (
            (("--queue",), text, "Queue to wait in."),
            (("--priority",), text, "high, medium or low."),
            (("--scheduled-at", "--at"), instant, "When to run, like 2030-01-31T17:00:00Z."),
            (("--delay-seconds", "--delay"), span, "When to run, as a time from now."),
            (
                ("--max-retries",),
                click.IntRange(0, 10_000),
                "How often to try again after a failure.",
            ),
            (("--retry-backoff",), text, "exponential, linear or fixed."),
            (("--retry-delay-seconds", "--retry-delay"), span, "First delay before a retry."),
            (("--retry-max-delay-seconds", "--retry-max-delay"), span, "Longest such delay."),
            (("--retry-jitter",), text, "full, equal, decorrelated or none."),
            (("--timeout-seconds", "--timeout"), span, "How long an attempt may run."),
            (("--estimated-duration-seconds", "--estimate"), span, "How long it will run."),
            (("--concurrency-key",), text, "Tasks with the same key share a limit."),
            (("--expires-at",), instant, "Never start after this time."),
            (("--callback-url",), text, "URL to be told about the end."),
            (("--metadata",), JsonObject(), "A JSON object of your own."),
        )
    ):
        name = names[0].removeprefix("--").replace("-", "_")
        command = click.option(*names, name, type=kind, help=says)(command)
    return command


def actor_options(command: Command) -> Command:
    """Add --reason and --actor, which end up in the task's history."""
    command = click.option("--actor", help="Who does it; by default the database role.")(command)
    return click.option("--reason", help="Why, for the task's history.")(command)


def filter_options(command: Command) -> Command:
    """Add --type, --queue and --tenant, passed on as task_type, queue and tenant."""
    command = click.option("--tenant", help="Only this tenant.")(command)
    command = click.option("--queue", help="Only this queue.")(command)
    return click.option("--type", "task_type", help="Only this task type.")(command)

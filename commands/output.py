"""What the commands share: where the database is, tables, JSON, refusals.

Exit codes: 0 done, 2 bad input, 1 everything else that went wrong.
"""

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, NoReturn
from uuid import UUID

import rich_click as click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..config import Config
from ..schema.errors import InvalidInput, SkiplaneError, TooLarge, from_driver
from .endpoint import read_endpoint

STATUS_STYLES = {
    "SCHEDULED": "cyan",
    "BLOCKED": "cyan",
    "PENDING": "blue",
    "RUNNING": "bold blue",
    "RETRYING": "yellow",
    "SUCCEEDED": "green",
    "FAILED": "red",
    "CANCELLED": "dim",
    "DEAD": "bold red",
    "ACTIVE": "green",
    "PAUSED": "yellow",
    "INVALID": "bold red",
    "ENDED": "dim",
}


def json_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --json, passed on as ``as_json``."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")(command)


def fail(message: str, code: int = 1) -> NoReturn:
    """End the command with one sentence on standard error."""
    click.echo(f"Error: {message}", err=True)
    sys.exit(code)


@contextmanager
def refusals() -> Iterator[None]:
    """End the command with a sentence instead of a stack trace.

    SkiplaneError and what it stands for in the driver are explained; anything
    else is a fault of ours and passes through.
    """
    try:
        yield
    except Exception as error:
        known = error if isinstance(error, SkiplaneError) else from_driver(error)
        if known is None:
            raise
        fail(explain(known), 2 if isinstance(known, InvalidInput | TooLarge) else 1)


def explain(error: SkiplaneError) -> str:
    """Say what is wrong, where, with which value, and what to do."""
    where = error.field if error.field and error.field not in error.message else ""
    value = error.value if error.value and error.value not in error.message else ""
    place = " = ".join(part for part in (where, value) if part)
    told = f"{error.message.rstrip('.')} ({place})" if place else error.message
    # The name of a field is written as it is.
    told = told if error.field and told.startswith(error.field) else _sentence(told)
    told = told if told.endswith((".", "?", "!")) else f"{told}."
    return f"{told} {_sentence(error.remedy)}" if error.remedy else told


def _sentence(text: str) -> str:
    # The engine writes in the style of PostgreSQL: lower case, no full stop.
    first = text[:1].upper() if text.partition(" ")[0].isalpha() else text[:1]
    return f"{first}{text[1:]}" + ("" if text.endswith((".", "?", "!")) else ".")


def find_dsn(config: Config) -> str:
    """Give the DSN from the settings, else that of a running `skiplane up`."""
    if config.dsn:
        return config.dsn
    running = read_endpoint(config.data_dir)
    if running is not None:
        return running
    fail(
        "No database is known. Give --dsn or set SKIPLANE_DSN, or start one with `skiplane up` "
        f"(none runs on {config.data_dir})."
    )


def print_json(value: Any) -> None:
    """Print a value as one JSON document."""
    click.echo(json.dumps(value, ensure_ascii=False, indent=2 if sys.stdout.isatty() else None))


def console() -> Console:
    """Give the console for people, as wide as the terminal or unbroken in a pipe."""
    return Console(width=None if sys.stdout.isatty() else 200, highlight=False)


def table(title: str | None, columns: Iterable[str], rows: Iterable[Sequence[Any]]) -> Table:
    """Build a table; None shows as a dash, statuses in their colours."""
    rows = list(rows)
    if title and not rows:
        title = f"{title}: none"
    made = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for number, column in enumerate(columns):
        # An id in two pieces can be neither read nor copied.
        whole = any(isinstance(row[number], UUID) for row in rows)
        made.add_column(column, overflow="fold", no_wrap=whole, min_width=36 if whole else None)
    for row in rows:
        made.add_row(*(cell(value) for value in row))
    return made


def cell(value: Any) -> Text:
    """Show one value of a table."""
    if value is None:
        return Text("–", style="dim")
    if isinstance(value, Text):
        return value
    if isinstance(value, float):
        return Text(f"{value:,.2f}".rstrip("0").rstrip("."))
    # Plain text: what stands in a payload or an error must not work as markup.
    text = str(value)
    return Text(text, style=STATUS_STYLES.get(text, ""))


def when(time: str | datetime | None) -> str | None:
    """Show a time to the second, in UTC."""
    if time is None:
        return None
    moment = datetime.fromisoformat(time) if isinstance(time, str) else time
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def utc_text(moment: datetime) -> str:
    """Give a time as the engine writes it in its documents."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def span(seconds: float | None) -> str | None:
    """Show a length of time in its two largest units."""
    if seconds is None:
        return None
    if seconds < 0.001:
        return "under 1 ms"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    units = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))
    first = next(i for i, (size, _) in enumerate(units) if seconds >= size)
    big, small = units[first], units[first + 1]
    return f"{seconds // big[0]:.0f}{big[1]} {seconds % big[0] // small[0]:.0f}{small[1]}"


def short(value: Any, length: int = 60) -> str:
    """Show a JSON value on one line, cut when it is long."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = " ".join(text.split())
    return text if len(text) <= length else text[: length - 1] + "…"

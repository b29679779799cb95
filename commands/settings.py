"""What the commands for queues, task types and tenants share."""

from collections.abc import Callable
from typing import Any

import rich_click as click

from ..config import Config
from ..schema.call import Call
from .database import database
from .output import console, print_json, short, table

Command = Callable[..., Any]

actor_option = click.option("--actor", help="Who does it; by default the database role.")


def page_options(command: Command) -> Command:
    """Add --limit and --after."""
    command = click.option("--after", default="", help="Only names after this one.")(command)
    limit = click.IntRange(1, 10000)
    return click.option("--limit", type=limit, default=1000, show_default=True)(command)


def show_all(
    config: Config,
    as_json: bool,
    columns: tuple[str, ...],
    make: Callable[..., Call[Any]],
    **arguments: Any,
) -> None:
    """Make and run a call that gives documents, and print one line for each."""
    with database(config) as db:
        found = db.documents(make(**arguments))
    if as_json:
        print_json(found)
        return
    rows = [[_shown(one.get(column)) for column in columns] for one in found]
    console().print(table(None, [column.replace("_", " ") for column in columns], rows))


def set_one(
    config: Config, as_json: bool, make: Callable[..., Call[Any]], name: str, **arguments: Any
) -> None:
    """Make and run a call that gives one document, and print it field by field."""
    with database(config) as db:
        document = db.document(make(name, **arguments))
    if as_json:
        print_json(document)
        return
    rows = [(key.replace("_", " "), _shown(value)) for key, value in document.items()]
    console().print(table(None, ("", ""), rows))


def _shown(value: Any) -> Any:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        if "state" in value:
            return ": ".join(filter(None, (value["state"], value.get("reason"))))
        return short(value) if value else None
    return value

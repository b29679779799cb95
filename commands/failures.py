"""skiplane failures"""

from typing import Any

import rich_click as click

from ..config import Config
from ..schema import dashboard_calls
from .database import database
from .options import configured
from .output import console, json_option, print_json, short, table, when
from .parameters import Span, filter_options

TYPES = ("task_type", "succeeded", "failed", "dead", "cancelled", "retried", "mean_run_ms")


@click.command()
@click.option(
    "--seconds",
    "--since",
    "seconds",
    type=Span(),
    default="24h",
    show_default=True,
    help="How far back, such as 1h or 7d.",
)
@filter_options
@click.option("--fingerprint", help="Only this kind of error.")
@click.option("--limit", type=click.IntRange(1, 500), default=50, show_default=True)
@json_option
@configured("dsn")
def failures(config: Config, as_json: bool, seconds: float, limit: int, **filters: Any) -> None:
    """Tell which types fail, how often, with what errors, since when.

    Attempts that failed count as errors, also when a retry succeeded. Counted some
    seconds late; by the minute for up to a day back, by the hour beyond.
    """
    with database(config) as db:
        filters["tenant_id"] = filters.pop("tenant")
        found = db.run(dashboard_calls.failure_analytics(None, seconds, filters, limit))
    if as_json:
        print_json(found)
        return
    if not found["errors"]:
        click.echo(f"Nothing has failed since {when(found['since'])}.")
        return
    types = [[one[name] for name in TYPES] for one in found["types"]]
    errors = [
        (
            one["errors"],
            one["error_type"],
            short(one["message"] or "", 100),
            ", ".join(one["task_types"]),
            when(one["first_seen"]),
            when(one["last_seen"]),
            one["fingerprint"],
        )
        for one in found["errors"]
    ]
    heads = ("attempts", "error", "message", "types", "first seen", "last seen", "fingerprint")
    console().print(
        table(
            f"Failures since {when(found['since'])}",
            [name.replace("_", " ") for name in TYPES],
            types,
        )
    )
    console().print(table("Errors", heads, errors))

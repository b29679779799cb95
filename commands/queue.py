"""skiplane queue"""

from typing import Any

import rich_click as click

from ..config import Config
from ..schema import flow_calls, watch_calls
from .database import database
from .options import configured
from .output import console, json_option, print_json, table
from .settings import actor_option, page_options, set_one, show_all

COLUMNS = ("queue", "paused", "priority_order", "concurrency", "running", "depth", "oldest_waiting")

NEEDS = ("queue", "desired_workers", "slots", "depth", "held", "running", "workers")


@click.group()
def queue() -> None:
    """Look at queues; limit, pause and resume them."""


@queue.command("list")
@page_options
@json_option
@configured("dsn")
def list_(config: Config, as_json: bool, **page: Any) -> None:
    """List queues that have settings or tasks."""
    show_all(config, as_json, COLUMNS, flow_calls.list_queues, **page)


@queue.command()
@click.argument("name")
@json_option
@configured("dsn")
def show(config: Config, name: str, as_json: bool) -> None:
    """Show the settings of a queue and how it stands."""
    set_one(config, as_json, flow_calls.get_queue, name)


@queue.command("set")
@click.argument("name")
@click.option(
    "--priority-order",
    type=click.Choice(["weighted", "strict"]),
    help="70/25/5 for high, medium, low; or one before the other.",
)
@click.option("--concurrency", type=int, help="Most tasks at once over the fleet; -1: no limit.")
@actor_option
@json_option
@configured("dsn")
def set_(config: Config, name: str, as_json: bool, **given: Any) -> None:
    """Set what is given of a queue and keep the rest."""
    set_one(config, as_json, flow_calls.set_queue, name, **given)


@queue.command()
@click.argument("name")
@actor_option
@json_option
@configured("dsn")
def pause(config: Config, name: str, as_json: bool, actor: str | None) -> None:
    """Let nothing of a queue start; what runs goes on."""
    set_one(config, as_json, flow_calls.set_queue, name, paused=True, actor=actor)


@queue.command()
@click.argument("name")
@actor_option
@json_option
@configured("dsn")
def resume(config: Config, name: str, as_json: bool, actor: str | None) -> None:
    """Let tasks of a queue start again."""
    set_one(config, as_json, flow_calls.set_queue, name, paused=False, actor=actor)


@queue.command()
@click.argument("names", nargs=-1)
@click.option("--target-seconds", type=float, help="Within how long to start what waits (60).")
@click.option("--slots-per-worker", type=int, help="What one runs at once; else as they are.")
@click.option("--min-workers", type=int, help="At least so many (0).")
@click.option("--max-workers", type=int, help="At most so many (100).")
@json_option
@configured("dsn")
def autoscale(config: Config, names: tuple[str, ...], as_json: bool, **given: Any) -> None:
    """Tell how many workers queues need, all or those named."""
    with database(config) as db:
        found = db.run(watch_calls.autoscale(names or None, **given))
    if as_json:
        print_json(found)
        return
    rows = [[str(one[column]) for column in NEEDS] for one in found["queues"]]
    console().print(table(None, [column.replace("_", " ") for column in NEEDS], rows))
    console().print(f"Together: {found['desired_workers']}")

"""skiplane task-type"""

from typing import Any

import rich_click as click

from ..config import Config
from ..schema import flow_calls
from .options import configured
from .output import json_option
from .parameters import Span
from .settings import actor_option, page_options, set_one, show_all

COLUMNS = (
    "task_type",
    "paused",
    "rate_limit",
    "burst",
    "tenant_rate_limit",
    "concurrency",
    "key_concurrency",
    "running",
    "depth",
    "breaker",
)


@click.group()
def task_type() -> None:
    """Limit, pause and resume task types; open and close breakers."""


@task_type.command("list")
@page_options
@json_option
@configured("dsn")
def list_(config: Config, as_json: bool, **page: Any) -> None:
    """List task types that have settings or tasks."""
    show_all(config, as_json, COLUMNS, flow_calls.list_task_types, **page)


@task_type.command()
@click.argument("name")
@json_option
@configured("dsn")
def show(config: Config, name: str, as_json: bool) -> None:
    """Show the settings of a task type and how it stands."""
    set_one(config, as_json, flow_calls.get_task_type, name)


@task_type.command("set")
@click.argument("name")
@click.option("--rate-limit", help="Starts over the fleet: 100/s, 10/min, 1/hour; none: no limit.")
@click.option("--burst", type=float, help="Starts that may come at once.")
@click.option("--tenant-rate-limit", help="The same for each tenant.")
@click.option("--tenant-burst", type=float, help="Burst of each tenant.")
@click.option("--concurrency", type=int, help="Most tasks at once over the fleet; -1: no limit.")
@click.option("--key-concurrency", type=int, help="Most at once of one concurrency key.")
@click.option(
    "--breaker-threshold", type=float, help="Share of failures that opens the breaker; -1: none."
)
@click.option("--breaker-window", type=Span(), help="Over how long the share is taken.")
@click.option("--breaker-minimum", type=int, help="Attempts that there must be in it.")
@click.option("--breaker-cooldown", type=Span(), help="How long it stays open before probes.")
@click.option("--breaker-probes", type=int, help="Probes that must succeed to close it.")
@actor_option
@json_option
@configured("dsn")
def set_(config: Config, name: str, as_json: bool, **given: Any) -> None:
    """Set what is given of a task type and keep the rest."""
    set_one(config, as_json, flow_calls.set_task_type, name, **given)


@task_type.command()
@click.argument("name")
@actor_option
@json_option
@configured("dsn")
def pause(config: Config, name: str, as_json: bool, actor: str | None) -> None:
    """Let nothing of a task type start; what runs goes on."""
    set_one(config, as_json, flow_calls.set_task_type, name, paused=True, actor=actor)


@task_type.command()
@click.argument("name")
@actor_option
@json_option
@configured("dsn")
def resume(config: Config, name: str, as_json: bool, actor: str | None) -> None:
    """Let tasks of a type start again."""
    set_one(config, as_json, flow_calls.set_task_type, name, paused=False, actor=actor)


@task_type.command("open-breaker")
@click.argument("name")
@click.option("--for", "duration", type=Span(), help="How long; then probes decide.")
@click.option("--reason", help="Why.")
@actor_option
@json_option
@configured("dsn")
def open_breaker(config: Config, name: str, as_json: bool, **given: Any) -> None:
    """Open the circuit breaker of a type: nothing of it starts."""
    set_one(config, as_json, flow_calls.open_breaker, name, **given)


@task_type.command("close-breaker")
@click.argument("name")
@actor_option
@json_option
@configured("dsn")
def close_breaker(config: Config, name: str, as_json: bool, actor: str | None) -> None:
    """Close the circuit breaker of a type at once."""
    set_one(config, as_json, flow_calls.close_breaker, name, actor=actor)

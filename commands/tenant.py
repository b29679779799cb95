"""skiplane tenant"""

from typing import Any

import rich_click as click

from ..config import Config
from ..schema import flow_calls
from .options import configured
from .output import json_option
from .settings import actor_option, page_options, set_one, show_all

COLUMNS = ("tenant_id", "weight", "paused", "concurrency", "running", "rates", "depth")


@click.group()
def tenant() -> None:
    """Weigh, limit, pause and resume tenants."""


@tenant.command("list")
@page_options
@json_option
@configured("dsn")
def list_(config: Config, as_json: bool, **page: Any) -> None:
    """List tenants that have settings or tasks."""
    show_all(config, as_json, COLUMNS, flow_calls.list_tenants, **page)


@tenant.command()
@click.argument("name")
@json_option
@configured("dsn")
def show(config: Config, name: str, as_json: bool) -> None:
    """Show the settings of a tenant and how it stands."""
    set_one(config, as_json, flow_calls.get_tenant, name)


@tenant.command("set")
@click.argument("name")
@click.option("--weight", type=int, help="Share of capacity against other tenants, 1 to 1000.")
@click.option("--concurrency", type=int, help="Most of its tasks at once; -1: no limit.")
@click.option(
    "--rate",
    "rates",
    type=(str, str),
    multiple=True,
    metavar="TYPE RATE",
    help="Its own rate for a task type, such as 10/s; none takes it away. Several times.",
)
@actor_option
@json_option
@configured("dsn")
def set_(
    config: Config, name: str, as_json: bool, rates: tuple[tuple[str, str], ...], **given: Any
) -> None:
    """Set what is given of a tenant and keep the rest."""
    set_one(config, as_json, flow_calls.set_tenant, name, rates=dict(rates) or None, **given)


@tenant.command()
@click.argument("name")
@actor_option
@json_option
@configured("dsn")
def pause(config: Config, name: str, as_json: bool, actor: str | None) -> None:
    """Let nothing of a tenant start; what runs goes on."""
    set_one(config, as_json, flow_calls.set_tenant, name, paused=True, actor=actor)


@tenant.command()
@click.argument("name")
@actor_option
@json_option
@configured("dsn")
def resume(config: Config, name: str, as_json: bool, actor: str | None) -> None:
    """Let tasks of a tenant start again."""
    set_one(config, as_json, flow_calls.set_tenant, name, paused=False, actor=actor)

"""skiplane webhook"""

from typing import Any
from uuid import UUID

import rich_click as click

from ..config import Config
from ..schema import webhook_calls as calls
from .database import database
from .options import configured
from .output import console, json_option, print_json, table, when


@click.group()
def webhook() -> None:
    """Tell a URL of ends of tasks and workflows, and of alerts."""


@webhook.command()
@click.argument("name")
@click.argument("url")
@click.option(
    "--event",
    "events",
    type=click.Choice(calls.EVENTS),
    multiple=True,
    default=("task",),
    show_default=True,
    help="What to tell; can be given several times.",
)
@click.option("--tenant", help="Only of this tenant.")
@click.option("--type", "task_type", help="Only of tasks of this type.")
@click.option("--queue", help="Only of tasks of this queue.")
@click.option("--delivery-queue", help="Queue of the deliveries; that of the task if absent.")
@click.option("--disabled", is_flag=True, help="Do not tell anything yet.")
@click.option("--actor", help="Who does it; by default the database role.")
@json_option
@configured("dsn")
def create(
    config: Config, name: str, url: str, disabled: bool, as_json: bool, **options: Any
) -> None:
    """Make a webhook and show the key of its signatures, this once."""
    with database(config) as db:
        made = db.run(calls.create_webhook(name, url, enabled=not disabled, **options))
    if as_json:
        print_json(made)
    else:
        click.echo(made["secret"])
        click.echo(f"Webhook {made['webhook_id']}. Keep its key: it is shown this once.", err=True)


@webhook.command("list")
@click.option("--tenant", help="Only webhooks of this tenant.")
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True)
@click.option("--cursor", type=click.UUID, help="Go on after the webhook with this id.")
@json_option
@configured("dsn")
def list_(
    config: Config, tenant: str | None, limit: int, cursor: UUID | None, as_json: bool
) -> None:
    """List webhooks, the newest first."""
    with database(config) as db:
        found = db.run(calls.list_webhooks(tenant, limit, cursor))
    if as_json:
        print_json(found)
        return
    rows = [
        (UUID(w["webhook_id"]), w["name"], w["url"], ", ".join(w["events"]), w["tenant_id"],
         w["task_type"], w["queue"], "on" if w["enabled"] else "off", when(w["created_at"]))
        for w in found
    ]  # fmt: skip
    columns = ("webhook", "name", "url", "events", "tenant", "type", "queue", "state", "made")
    console().print(table(None, columns, rows))


@webhook.command()
@click.argument("webhook_id", type=click.UUID)
@json_option
@configured("dsn")
def delete(config: Config, webhook_id: UUID, as_json: bool) -> None:
    """End a webhook; what waits for delivery is not sent any more."""
    with database(config) as db:
        gone = db.run(calls.delete_webhook(webhook_id))
    if as_json:
        print_json(gone)
    else:
        click.echo(f"Deleted {gone['webhook_id']} ({gone['name']}).")


@webhook.command()
@click.argument("webhook_id", type=click.UUID)
@json_option
@configured("dsn")
def enable(config: Config, webhook_id: UUID, as_json: bool) -> None:
    """Tell a webhook of events again."""
    _switch(config, webhook_id, True, as_json)


@webhook.command()
@click.argument("webhook_id", type=click.UUID)
@json_option
@configured("dsn")
def disable(config: Config, webhook_id: UUID, as_json: bool) -> None:
    """Tell a webhook nothing for now."""
    _switch(config, webhook_id, False, as_json)


def _switch(config: Config, webhook_id: UUID, enabled: bool, as_json: bool) -> None:
    with database(config) as db:
        changed = db.run(calls.enable_webhook(webhook_id, enabled))
    if as_json:
        print_json(changed)
    else:
        click.echo(f"{changed['webhook_id']} is {'on' if enabled else 'off'}.")


@webhook.command()
@click.argument("webhook_id", type=click.UUID)
@json_option
@configured("dsn")
def test(config: Config, webhook_id: UUID, as_json: bool) -> None:
    """Send a test event; `skiplane task show` tells what became of it."""
    with database(config) as db:
        task_id = db.run(calls.send_test(webhook_id))
    if as_json:
        print_json({"task_id": str(task_id)})
    else:
        click.echo(str(task_id))


@webhook.command()
@click.option("--tenant", default="default", show_default=True, help="Whose tasks.")
@json_option
@configured("dsn")
def secret(config: Config, tenant: str, as_json: bool) -> None:
    """Show the key of the signatures of what is sent to callback_url."""
    with database(config) as db:
        key = db.run(calls.callback_secret(tenant))
    if as_json:
        print_json({"tenant_id": tenant, "secret": key})
    else:
        click.echo(key)

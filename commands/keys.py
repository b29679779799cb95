"""skiplane keys"""

from datetime import UTC, datetime
from typing import Any

import rich_click as click

from ..config import Config
from ..schema import key_calls
from .database import database
from .options import configured
from .output import console, json_option, print_json, table, when
from .parameters import Instant

_ACTOR = click.option("--actor", help="Who does it; by default the database role.")


@click.group()
def keys() -> None:
    """Make, list and revoke API keys."""


@keys.command()
@click.argument("name")
@click.option(
    "--role",
    type=click.Choice(key_calls.ROLES),
    required=True,
    help="What it may do: each role may what those before it may.",
)
@click.option("--tenant", help="Bind it to this tenant: it sees and touches nothing else.")
@click.option("--expires-at", type=Instant(), help="It opens nothing from then on.")
@_ACTOR
@json_option
@configured("dsn")
def create(
    config: Config,
    name: str,
    role: str,
    tenant: str | None,
    expires_at: datetime | None,
    actor: str | None,
    as_json: bool,
) -> None:
    """Make a key and show it, this once: only its hash is stored."""
    drawn = key_calls.draw_key()
    with database(config) as db:
        made = db.run(key_calls.create_api_key(drawn, name, role, tenant, expires_at, actor))
    if as_json:
        print_json({**made, "key": drawn.key})
    else:
        click.echo(drawn.key)
        click.echo("Keep it: it is shown this once.", err=True)


@keys.command("list")
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True)
@click.option("--cursor", help="Go on after the key with this key_id.")
@click.option("--tenant", help="Only keys that are bound to this tenant.")
@json_option
@configured("dsn")
def list_(
    config: Config, limit: int, cursor: str | None, tenant: str | None, as_json: bool
) -> None:
    """List keys, the newest first."""
    with database(config) as db:
        found = db.run(key_calls.list_api_keys(tenant, limit, cursor))
    if as_json:
        print_json(found)
        return
    rows = [
        (k["key_id"], k["name"], k["role"], k["tenant_id"], when(k["created_at"]),
         when(k["last_used_at"]), _state(k))
        for k in found
    ]  # fmt: skip
    columns = ("key", "name", "role", "tenant", "made", "last used", "state")
    console().print(table(None, columns, rows))


@keys.command()
@click.argument("key_id")
@_ACTOR
@json_option
@configured("dsn")
def revoke(config: Config, key_id: str, actor: str | None, as_json: bool) -> None:
    """End a key for good; web processes heed it within two seconds."""
    with database(config) as db:
        ended = db.run(key_calls.revoke_api_key(key_id, actor))
    if as_json:
        print_json(ended)
    else:
        click.echo(f"Revoked {ended['key_id']} ({ended['name']}).")


def _state(key: dict[str, Any]) -> str:
    if key["revoked_at"]:
        return "revoked"
    expires = key["expires_at"]
    if expires is None:
        return "in force"
    over = datetime.fromisoformat(expires) <= datetime.now(UTC)
    return f"expired {when(expires)}" if over else f"until {when(expires)}"

"""skiplane cron sync"""

import os
import sys
from typing import Any

import rich_click as click

from ..config import Config
from ..schema import cron_steps, cron_sync_calls
from ..schema.schedule_records import ScheduleChange
from .database import database
from .options import configured
from .output import console, fail, json_option, print_json, short, table

_DID = {"create": "created", "edit": "edited", "adopt": "adopted", "delete": "deleted"}


@click.command()
@click.option(
    "--app", required=True, help="Where the schedules are declared: module or module:attribute."
)
@click.option("--owner", help="Whose the schedules are; by default module:attribute of the app.")
@click.option("--dry-run", is_flag=True, help="Change nothing; show what would change.")
@click.option("--adopt", is_flag=True, help="Take over schedules that somebody else has made.")
@click.option("--actor", help="Who does it; by default the database role.")
@json_option
@configured("dsn")
def sync(
    config: Config,
    app: str,
    owner: str | None,
    dry_run: bool,
    adopt: bool,
    actor: str | None,
    as_json: bool,
) -> None:
    """Make the stored schedules what an app declares with app.schedule.

    What is missing is created, what differs is edited, and what the same owner has
    stored but does not declare any more is deleted, all in one transaction. Other
    schedules stay as they are, and so does a pause.
    """
    declared, name = _declared(app)
    with database(config) as db:
        steps = cron_sync_calls.sync(
            owner or name, declared, dry_run=dry_run, adopt=adopt, actor=actor
        )
        changes = cron_steps.take(db.run, steps)
    if as_json:
        print_json([{**_row(change), "fields": change.fields} for change in changes])
        return
    _show(changes, dry_run)


def _declared(app: str) -> tuple[list[cron_sync_calls.Declared], str]:
    from ..worker.loading import AppNotFound, load_app

    sys.path.insert(0, os.getcwd())  # as for workers, which are started with it
    try:
        _, found, name = load_app(app)
    except AppNotFound as error:
        fail(str(error), 2)
    if found is None or not hasattr(found, "declared_schedules"):
        fail(f"{app!r} is no Skiplane app, so it declares no schedules.", 2)
    return found.declared_schedules(), name


def _row(change: ScheduleChange) -> dict[str, Any]:
    return {
        "change": change.change,
        "name": change.name,
        "tenant_id": change.tenant_id,
        "cron_id": None if change.cron_id is None else str(change.cron_id),
    }


def _show(changes: list[ScheduleChange], dry_run: bool) -> None:
    rows = [
        (
            one.change if dry_run else _DID[one.change],
            one.name,
            one.tenant_id,
            "\n".join(_fields(one)),
        )
        for one in changes
        if one.change != "none"
    ]
    same = len(changes) - len(rows)
    if rows:
        title = "Would change" if dry_run else "Changed"
        console().print(table(title, ("", "schedule", "tenant", "fields"), rows))
    click.echo(f"{len(rows)} {'to change' if dry_run else 'changed'}, {same} as declared.")


def _fields(change: ScheduleChange) -> list[str]:
    return [
        f"{name}: {short(one['from'])} -> {short(one['to'])}"
        for name, one in sorted(change.fields.items())
    ]

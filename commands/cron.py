"""skiplane cron"""

from datetime import datetime
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import rich_click as click

from ..config import Config
from ..schema import cron_calls, cron_steps
from ..schema.call import Call
from ..schema.cron_calls import Times
from ..schema.schedule_records import ScheduleRecord
from .cron_options import given_options, name_and_tenant, no_value, schedule_options
from .cron_show import show_fires, show_history, show_schedule, show_schedules
from .cron_sync import sync
from .database import Database, database
from .options import configured
from .output import console, fail, json_option, print_json, utc_text
from .parameters import Instant, JsonValue
from .waiting import show as show_task


@click.group()
def cron() -> None:
    """Make schedules; preview, pause, run or edit them.

    A schedule is named by its name, with --tenant where that is not the default
    one, or by its id.
    """


cron.add_command(sync)


@cron.command()
@click.argument("name")
@click.argument("expression")
@click.argument("task_type")
@click.argument("payload", type=JsonValue(), required=False)
@schedule_options
@click.option("--disabled", is_flag=True, help="Create it paused.")
@click.option("--actor", help="Who does it; by default the database role.")
@json_option
@configured("dsn")
def create(
    config: Config,
    name: str,
    expression: str,
    task_type: str,
    payload: Any,
    disabled: bool,
    actor: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Create a schedule.

    EXPRESSION is minute, hour, day of month, month, day of week; with a sixth
    field, seconds; or @hourly, @daily, @weekly, @monthly, @yearly.
    """
    given = {n: value for n, value in options.items() if value is not None}
    fields = {**given, "cron_expression": expression, "enabled": not disabled}
    with database(config) as db:
        steps = cron_steps.create(name, task_type, payload, fields, actor)
        show_schedule(db, cron_steps.take(db.run, steps).cron_id, as_json)


@cron.command("list")
@click.option(
    "--status",
    type=click.Choice(["ACTIVE", "PAUSED", "INVALID", "ENDED"], case_sensitive=False),
    help="Only in this state.",
)
@click.option("--type", "task_type", help="Only of this task type.")
@click.option("--tenant", help="Only this tenant.")
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True)
@click.option("--cursor", help="Go on after the page that ended with this cursor.")
@json_option
@configured("dsn")
def list_(config: Config, as_json: bool, **filters: Any) -> None:
    """List schedules, the newest first."""
    with database(config) as db:
        found = db.documents(cron_calls.list_cron_tasks(**filters))
    show_schedules(found, as_json)
    if len(found) == filters["limit"] and not as_json:
        click.echo(f"More with --cursor {found[-1]['cursor']}")


@cron.command()
@name_and_tenant
@json_option
@configured("dsn")
def show(config: Config, name: str, tenant: str | None, as_json: bool) -> None:
    """Show a schedule with its next fires and what was done to it."""
    with database(config) as db:
        show_schedule(db, find(db, name, tenant), as_json)


@cron.command()
@name_and_tenant
@click.option("--version", type=int, help="Version that you saw; by default that of this moment.")
@click.option("--expression", "cron_expression", help="New cron expression.")
@click.option("--type", "task_type", help="New task type.")
@click.option("--payload", type=JsonValue(), help="New payload: JSON text, @FILE or -.")
@schedule_options
@no_value
@click.option("--actor", help="Who does it; by default the database role.")
@json_option
@configured("dsn")
def edit(
    config: Config,
    name: str,
    tenant: str | None,
    version: int | None,
    without: tuple[str, ...],
    actor: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Change a schedule; what is not given stays. Nothing fires because of it.

    A new expression, zone, start or end counts from now on. Refused when somebody
    else changed the schedule since the version that you saw.
    """
    changes = {**given_options(options), **dict.fromkeys(without)}
    if not changes:
        fail("Nothing to change was given. Name at least one field, such as --expression.", 2)
    with database(config) as db:
        cron_id = find(db, name, tenant)
        if version is None:
            version = db.run(cron_calls.get_cron_task(cron_id)).version
        cron_steps.take(db.run, cron_steps.edit(cron_id, version, changes, actor))
        show_schedule(db, cron_id, as_json)


@cron.command()
@name_and_tenant
@click.option("--reason", help="Why, for the schedule's history.")
@click.option("--actor", help="Who does it; by default the database role.")
@json_option
@configured("dsn")
def pause(
    config: Config,
    name: str,
    tenant: str | None,
    reason: str | None,
    actor: str | None,
    as_json: bool,
) -> None:
    """Stop a schedule from firing; its tasks go on."""
    with database(config) as db:
        cron_id = find(db, name, tenant)
        db.run(cron_calls.pause_cron_task(cron_id, reason, actor))
        show_schedule(db, cron_id, as_json)


@cron.command()
@name_and_tenant
@click.option("--actor", help="Who does it; by default the database role.")
@json_option
@configured("dsn")
def resume(config: Config, name: str, tenant: str | None, actor: str | None, as_json: bool) -> None:
    """Let a schedule fire again, from now on."""
    with database(config) as db:
        cron_id = find(db, name, tenant)
        cron_steps.take(db.run, cron_steps.resume(cron_id, actor))
        show_schedule(db, cron_id, as_json)


@cron.command()
@name_and_tenant
@click.option("--actor", help="Who does it; by default the database role.")
@json_option
@configured("dsn")
def run(config: Config, name: str, tenant: str | None, actor: str | None, as_json: bool) -> None:
    """Submit a schedule's task now; its times stay as they are."""
    with database(config) as db:
        show_task(db.document(cron_calls.run_cron_task(find(db, name, tenant), actor)), as_json)


@cron.command()
@name_and_tenant
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--actor", help="Who does it; by default the database role.")
@json_option
@configured("dsn")
def delete(
    config: Config, name: str, tenant: str | None, yes: bool, actor: str | None, as_json: bool
) -> None:
    """Delete a schedule; tasks that it has started go on."""
    with database(config) as db:
        cron_id = find(db, name, tenant)
        if not yes:
            click.confirm(f"Delete the schedule {name}?", abort=True, err=True)
        document = db.document(cron_calls.delete_cron_task(cron_id, actor))
    if as_json:
        print_json(document)
    else:
        click.echo(f"Deleted {document['name']} ({document['cron_id']}).")


@cron.command()
@click.argument("name", required=False)
@click.option("--tenant", help="Tenant of the schedule, when it is named by name.")
@click.option("--expression", help="Of this expression instead of a schedule's.")
@click.option("--timezone", help="Zone of --expression.")
@click.option("--count", type=click.IntRange(1, 1000), default=10, show_default=True)
@click.option("--after", type=Instant(), help="From this time on instead of now.")
@json_option
@configured("dsn")
def preview(
    config: Config,
    name: str | None,
    tenant: str | None,
    expression: str | None,
    timezone: str | None,
    count: int,
    after: datetime | None,
    as_json: bool,
) -> None:
    """Show the next fire times, in the schedule's zone and in UTC."""
    if (name is None) == (expression is None):
        fail("Name a schedule, or give an --expression.", 2)
    with database(config) as db:
        if expression is not None:
            times = Times(expression, timezone or "UTC")
        else:
            record: ScheduleRecord = db.run(cron_calls.get_cron_task(find(db, str(name), tenant)))
            times = cron_calls.times_of({}, record)
        found = cron_steps.take(db.run, cron_steps.preview_times(times, count, after))
    if as_json:
        print_json([utc_text(moment) for moment in found])
    else:
        console().print(show_fires(found, ZoneInfo(times.timezone)))


@cron.command()
@name_and_tenant
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True)
@click.option("--before", type=Instant(), help="Only fire times before this.")
@json_option
@configured("dsn")
def history(
    config: Config,
    name: str,
    tenant: str | None,
    limit: int,
    before: datetime | None,
    as_json: bool,
) -> None:
    """Show what a schedule did, the latest first."""
    with database(config) as db:
        call = cron_calls.list_fires(find(db, name, tenant), before=before, limit=limit)
        found = db.documents(call)
    show_history(found, as_json)


def find(db: Database, name: str, tenant: str | None) -> UUID:
    """Give the id of a schedule that was named by its name or by its id."""
    try:
        return UUID(name)
    except ValueError:
        call: Call[UUID] = cron_calls.find_cron_task(name, tenant)
        return db.run(call)

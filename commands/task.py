"""skiplane task"""

from datetime import datetime
from typing import Any
from uuid import UUID

import rich_click as click
from click import get_current_context
from click.core import ParameterSource

from ..config import Config
from ..schema import flow_calls, task_calls
from ..schema.call import Call
from ..schema.records import Status
from .database import database
from .options import configured
from .output import console, fail, json_option, print_json, table, when
from .parameters import Instant, JsonValue, Span, actor_options, filter_options, task_options
from .waiting import show as show_task
from .waiting import wait_and_show

TASK_ID = click.UUID


@click.group()
def task() -> None:
    """Look at tasks; cancel, edit or retry them."""


@task.command()
@click.argument("task_id", type=TASK_ID)
@json_option
@configured("dsn")
def show(config: Config, task_id: UUID, as_json: bool) -> None:
    """Show a task with its attempts and history."""
    with database(config) as db:
        show_task(db.document(task_calls.get_task(task_id)), as_json)


@task.command()
@click.argument("task_id", type=TASK_ID)
@json_option
@configured("dsn")
def why(config: Config, task_id: UUID, as_json: bool) -> None:
    """Say why a task has not started, and what would start it."""
    with database(config) as db:
        told = db.document(flow_calls.explain_waiting(task_id))
    if as_json:
        print_json(told)
        return
    click.echo(f"{told['status']}. {told['summary']}")


@task.command("list")
@click.option(
    "--status",
    multiple=True,
    type=click.Choice([str(status) for status in Status], case_sensitive=False),
    help="Only in this state; may be given several times.",
)
@filter_options
@click.option("--after", "created_after", type=Instant(), help="Only created after this time.")
@click.option("--before", "created_before", type=Instant(), help="Only created before this time.")
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True)
@click.option("--cursor", help="Go on after the page that ended with this cursor.")
@json_option
@configured("dsn")
def list_(config: Config, status: tuple[str, ...], as_json: bool, **filters: Any) -> None:
    """List tasks, the newest first."""
    with database(config) as db:
        found = db.documents(task_calls.list_tasks(status=status or None, **filters))
    if as_json:
        print_json(found)
        return
    rows = [
        (t["task_id"], t["task_type"], t["queue"], t["status"], t.get("attempt"),
         when(t.get("created_at")), _soonest(t), t.get("error_message"))
        for t in found
    ]  # fmt: skip
    columns = ("task", "type", "queue", "status", "attempt", "created", "next or ended", "error")
    console().print(table(None, columns, rows))
    if len(found) == filters["limit"]:
        click.echo(f"More with --cursor {found[-1]['cursor']}")


@task.command()
@click.argument("task_ids", type=TASK_ID, nargs=-1, required=True, metavar="TASK_ID...")
@actor_options
@json_option
@configured("dsn")
def cancel(config: Config, task_ids: tuple[UUID, ...], as_json: bool, **why: Any) -> None:
    """Cancel tasks; a running one is stopped."""
    _each(config, [task_calls.cancel_task(task_id, **why) for task_id in task_ids], as_json)


@task.command()
@click.argument("task_ids", type=TASK_ID, nargs=-1, required=True, metavar="TASK_ID...")
@actor_options
@json_option
@configured("dsn")
def retry(config: Config, task_ids: tuple[UUID, ...], as_json: bool, **why: Any) -> None:
    """Run FAILED, DEAD or CANCELLED tasks again, with a fresh budget of attempts."""
    _each(config, [task_calls.retry_task(task_id, **why) for task_id in task_ids], as_json)


@task.command()
@click.argument("task_id", type=TASK_ID)
@click.option("--version", type=int, help="Version that you saw; by default that of this moment.")
@click.option("--payload", type=JsonValue(), help="New payload: JSON text, @FILE or -.")
@task_options
@click.option("--actor", help="Who does it; by default the database role.")
@json_option
@configured("dsn")
def edit(
    config: Config,
    task_id: UUID,
    version: int | None,
    actor: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Change a task that has not started; what is not given stays.

    Refused when somebody else edited the task since the version that you saw.
    """
    given = {name: value for name, value in options.items() if _was_given(name)}
    if not given:
        fail("Nothing to change was given. Name at least one field, such as --priority high.", 2)
    with database(config) as db:
        if version is None:
            version = db.run(task_calls.get_task(task_id)).version
        show_task(db.document(task_calls.edit_task(task_id, version, given, actor)), as_json)


@task.command()
@click.argument("task_id", type=TASK_ID)
@click.argument("seconds", type=Span(), required=False)
@json_option
@configured("dsn")
def wait(config: Config, task_id: UUID, seconds: float | None, as_json: bool) -> None:
    """Wait for a task's end and print it; exit code 0 only when it SUCCEEDED."""
    with database(config) as db:
        wait_and_show(db, task_id, seconds, as_json)


def _each(config: Config, calls: list[Call[Any]], as_json: bool) -> None:
    with database(config) as db:
        done = [db.document(call) for call in calls]
    if as_json:
        print_json(done if len(done) > 1 else done[0])
        return
    rows = [(t["task_id"], t["task_type"], t["status"], _soonest(t)) for t in done]
    console().print(table(None, ("task", "type", "status", "next or ended"), rows))


def _was_given(name: str) -> bool:
    # None is what an absent option has, and JSON null is a payload like any other.
    source = get_current_context().get_parameter_source(name)
    return source is ParameterSource.COMMANDLINE


def _soonest(document: dict[str, Any]) -> str | None:
    names = ("completed_at", "next_attempt_at", "scheduled_at")
    moment: str | datetime | None = next((document[n] for n in names if document.get(n)), None)
    return when(moment)

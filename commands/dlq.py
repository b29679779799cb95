"""skiplane dlq"""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import rich_click as click
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress

from ..config import Config
from ..schema import task_calls, watch_calls
from .database import Database, database
from .options import configured
from .output import console, fail, json_option, print_json, short, table, when
from .parameters import actor_options, filter_options
from .waiting import show as show_task

PAGE = 500

yes_option = click.option("--yes", is_flag=True, help="Do not ask.")


@click.group()
def dlq() -> None:
    """Look at dead tasks; retry or discard them."""


@dlq.command("list")
@filter_options
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True)
@click.option("--cursor", help="Go on after the page that ended with this cursor.")
@json_option
@configured("dsn")
def list_(config: Config, as_json: bool, **filters: Any) -> None:
    """List dead tasks, the newest first."""
    with database(config) as db:
        found = db.documents(task_calls.list_dead_letters(**filters))
    if as_json:
        print_json(found)
        return
    rows = [
        (d["task_id"], d["task_type"], d["queue"], when(d.get("died_at")), d.get("error_type"),
         short(d.get("error_message") or "", 100))
        for d in found
    ]  # fmt: skip
    console().print(table(None, ("task", "type", "queue", "died", "error", "message"), rows))
    if len(found) == filters["limit"]:
        click.echo(f"More with --cursor {found[-1]['cursor']}")


@dlq.command()
@click.argument("task_id", type=click.UUID)
@json_option
@configured("dsn")
def show(config: Config, task_id: UUID, as_json: bool) -> None:
    """Show a dead task with every attempt's error."""
    with database(config) as db:
        document = db.document(task_calls.get_task(task_id))
    if document["status"] != "DEAD":
        fail(f"Task {task_id} is {document['status']} and not in the dead letter queue.")
    show_task(document, as_json)


@dlq.command()
@click.argument("task_ids", type=click.UUID, nargs=-1, required=True, metavar="TASK_ID...")
@actor_options
@json_option
@configured("dsn")
def retry(config: Config, task_ids: tuple[UUID, ...], as_json: bool, **why: Any) -> None:
    """Run these dead tasks again, with a fresh budget of attempts."""
    with database(config) as db:
        for task_id in task_ids:
            db.run(task_calls.retry_dead_letter(task_id, **why))
    _report("retried", len(task_ids), as_json)


@dlq.command("retry-all")
@filter_options
@click.option("--actor", help="Who does it; by default the database role.")
@yes_option
@json_option
@configured("dsn")
def retry_all(
    config: Config, yes: bool, as_json: bool, actor: str | None, **filters: str | None
) -> None:
    """Run all dead tasks again, or those of a filter."""
    with database(config) as db:
        count = _agreed(db, "Retry", filters, yes)
        # A task that dies again meanwhile is not retried for ever.
        done = _with_progress("Retrying", count, _retry_pages(db, count, actor, filters))
    _report("retried", done, as_json)


@dlq.command()
@click.argument("task_ids", type=click.UUID, nargs=-1, metavar="[TASK_ID...]")
@click.option("--all", "everything", is_flag=True, help="All, or all of the filter.")
@filter_options
@actor_options
@yes_option
@json_option
@configured("dsn")
def discard(
    config: Config,
    task_ids: tuple[UUID, ...],
    everything: bool,
    yes: bool,
    as_json: bool,
    reason: str | None,
    actor: str | None,
    **filters: str | None,
) -> None:
    """Take dead tasks out of the queue for good; their history stays."""
    if bool(task_ids) == everything:
        fail("Name the tasks to discard, or give --all, alone or with a filter.", 2)
    with database(config) as db:
        count = _agreed(db, "Discard", filters, yes) if everything else len(task_ids)
        ids = _ids(db, count, filters) if everything else iter(task_ids)
        done = _with_progress("Discarding", count, _discard_each(db, ids, reason, actor))
    _report("discarded", done, as_json)


def _agreed(db: Database, verb: str, filters: dict[str, str | None], yes: bool) -> int:
    """Give how many dead tasks there are, once the user has agreed to it."""
    count = db.run(watch_calls.count_dead_letters(**filters))
    if count and not yes:
        click.confirm(f"{verb} {count} dead {_tasks(count)}?", abort=True, err=True)
    return count


def _retry_pages(
    db: Database, count: int, actor: str | None, filters: dict[str, Any]
) -> Iterator[int]:
    total = 0
    while total < count:
        done = db.run(task_calls.retry_dead_letters(**filters, actor=actor))
        if not done:
            return
        total += done
        yield done


def _ids(db: Database, count: int, filters: dict[str, Any]) -> Iterator[UUID]:
    cursor: str | None = None
    while count > 0:
        call = task_calls.list_dead_letters(**filters, limit=min(PAGE, count), cursor=cursor)
        page = db.run(call)
        yield from (letter.task_id for letter in page)
        if not page:
            return
        count -= len(page)
        cursor = page[-1].cursor


def _discard_each(
    db: Database, ids: Iterator[UUID], reason: str | None, actor: str | None
) -> Iterator[int]:
    for task_id in ids:
        db.run(task_calls.discard_dead_letter(task_id, reason, actor))
        yield 1


def _with_progress(title: str, count: int, steps: Iterator[int]) -> int:
    done = 0
    columns = (*Progress.get_default_columns(), MofNCompleteColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=count)
        for step in steps:
            done += step
            bar.update(task, completed=done)
    return done


def _report(verb: str, count: int, as_json: bool) -> None:
    if as_json:
        print_json({verb: count})
    else:
        click.echo(f"{verb.capitalize()} {count} {_tasks(count)}.")


def _tasks(count: int) -> str:
    return "task" if count == 1 else "tasks"

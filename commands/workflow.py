"""skiplane workflow"""

import sys
from typing import Any
from uuid import UUID

import rich_click as click

from ..config import Config
from ..schema import workflow_calls as calls
from ..schema.call import Call
from ..schema.workflow_records import WorkflowGraph, WorkflowRecord, WorkflowStatus
from .database import Database, database
from .options import configured
from .output import console, fail, json_option, print_json, table, when
from .parameters import Instant, JsonValue, Span, actor_options
from .waiting import poll
from .workflow_file import read_workflow
from .workflow_picture import picture

WORKFLOW_ID = click.UUID


@click.group()
def workflow() -> None:
    """Submit workflows, look at them; cancel or retry them."""


@workflow.command()
@click.argument("file")
@click.option("--name", help="Name of the workflow; by default the file's workflow_name.")
@click.option("--idempotency-key", help="A second submission with this key adds nothing.")
@click.option("--tenant", help="Tenant that it belongs to.")
@json_option
@configured("dsn")
def submit(config: Config, file: str, as_json: bool, **given: str | None) -> None:
    """Submit the workflow in FILE.

    FILE is JSON, or - for standard input: {"workflow_name": ..., "tasks": [...]},
    or the list of tasks alone, with --name. A task has a name, a task_type, and
    any of payload, dependencies (names of tasks), trigger (all_success, all_done,
    any_failed) and the options of `skiplane submit`, written like max_retries.
    """
    written = JsonValue().convert(file if file == "-" else f"@{file}", None, None)
    with database(config) as db:
        name, tasks, options = read_workflow(written, given)
        document = db.document(calls.submit_workflow(name, tasks, options))
    if as_json:
        print_json(document)
        return
    click.echo(f"Workflow {document['workflow_id']}")
    rows = [(t["name"], t["task_id"], t["status"]) for t in document.get("tasks", [])[:50]]
    console().print(table(None, ("name", "task", "status"), rows))
    if len(document.get("tasks", [])) > len(rows):
        click.echo(f"and {len(document['tasks']) - len(rows)} more")
    if document["duplicate"]:
        click.echo("An earlier submission with this idempotency key made this workflow.")


@workflow.command()
@click.argument("workflow_id", type=WORKFLOW_ID)
@click.option("--all", "everything", is_flag=True, help="Each task on a line of its own.")
@json_option
@configured("dsn")
def show(config: Config, workflow_id: UUID, everything: bool, as_json: bool) -> None:
    """Draw a workflow: what waits for what, and how far it is.

    Tasks stand in layers, each below all that it waits for. Where many of a layer
    are alike they share a line, unless --all is given.
    """
    with database(config) as db:
        _show(db, workflow_id, everything, as_json)


@workflow.command("list")
@click.option(
    "--status",
    multiple=True,
    type=click.Choice([str(status) for status in WorkflowStatus], case_sensitive=False),
    help="Only in this state; may be given several times.",
)
@click.option("--name", help="Only with this name.")
@click.option("--tenant", help="Only this tenant.")
@click.option("--after", "created_after", type=Instant(), help="Only created after this time.")
@click.option("--before", "created_before", type=Instant(), help="Only created before this time.")
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True)
@click.option("--cursor", help="Go on after the page that ended with this cursor.")
@json_option
@configured("dsn")
def list_(config: Config, status: tuple[str, ...], as_json: bool, **filters: Any) -> None:
    """List workflows, the newest first."""
    with database(config) as db:
        found = db.documents(calls.list_workflows(status=status or None, **filters))
    if as_json:
        print_json(found)
        return
    rows = [
        (w["workflow_id"], w["workflow_name"], w["status"],
         f"{w['task_count'] - w['pending']} of {w['task_count']}",
         when(w["created_at"]), when(w.get("completed_at")))
        for w in found
    ]  # fmt: skip
    columns = ("workflow", "name", "status", "tasks done", "created", "completed")
    console().print(table(None, columns, rows))
    if len(found) == filters["limit"]:
        click.echo(f"More with --cursor {found[-1]['cursor']}")


@workflow.command()
@click.argument("workflow_ids", type=WORKFLOW_ID, nargs=-1, required=True, metavar="WORKFLOW_ID...")
@actor_options
@json_option
@configured("dsn")
def cancel(config: Config, workflow_ids: tuple[UUID, ...], as_json: bool, **why: Any) -> None:
    """Cancel all tasks of workflows that have not ended; running ones are stopped."""
    _each(config, [calls.cancel_workflow(one, **why) for one in workflow_ids], as_json)


@workflow.command()
@click.argument("workflow_ids", type=WORKFLOW_ID, nargs=-1, required=True, metavar="WORKFLOW_ID...")
@actor_options
@json_option
@configured("dsn")
def retry(config: Config, workflow_ids: tuple[UUID, ...], as_json: bool, **why: Any) -> None:
    """Run again what failed in workflows, and what did not run because of it."""
    _each(config, [calls.retry_workflow(one, **why) for one in workflow_ids], as_json)


@workflow.command()
@click.argument("workflow_id", type=WORKFLOW_ID)
@click.argument("seconds", type=Span(), required=False)
@json_option
@configured("dsn")
def wait(config: Config, workflow_id: UUID, seconds: float | None, as_json: bool) -> None:
    """Wait for a workflow's end and draw it; exit code 0 only when it SUCCEEDED."""
    with database(config) as db:
        look = calls.workflow_status(workflow_id)
        poll(workflow_id, seconds, lambda: db.run(look).final)
        status = db.run(look)
        _show(db, workflow_id, False, as_json)
    if not status.final:
        fail(f"Workflow {workflow_id} is still {status} after {seconds:g} s.")
    sys.exit(0 if status is WorkflowStatus.SUCCEEDED else 1)


def _show(db: Database, workflow_id: UUID, everything: bool, as_json: bool) -> None:
    call = calls.workflow_graph(workflow_id)
    if as_json:
        print_json(db.document(call))
        return
    graph: WorkflowGraph = db.run(call)
    out = console()
    for line in picture(graph, out.width if sys.stdout.isatty() else 100, everything):
        out.print(line, soft_wrap=True)


def _each(config: Config, wanted: list[Call[WorkflowRecord]], as_json: bool) -> None:
    with database(config) as db:
        done = [db.document(call) for call in wanted]
    if as_json:
        print_json(done if len(done) > 1 else done[0])
        return
    rows = [
        (w["workflow_id"], w["workflow_name"], w["status"],
         ", ".join(f"{count} {state}" for state, count in sorted(w["tasks"].items())))
        for w in done
    ]  # fmt: skip
    console().print(table(None, ("workflow", "name", "status", "tasks"), rows))

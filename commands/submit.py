"""skiplane submit"""

from typing import Any

import rich_click as click

from ..config import Config
from ..schema.encode import encode_json
from ..schema.options import read_options
from ..schema.producer import submit_task
from ..schema.records import Submitted
from .database import database
from .options import configured
from .output import console, json_option, print_json, table, utc_text, when
from .parameters import JsonValue, Span, task_options
from .waiting import wait_and_show

FOR_EVER = "for-ever"


class WaitSpan(Span):
    """The value of --wait, which may be left out."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Give seconds, or FOR_EVER."""
        return value if value == FOR_EVER else super().convert(value, param, ctx)


@click.command()
@click.argument("task_type", metavar="TYPE")
@click.argument("payload", type=JsonValue(), default="{}", required=False)
@task_options
@click.option("--idempotency-key", help="A second submission with this key adds nothing.")
@click.option("--tenant", help="Tenant that it belongs to.")
@click.option(
    "--wait",
    is_flag=False,
    flag_value=FOR_EVER,
    type=WaitSpan(),
    metavar="[SECONDS]",
    help="Wait for its end and print the finished task.",
)
@json_option
@configured("dsn")
def submit(
    config: Config,
    task_type: str,
    payload: Any,
    wait: float | str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Submit a task.

    TYPE is the name of the task type. PAYLOAD is JSON text, @FILE, or - for
    standard input: an object holds the function's arguments by name, anything
    else is its one argument. Options that are not given have the engine's
    defaults.

    With --wait the exit code is 0 only when the task SUCCEEDED.
    """
    with database(config) as db:
        done = db.run(submit_task(task_type, encode_json(payload), read_options(_given(options))))
        if wait is not None:
            seconds = wait if isinstance(wait, float) else None
            wait_and_show(db, done.task_id, seconds, as_json)
    _show(done, as_json)


def _given(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _show(done: Submitted, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "task_id": str(done.task_id),
                "status": str(done.status),
                "scheduled_at": utc_text(done.scheduled_at),
                "created_at": utc_text(done.created_at),
                "duplicate": done.duplicate,
            }
        )
        return
    row = (done.task_id, str(done.status), when(done.scheduled_at), when(done.created_at))
    console().print(table(None, ("task", "status", "scheduled", "created"), [row]))
    if done.duplicate:
        click.echo("An earlier submission with this idempotency key made this task.")

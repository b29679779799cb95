"""Options that the commands for schedules share."""

from collections.abc import Callable
from typing import Any

import rich_click as click
from click import get_current_context
from click.core import ParameterSource

from .parameters import Instant, Span, task_options

Command = Callable[..., Any]
# Fields of a submission that make no sense for what fires again and again.
_NOT_FOR_SCHEDULES = ("scheduled_at", "delay_seconds", "expires_at")


def name_and_tenant(command: Command) -> Command:
    """Add NAME and --tenant."""
    command = click.option("--tenant", help="Tenant of the schedule, when it is named by name.")(
        command
    )
    return click.argument("name")(command)


def schedule_options(command: Command) -> Command:
    """Add an option for each field of a schedule and of its task."""
    command = task_options(command)
    parameters: list[click.Parameter] = command.__click_params__  # type: ignore[attr-defined]
    parameters[:] = [p for p in parameters if p.name not in _NOT_FOR_SCHEDULES]
    for names, kind, says in reversed(
        (
            (("--timezone", "--zone"), str, "IANA zone of the expression, UTC by default."),
            (("--overlap-policy", "--overlap"), str, "skip, queue or cancel_running."),
            (("--missed-policy", "--missed"), str, "skip, once or all."),
            (("--missed-limit",), int, "How many missed fires run at most under all."),
            (("--jitter-seconds", "--jitter"), Span(), "Longest random delay of each task."),
            (("--start-at",), Instant(), "No fire before this time."),
            (("--end-at",), Instant(), "No fire after this time."),
        )
    ):
        name = names[0].removeprefix("--").replace("-", "_")
        command = click.option(*names, name, type=kind, help=says)(command)
    return command


def no_value(command: Command) -> Command:
    """Add --without, passed on as names of fields."""
    return click.option(
        "--without",
        multiple=True,
        metavar="FIELD",
        callback=lambda _ctx, _param, names: tuple(name.replace("-", "_") for name in names),
        help="Take this field back to its default, such as end-at; may be given several times.",
    )(command)


def given_options(options: dict[str, Any]) -> dict[str, Any]:
    """Give those that stand on the command line."""
    context = get_current_context()
    return {
        name: value
        for name, value in options.items()
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE
    }

"""The command line: it parses, calls and prints, and decides nothing."""

import importlib
from typing import Any

import rich_click as click

from . import __version__
from .config import ConfigError

# Name on the command line: (module and attribute below skiplane.commands, the
# line that `skiplane --help` shows). The line stands here so that neither help
# nor completion imports a command and what it needs.
COMMANDS = {
    "up": ("up:up", "Run everything here, on an embedded PostgreSQL."),
    "worker": ("worker:worker", "Claim tasks and run them."),
    "scheduler": ("scheduler:scheduler", "Release what is due, recover what is lost."),
    "web": ("web:web", "Serve the REST API and the dashboard (/ui)."),
    "migrate": ("migrate:migrate", "Bring the database to this version."),
    "doctor": ("doctor:doctor", "Check the database and say what is wrong."),
    "submit": ("submit:submit", "Submit a task."),
    "task": ("task:task", "Look at tasks; cancel, edit or retry them."),
    "cron": ("cron:cron", "Make schedules; preview, pause, run or edit them."),
    "workflow": ("workflow:workflow", "Submit workflows, look at them; cancel or retry them."),
    "dlq": ("dlq:dlq", "Look at dead tasks; retry or discard them."),
    "failures": (
        "failures:failures",
        "Tell which types fail, how often, with what errors, since when.",
    ),
    "keys": ("keys:keys", "Make, list and revoke API keys."),
    "queue": ("queue:queue", "Look at queues; limit, pause and resume them."),
    "task-type": (
        "task_type:task_type",
        "Limit, pause and resume task types; open and close breakers.",
    ),
    "tenant": ("tenant:tenant", "Weigh, limit, pause and resume tenants."),
    "webhook": ("webhook:webhook", "Tell a URL of ends of tasks and workflows, and of alerts."),
    "top": ("top:top", "Watch queues and workers live."),
    "bench": ("bench:bench", "Measure what this database can do."),
}


class BadSettings(click.ClickException):
    """Settings that the caller must correct, told like a wrong option."""

    exit_code = 2


class LazyGroup(click.RichGroup):
    """A group that imports a command when it is run, not when it is listed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Give the names in the order of COMMANDS: daily use first."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Give a stand-in with the command's name and help line."""
        if cmd_name not in COMMANDS:
            return None
        return click.RichCommand(name=cmd_name, help=COMMANDS[cmd_name][1])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Give the real command for running it and for completing its options."""
        name, stand_in, rest = super().resolve_command(ctx, args)
        return name, stand_in and load_command(str(name)), rest

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; bad settings end it with a message, not a traceback."""
        try:
            return super().invoke(ctx)
        except ConfigError as error:
            raise BadSettings(str(error)) from error


def load_command(name: str) -> click.Command:
    """Import the command of that name; KeyError when there is none."""
    module, attribute = COMMANDS[name][0].split(":")
    command: click.Command = getattr(
        importlib.import_module(f".commands.{module}", __package__), attribute
    )
    return command


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="skiplane")
def main() -> None:
    """Skiplane: a distributed task scheduler that lives in PostgreSQL."""

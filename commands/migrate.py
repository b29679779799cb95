"""skiplane migrate"""

import sys

import rich_click as click

from ..config import Config
from .options import configured
from .output import fail, find_dsn, json_option, print_json
from .parameters import Span

# What PostgreSQL takes for a lock_timeout; 0 would be no limit at all.
_LONGEST_SECONDS = 2_147_483.0


def _milliseconds(_context: click.Context, _option: click.Parameter, value: float) -> str:
    if not 0.001 <= value <= _LONGEST_SECONDS:
        raise click.BadParameter("it must be from 1ms to 24d.")
    return f"{value * 1000:.0f}ms"


@click.command()
@configured("dsn")
@click.option(
    "--shards",
    type=click.IntRange(min=1),
    help="Number of shards; can be raised later, never lowered. Default: as it is, 1 at first.",
)
@click.option(
    "--lock-timeout",
    type=Span(),
    callback=_milliseconds,
    default="5s",
    show_default=True,
    metavar="TIME",
    help="Longest wait for one lock, and so the longest that others wait behind the migration.",
)
@click.option("--check", "only_check", is_flag=True, help="Change nothing; say what would change.")
@json_option
def migrate(
    config: Config, shards: int | None, lock_timeout: str, only_check: bool, as_json: bool
) -> None:
    """Bring the database to this version.

    All or nothing, in one transaction; a second one waits for the first. The
    role must own schema skiplane, or may make it; it need not be a superuser.
    Exit code 2 for bad input, 1 when it could not be done, and for --check when something would
    change.
    """
    # Alembic takes longer to import than the rest of the command line.
    from ..schema import migrate as schema

    dsn = find_dsn(config)
    try:
        if only_check:
            found = schema.check(dsn)
        else:
            found = schema.migrate(
                dsn, shards, lock_timeout, report=lambda line: click.echo(line, err=True)
            )
    except schema.MigrationError as error:
        fail(str(error))
    if as_json:
        print_json({"pending" if only_check else "done": found})
    elif only_check:
        click.echo("\n".join(found) or "up to date")
    elif not found:
        click.echo("up to date", err=True)
    if only_check and found:
        sys.exit(1)

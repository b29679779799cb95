"""Which version the tables have, and which releases can serve it."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

from psycopg.types.json import Jsonb

from ... import __version__
from .errors import SchemaMissing, SchemaTooNew
from .files import exists
from .session import Connection, one

if TYPE_CHECKING:
    from alembic.config import Config

FOLDER = Path(__file__).parent.parent.parent / "migrations"

# The oldest release whose processes work with this schema. Raised only when
# something that it uses was taken away: rolling upgrades rest on it.
OLDEST_CODE = "0.1.0.dev0"


def ordered(release: str) -> tuple[list[int], int, int]:
    """Give a release number (PEP 440, no epoch) in a form that sorts: dev < a < b < rc < final."""
    match = re.match(r"(\d+(?:\.\d+)*)(?:\.?(dev|a|b|rc)(\d*))?", release)
    if match is None:
        raise ValueError(f"{release!r} is no release number")
    numbers = [int(part) for part in match[1].split(".")]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    stage = ["dev", "a", "b", "rc", None].index(match[2])
    return numbers, stage, int(match[3] or 0)


def head(folder: Path = FOLDER) -> str:
    """Give the newest version that this release knows, from its files' names."""
    return max(path.name[:4] for path in (folder / "versions").glob("[0-9]*_*.py"))


def current(connection: Connection) -> str | None:
    """Give the version of the tables, None when they are not installed."""
    if not exists(connection, "skiplane.schema_version"):
        return None
    return one(connection, "select version_num from skiplane.schema_version")  # type: ignore[no-any-return]


def alembic_config(folder: Path) -> "Config":
    """Give Alembic's configuration for that environment; there is no alembic.ini."""
    from alembic.config import Config

    config = Config()
    # The parser behind it reads % as the start of a reference.
    config.set_main_option("script_location", str(folder).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config


def pending(folder: Path, current: str | None) -> list[str]:
    """Give the versions to apply, oldest first, each with its name.

    Raises:
        SchemaTooNew: The database has a version that this release does not know.
    """
    from alembic.script import ScriptDirectory

    script = ScriptDirectory.from_config(alembic_config(folder))
    known = [revision.revision for revision in script.walk_revisions()]
    if current is not None and current not in known:
        raise SchemaTooNew(
            f"This database is at schema version {current}, which Skiplane {__version__} does not "
            "know: use the newer release that migrated it."
        )
    newer = known[: known.index(current)] if current else known
    return [
        f"version {name} {script.get_revision(name).doc}"  # the first line of its docstring
        for name in reversed(newer)
    ]


def refuse_newer(connection: Connection) -> None:
    """Refuse a database that a newer release has migrated.

    Raises:
        SchemaTooNew: It was.
    """
    if not exists(connection, "skiplane.setting"):
        return
    code = one(connection, "select value #>> '{}' from skiplane.setting where name = 'code'")
    if code and ordered(code) > ordered(__version__):
        raise SchemaTooNew(
            f"Skiplane {code} has migrated this database, and this is Skiplane {__version__}: "
            "use the newer release to migrate it."
        )


def record_release(connection: Connection) -> None:
    """Write down that this release changed the schema last, and who can serve it."""
    for name, value in (("code", __version__), ("oldest_code", OLDEST_CODE)):
        connection.execute(
            "insert into skiplane.setting (name, value) values (%s, %s)"
            " on conflict (name) do update set value = excluded.value",
            [name, Jsonb(value)],
        )


def ensure_served(connection: Connection) -> None:
    """Check at the start of a process that this release can work with the database.

    It reads one function, so a role that may only call functions can do it. A
    database that was migrated ahead is fine as long as it kept what we use.

    Raises:
        SchemaMissing: The schema is not installed, or older than we need.
        SchemaTooNew: We are too old for it.
    """
    known = one(connection, "select to_regprocedure('skiplane.schema_info()') is not null")
    info = one(connection, "select skiplane.schema_info()") if known else None
    if not info or not info.get("version"):
        raise SchemaMissing("This database has no Skiplane schema yet: run skiplane migrate.")
    if ordered(info["oldest_code"]) > ordered(__version__):
        raise SchemaTooNew(
            f"This database needs Skiplane {info['oldest_code']} or newer, and this is Skiplane "
            f"{__version__}: install the newer release on this host."
        )
    if info["version"] < head():
        raise SchemaMissing(
            f"This database is at schema version {info['version']}, and Skiplane {__version__} "
            f"needs {head()}: run skiplane migrate."
        )

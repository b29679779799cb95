"""One installation or upgrade inside one transaction."""

from collections.abc import Callable
from pathlib import Path

import psycopg

from . import files, roles, shards, versions, views
from .errors import MigrationError
from .files import Applied, SqlFile, changed, read_files, tampered
from .session import Connection, one

COMMENT_ON_VERSION = "comment on table skiplane.schema_version is 'Version of the tables.'"
COMMENT_ON_NUMBER = (
    "comment on column skiplane.schema_version.version_num is 'Number of the last migration.'"
)


class Installation:
    """What a migration does around the Alembic versions, and a record of it.

    Args:
        connection: In the migration's transaction, alone in migrating.
        root: Folder with tables, functions, views and grants.
        migrations: Folder with the Alembic environment.
        count: Number of shards that was asked for, None to leave it.
        report: Told each thing that was done, and warnings.
    """

    def __init__(
        self,
        connection: Connection,
        root: Path,
        migrations: Path,
        count: int | None,
        report: Callable[[str], None],
    ) -> None:
        self.done: list[str] = []
        self.root = root
        self.connection = connection
        self._migrations = migrations
        self._count = count
        self._report = report
        self._fresh = False

    def did(self, what: str) -> None:
        """Note one thing that was done."""
        self.done.append(what)
        self._report(what)

    def version_applied(self, version: str, name: str) -> None:
        """Note that a version was applied; env.py calls it."""
        self._fresh = self._fresh or version == "0001"
        self.did(f"version {version} {name}")

    def before_versions(self) -> None:
        """Make the schema, the group roles and the migrator's own table.

        Raises:
            SchemaTooNew: A newer release was here.
            MigrationError: The schema belongs to somebody else.
        """
        owner = self._owner()
        # With our own rights: the owner may be unable to make roles.
        for role in roles.make_roles(self.connection):
            self.did(f"created role {role}")
        if owner is None:
            self._make_schema()
        else:
            # All has one owner, whoever migrates.
            self.connection.execute(f"set local role {owner}".encode())
        versions.refuse_newer(self.connection)
        # Refuses a version that it does not know, which Alembic would only stumble over.
        versions.pending(self._migrations, versions.current(self.connection))
        if not files.exists(self.connection, "skiplane.applied_file"):
            self._refuse_foreign_tables()
            self.connection.execute(files.BOOTSTRAP)

    def _owner(self) -> str | None:
        """Give the schema's owner, quoted, None when there is no schema."""
        row = self.connection.execute(
            "select nspowner::regrole::text, pg_has_role(nspowner, 'member')"
            " from pg_namespace where nspname = 'skiplane'"
        ).fetchone()
        if row is not None and not row[1]:
            raise MigrationError(
                f"Schema skiplane belongs to role {row[0]}, and {self.connection.info.user} "
                "is not a member of it: migrate as the owner."
            )
        return str(row[0]) if row else None

    def _make_schema(self) -> None:
        try:
            self.connection.execute("create schema skiplane")
        except psycopg.errors.InsufficientPrivilege as error:
            info = self.connection.info
            raise MigrationError(
                f"Role {info.user} may not make schema skiplane: a database administrator must run "
                f'grant create on database "{info.dbname}" to "{info.user}"; or '
                f'create schema skiplane authorization "{info.user}";'
            ) from error
        self.did("created schema skiplane")

    def _refuse_foreign_tables(self) -> None:
        found = one(
            self.connection,
            "select min(oid::regclass::text) from pg_class"
            " where relnamespace = 'skiplane'::regnamespace",
        )
        if found:
            raise MigrationError(
                f"Schema skiplane holds {found}, which is not of Skiplane's making: "
                "use another database, or rename that schema."
            )

    def after_versions(self) -> None:
        """Apply what differs from what is in force, and make partitions ahead.

        Raises:
            MigrationError: A file is wrong, or something of a user's is in the way.
        """
        applied = files.read_applied(self.connection)
        if self._fresh:
            self._remember_tables()
        else:
            self._warn_of_changed_tables(applied)
        functions = self._shards() + read_files(self.root, "functions")
        stale = self._functions(functions, applied)
        self._views(applied)
        for what in files.drop_functions(self.connection, stale):
            self.did(what)
        self._grants(applied)
        if self.done:
            files.check_bodies(self.connection, list(files.functions(self.connection)))
        self._make_partitions()
        if self.done:
            versions.record_release(self.connection)

    def _remember_tables(self) -> None:
        self.connection.execute(COMMENT_ON_VERSION)
        self.connection.execute(COMMENT_ON_NUMBER)
        for file in read_files(self.root, "tables"):
            files.remember(self.connection, file, {})

    def _warn_of_changed_tables(self, applied: dict[str, Applied]) -> None:
        for name in changed(read_files(self.root, "tables"), applied, "tables"):
            self._report(table_warning(name))

    def _shards(self) -> list[SqlFile]:
        stored = shards.stored_labels(self.connection)
        labels = shards.wanted_labels(
            stored, self._count, citus=has_citus(self.connection), fresh=self._fresh
        )
        if labels != stored:
            shards.store_labels(self.connection, labels)
            self.did(f"shards {len(labels)}")
        return [shards.labels_function(labels)]

    def _functions(self, wanted: list[SqlFile], applied: dict[str, Applied]) -> set[str]:
        """Apply the functions if anything differs; give those that no file makes any more."""
        differ = function_drift(self.connection, wanted, applied)
        if not differ:
            return set()
        before = objects(applied, ("functions", "generated"))
        files.apply_functions(self.connection, wanted)
        files.forget(self.connection, gone(wanted, applied, ("functions", "generated")))
        self.did(f"functions: {', '.join(differ)}")
        now = files.read_applied(self.connection)
        return before - {name for file in wanted for name in now[file.name].objects}

    def _views(self, applied: dict[str, Applied]) -> None:
        wanted = read_files(self.root, "views")
        differ = view_drift(self.connection, wanted, applied)
        if not differ:
            return
        for what in views.apply_views(self.connection, wanted, objects(applied, ("views",))):
            self.did(what)
        files.forget(self.connection, gone(wanted, applied, ("views",)))
        self.did(f"views: {', '.join(differ)}")

    def _grants(self, applied: dict[str, Applied]) -> None:
        existing = roles.existing_roles(self.connection)
        wanted = read_files(self.root, "grants", depends_on=str(sorted(existing.items())))
        differ = changed(wanted, applied, "grants")
        if missing := set(roles.ROLES) - existing.keys():
            self._report(
                "warning: grants were not made, because group roles are missing and this role "
                "may not create them. A database administrator must run: "
                f"{roles.what_a_dba_runs(missing)} Then run skiplane migrate again."
            )
        # A new function or view starts with default grants.
        elif wanted and (differ or self.done):
            for file in wanted:
                files.execute_file(self.connection, file.name, file.text)
                files.remember(self.connection, file, {})
            files.forget(self.connection, gone(wanted, applied, ("grants",)))
            self.did("grants")

    def _make_partitions(self) -> None:
        known = one(
            self.connection,
            "select true from pg_proc where pronamespace = to_regnamespace('skiplane')"
            " and proname = 'maintain_partitions' and pronargs = pronargdefaults",
        )
        if known:
            self.connection.execute("select skiplane.maintain_partitions()")


def has_citus(connection: Connection) -> bool:
    """Tell whether the database is part of a Citus cluster."""
    return bool(one(connection, "select true from pg_extension where extname = 'citus'"))


def objects(applied: dict[str, Applied], kinds: tuple[str, ...]) -> set[str]:
    """Give the functions or views that the files in these folders made."""
    return {
        made for name, file in applied.items() if name.startswith(kinds) for made in file.objects
    }


def gone(wanted: list[SqlFile], applied: dict[str, Applied], kinds: tuple[str, ...]) -> set[str]:
    """Give the names of files in these folders that are no more."""
    return {name for name in applied if name.startswith(kinds)} - {file.name for file in wanted}


def function_drift(
    connection: Connection, wanted: list[SqlFile], applied: dict[str, Applied]
) -> list[str]:
    """Say for each file or function how it differs from what is in force."""
    differ = changed(wanted, applied, "functions") | changed(wanted, applied, "generated")
    differ |= tampered(wanted, applied, files.functions(connection))
    return summary(differ)


def view_drift(
    connection: Connection, wanted: list[SqlFile], applied: dict[str, Applied]
) -> list[str]:
    """Say for each file or view how it differs from what is in force."""
    differ = changed(wanted, applied, "views") | tampered(wanted, applied, views.views(connection))
    return summary(differ)


def summary(differ: dict[str, str]) -> list[str]:
    """Give one line for each difference; on a new database one for all."""
    if len(differ) > 1 and set(differ.values()) == {"new"}:
        return [f"{len(differ)} new files"]
    return [f"{name} {how}" for name, how in differ.items()]


def table_warning(name: str) -> str:
    """Say that a table file is not what this database was made from."""
    return (
        f"warning: {name} is not what this database was made from; tables change by a new "
        "version in migrations/versions, or a development database is made again"
    )

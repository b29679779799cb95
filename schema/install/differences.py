"""What a migration would change, found without changing or locking anything."""

from pathlib import Path

from . import files, roles, run, shards, versions
from .files import Applied, changed, read_files
from .session import Connection


def differences(connection: Connection, root: Path, migrations: Path) -> list[str]:
    """Give one line for each difference between the database and this release.

    Raises:
        SchemaTooNew: A newer release has migrated this database.
    """
    versions.refuse_newer(connection)
    pending = versions.pending(migrations, versions.current(connection))
    if not files.exists(connection, "skiplane.applied_file"):
        return ["schema skiplane is not installed", *pending]
    applied = files.read_applied(connection)
    functions = [
        shards.labels_function(shards.stored_labels(connection)),
        *read_files(root, "functions"),
    ]
    return [
        *pending,
        *(
            run.table_warning(name)
            for name in changed(read_files(root, "tables"), applied, "tables")
            if not pending
        ),
        *run.function_drift(connection, functions, applied),
        *run.view_drift(connection, read_files(root, "views"), applied),
        *_grants(connection, root, applied),
        *_invalid_indexes(connection),
    ]


def _grants(connection: Connection, root: Path, applied: dict[str, Applied]) -> list[str]:
    existing = roles.existing_roles(connection)
    if missing := set(roles.ROLES) - existing.keys():
        return [f"group roles are missing; run: {roles.what_a_dba_runs(missing)}"]
    wanted = read_files(root, "grants", depends_on=str(sorted(existing.items())))
    return [f"{name} {how}" for name, how in changed(wanted, applied, "grants").items()]


def _invalid_indexes(connection: Connection) -> list[str]:
    # CREATE INDEX CONCURRENTLY that failed leaves one, which costs writes and serves nobody.
    rows = connection.execute(
        "select i.indexrelid::regclass::text from pg_index i"
        " join pg_class c on c.oid = i.indexrelid"
        " where c.relnamespace = to_regnamespace('skiplane') and not i.indisvalid order by 1"
    )
    return [f"index {name} is invalid: drop it and make it again" for (name,) in rows]

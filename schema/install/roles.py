"""The group roles that grants go to."""

import psycopg

from .session import Connection, one

ROLES = ("skiplane_producer", "skiplane_worker", "skiplane_operator", "skiplane_reader")


def existing_roles(connection: Connection) -> dict[str, int]:
    """Give the group roles that exist, with their ids: a role made anew has no grants."""
    rows = connection.execute(
        "select rolname, oid::bigint from pg_roles where rolname = any (%s)", [list(ROLES)]
    )
    return {str(name): int(oid) for name, oid in rows}


def make_roles(connection: Connection) -> list[str]:
    """Make the missing group roles if we may; give those made."""
    if not one(
        connection, "select rolcreaterole or rolsuper from pg_roles where rolname = current_user"
    ):
        return []
    made = []
    for role in sorted(set(ROLES) - existing_roles(connection).keys()):
        try:
            with connection.transaction():
                connection.execute(f"create role {role} nologin".encode())
        except (psycopg.errors.DuplicateObject, psycopg.errors.UniqueViolation):
            # Roles belong to the whole server: another database was migrated meanwhile.
            continue
        except psycopg.errors.InsufficientPrivilege:
            # Managed servers have rules beyond the role's attributes.
            break
        made.append(role)
    return made


def what_a_dba_runs(missing: set[str]) -> str:
    """Give the statements that make the missing roles."""
    return " ".join(f"create role {role} nologin;" for role in sorted(missing))

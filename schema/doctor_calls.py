"""What `skiplane doctor` reads: catalogs and statistics of the server, and the engine's health.

What a role may not see comes back as NULL or not at all; the caller says so.
"""

from typing import Any, LiteralString, NamedTuple

import psycopg

from .connect import SyncConnection


class Holder(NamedTuple):
    """Who keeps the server from removing dead rows.

    Attributes:
        who: What it is, and how to find it.
        seconds: For how long, None when that is not to be seen.
    """

    who: str
    seconds: float | None


class Garbage(NamedTuple):
    """Dead rows of one table."""

    table: str
    live: int
    dead: int


class Finding(NamedTuple):
    """One line of the engine's own health check."""

    check: str
    ok: bool
    detail: str


def server(conn: SyncConnection) -> dict[str, str]:
    """Give version, role, database and the settings that the engine's promises rest on."""
    names = ("server_version", "fsync", "full_page_writes", "synchronous_commit", "autovacuum")
    found = {name: str(_value(conn, "select current_setting(%s)", name)) for name in names}
    found["role"] = str(_value(conn, "select current_user"))
    found["in_recovery"] = str(_value(conn, "select pg_is_in_recovery()"))
    found["number"] = str(_value(conn, "select current_setting('server_version_num')"))
    return found


def clock(conn: SyncConnection) -> float:
    """Give the server's time in seconds since the epoch."""
    return float(_value(conn, "select extract(epoch from clock_timestamp())::float8"))


def granted_roles(conn: SyncConnection, roles: tuple[str, ...]) -> dict[str, bool | None]:
    """Say for each role whether the current user is a member; None when it does not exist."""
    cursor = conn.execute(
        """
        select name, case when r.oid is not null then pg_has_role(r.oid, 'member') end
        from unnest(%s::text[]) name left join pg_roles r on r.rolname = name
        """,
        (list(roles),),
    )
    return {row[0]: row[1] for row in cursor}


def sees_everybody(conn: SyncConnection) -> bool:
    """Tell whether this role sees what other roles' sessions do."""
    return bool(_value(conn, "select pg_has_role('pg_read_all_stats', 'usage')"))


def snapshot_holders(conn: SyncConnection, seconds: float) -> list[Holder]:
    """Give what has held back the removal of dead rows for longer than that, longest first."""
    cursor = conn.execute(
        """
        select * from (
            select format('session %%s of %%s (%%s), %%s', pid, usename,
                    coalesce(nullif(application_name, ''), 'no name'), state),
                extract(epoch from clock_timestamp() - xact_start)::float8 as age
            from pg_stat_activity
            where backend_xmin is not null and backend_type = 'client backend'
                and pid <> pg_backend_pid()
            union all
            select format('prepared transaction %%s', gid),
                extract(epoch from clock_timestamp() - prepared)::float8
            from pg_prepared_xacts where database = current_database()
            union all
            select format('replication slot %%s, not in use', slot_name), null
            from pg_replication_slots
            where not active and (xmin is not null or catalog_xmin is not null)
        ) held where age > %s or age is null
        order by age desc nulls first
        """,
        (seconds,),
    )
    return [Holder(*row) for row in cursor]


def garbage(conn: SyncConnection) -> list[Garbage]:
    """Give the dead rows of the engine's tables, the most first."""
    cursor = conn.execute(
        """
        select relname, n_live_tup, n_dead_tup from pg_stat_user_tables
        where schemaname = 'skiplane' order by n_dead_tup desc, relname
        """
    )
    return [Garbage(*row) for row in cursor]


def tables_without_autovacuum(conn: SyncConnection) -> list[str]:
    """Give the engine's tables for which somebody has switched it off."""
    cursor = conn.execute(
        """
        select relname from pg_class
        where relnamespace = to_regnamespace('skiplane')
            and reloptions && array['autovacuum_enabled=false', 'autovacuum_enabled=off']
        order by relname
        """
    )
    return [row[0] for row in cursor]


def health(conn: SyncConnection) -> list[Finding]:
    """Ask the engine about itself."""
    cursor = conn.execute("select check_name, ok, detail from skiplane.health()")
    return [Finding(*row) for row in cursor]


def _value(conn: SyncConnection, query: LiteralString, *arguments: Any) -> Any:
    row = conn.execute(query, arguments).fetchone()
    if row is None:
        raise psycopg.DataError("a statement that always answers gave no row")
    return row[0]

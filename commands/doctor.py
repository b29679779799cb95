"""skiplane doctor"""

import sys
import time
from collections.abc import Iterator
from typing import NamedTuple

import psycopg
import rich_click as click
from rich.text import Text

from ..config import Config
from ..schema import doctor_calls as calls
from ..schema.connect import SyncConnection, connect_sync
from ..schema.install.roles import ROLES
from ..schema.migrate import MigrationError, SchemaMissing, SchemaTooNew, check, ensure_served
from .options import configured
from .output import console, find_dsn, json_option, print_json, refusals, span, table

OLDEST, NEWEST = 150000, 190000
CLOCK_SECONDS = 1.0
HELD_WARN, HELD_FAIL = 60.0, 3600.0
GARBAGE_ROWS = 500_000
STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red"}
# What an operator does about a finding of the engine's own check.
REMEDIES = {
    "partitions_ahead": "Run `skiplane scheduler`; its log says why it makes none.",
    "orphan_leases": "Run `skiplane scheduler`: it takes these tasks back.",
    "overdue_timers": "Run `skiplane scheduler`, or one more of them.",
    "overdue_schedules": "Run `skiplane scheduler`, or one more of them.",
    "far_timers": "Run `skiplane scheduler`; its log says why it makes no partitions.",
    "scheduler": "Run `skiplane scheduler`; two of them on different hosts are better.",
}
# Looked at here, and more closely.
OWN = ("held_snapshot",)


class Verdict(NamedTuple):
    """The outcome of one check: ``ok``, ``warn`` or ``fail``."""

    check: str
    state: str
    detail: str
    remedy: str = ""


@click.command()
@json_option
@configured("dsn")
def doctor(config: Config, as_json: bool) -> None:
    """Check the database and say what is wrong.

    The exit code is 1 when a check fails, 0 when there are at most warnings.
    """
    dsn = find_dsn(config)
    with refusals(), connect_sync(dsn, "doctor") as conn:
        verdicts = list(examine(conn, dsn))
    if as_json:
        print_json([verdict._asdict() for verdict in verdicts])
    else:
        rows = [(v.check, Text(v.state, STYLES[v.state]), v.detail, v.remedy) for v in verdicts]
        console().print(table(None, ("check", "", "found", "what to do"), rows))
    sys.exit(1 if any(verdict.state == "fail" for verdict in verdicts) else 0)


def examine(conn: SyncConnection, dsn: str) -> Iterator[Verdict]:
    """Make all checks that make sense, the ones that others rest on first."""
    server = calls.server(conn)
    yield _version(server)
    yield from _durability(server)
    yield _clock(conn)
    schema = _schema(conn)
    yield schema
    if schema.state == "fail":
        return
    yield _drift(dsn)
    yield _grants(conn, server["role"])
    yield from _health(conn)
    yield _snapshots(conn)
    yield from _vacuum(conn, server)


def _version(server: dict[str, str]) -> Verdict:
    name, number = "server", int(server["number"])
    found = f"PostgreSQL {server['server_version']}, role {server['role']}"
    if number < OLDEST:
        return Verdict(name, "fail", found, "Upgrade the server to PostgreSQL 15 or newer.")
    if server["in_recovery"] == "True":
        return Verdict(name, "fail", f"{found}, a standby", "Name the primary in the DSN.")
    if number >= NEWEST:
        return Verdict(name, "warn", found, "Not tried with this version yet; 15 to 18 are.")
    return Verdict(name, "ok", found)


def _durability(server: dict[str, str]) -> Iterator[Verdict]:
    off = [name for name in ("fsync", "full_page_writes") if server[name] == "off"]
    if off:
        found = f"{' and '.join(off)} off: a crash of the machine may destroy everything"
        yield Verdict("durability", "warn", found, "Switch it on, except for tests.")
    elif server["synchronous_commit"] == "off":
        found = "synchronous_commit off: a crash may lose tasks that were accepted"
        yield Verdict("durability", "warn", found, "Switch it on for roles that submit.")
    else:
        yield Verdict("durability", "ok", f"synchronous_commit {server['synchronous_commit']}")


def _clock(conn: SyncConnection) -> Verdict:
    before = time.time()
    server = calls.clock(conn)
    after = time.time()
    # The server looked at its clock somewhere in between.
    ahead = server - (before + after) / 2
    unsure = (after - before) / 2
    found = f"the server's is {abs(ahead):.3f} s {'ahead' if ahead > 0 else 'behind'}"
    if abs(ahead) - unsure > CLOCK_SECONDS:
        advice = "Only the server's counts, but times given by this host are read by it: sync them."
        return Verdict("clock", "warn", found, advice)
    return Verdict("clock", "ok", found)


def _schema(conn: SyncConnection) -> Verdict:
    try:
        ensure_served(conn)
    except (SchemaMissing, SchemaTooNew) as error:
        return Verdict("schema", "fail", str(error))
    except psycopg.errors.InsufficientPrivilege:
        return Verdict(
            "schema", "fail", "this role may not use schema skiplane", "Grant it one of the roles."
        )
    return Verdict("schema", "ok", "this release can serve it")


def _drift(dsn: str) -> Verdict:
    try:
        lines = check(dsn)
    except MigrationError as error:
        return Verdict("drift", "warn", f"cannot be checked: {error}", "Use the schema's owner.")
    if lines:
        found = f"{len(lines)} differences: {'; '.join(lines[:5])}"
        return Verdict("drift", "warn", found, "Run `skiplane migrate`.")
    return Verdict("drift", "ok", "the database is as this release makes it")


def _grants(conn: SyncConnection, role: str) -> Verdict:
    member = calls.granted_roles(conn, ROLES)
    missing = [name for name, is_member in member.items() if is_member is None]
    if missing:
        advice = "Have somebody with CREATEROLE run `skiplane migrate`."
        return Verdict("roles", "warn", f"missing: {', '.join(missing)}", advice)
    mine = [name for name, is_member in member.items() if is_member]
    return Verdict(
        "roles", "ok", f"{role} has {', '.join(mine) or 'none of them, as an owner may'}"
    )


def _health(conn: SyncConnection) -> Iterator[Verdict]:
    for found in calls.health(conn):
        if found.check not in OWN:
            state = "ok" if found.ok else "fail"
            remedy = "" if found.ok else REMEDIES.get(found.check, "")
            yield Verdict(found.check, state, found.detail, remedy)


def _snapshots(conn: SyncConnection) -> Verdict:
    held = calls.snapshot_holders(conn, HELD_WARN)
    if held:
        worst = max(holder.seconds or HELD_WARN for holder in held)
        found = "; ".join(f"{h.who}, {span(h.seconds) or 'unknown time'}" for h in held[:3])
        advice = "End it: dead rows stay meanwhile, and tables grow."
        return Verdict("held_snapshot", "fail" if worst > HELD_FAIL else "warn", found, advice)
    if not calls.sees_everybody(conn):
        found = "none of this role's own; others' are not visible to it"
        return Verdict("held_snapshot", "ok", found, "Grant pg_read_all_stats to see all.")
    return Verdict("held_snapshot", "ok", f"none older than {span(HELD_WARN)}")


def _vacuum(conn: SyncConnection, server: dict[str, str]) -> Iterator[Verdict]:
    if server["autovacuum"] == "off":
        yield Verdict("autovacuum", "fail", "off on this server", "Set autovacuum = on.")
        return
    if off := calls.tables_without_autovacuum(conn):
        advice = f"alter table skiplane.{off[0]} reset (autovacuum_enabled); and so on."
        yield Verdict("autovacuum", "fail", f"off for {', '.join(off)}", advice)
        return
    worst = next(iter(calls.garbage(conn)), None)
    if worst and worst.dead > max(GARBAGE_ROWS, worst.live):
        found = f"{worst.table} has {worst.dead:,} dead rows beside {worst.live:,} live ones"
        advice = "Look for a held snapshot, or raise autovacuum_max_workers."
        yield Verdict("autovacuum", "warn", found, advice)
        return
    yield Verdict("autovacuum", "ok", "on, and keeping up")

"""skiplane doctor"""

from pathlib import Path
from typing import Any

import psycopg

from skiplane.tests.cli.conftest import Run
from skiplane.tests.scheduler.helpers import running_scheduler
from skiplane.tests.support import Databases

Connection = psycopg.Connection[tuple[Any, ...]]


def verdicts(skiplane: Run, *options: str) -> dict[str, dict[str, str]]:
    return {v["check"]: v for v in skiplane("doctor", "--json", *options).document}


def test_healthy_system_is_told_so(skiplane: Run, dsn: str, tmp_path: Path):
    with running_scheduler(dsn, tmp_path) as scheduler:
        scheduler.wait_for("scheduler started")
        said = skiplane("doctor", "--json")
    assert said.code == 0, said.out
    states = {v["check"]: v["state"] for v in said.document}
    # The server of the tests saves time in ways that nobody else should.
    assert states.pop("durability") in ("ok", "warn")
    assert set(states.values()) == {"ok"}, said.out
    for check in ("server", "clock", "schema", "drift", "roles", "held_snapshot", "autovacuum"):
        assert check in states


def test_missing_scheduler_fails_with_the_remedy(skiplane: Run):
    said = skiplane("doctor")
    assert said.code == 1
    assert "fail" in said.out
    assert "skiplane scheduler" in said.out


def test_changed_function_is_drift(skiplane: Run, conn: Connection):
    conn.execute(
        "create or replace function skiplane.clock() returns timestamptz language sql volatile"
        " as 'select now()'"
    )
    found = verdicts(skiplane)["drift"]
    assert found["state"] == "warn"
    assert "skiplane migrate" in found["remedy"]


def test_missing_schema_ends_the_visit(skiplane: Run, empty_dsn: str):
    said = skiplane("doctor", "--json", "--dsn", empty_dsn)
    assert said.code == 1
    assert said.document[-1]["check"] == "schema"
    assert said.document[-1]["state"] == "fail"
    assert "migrate" in said.document[-1]["detail"]


def test_table_without_autovacuum_fails(skiplane: Run, conn: Connection):
    conn.execute("alter table skiplane.lease set (autovacuum_enabled = false)")
    found = verdicts(skiplane)["autovacuum"]
    assert found["state"] == "fail"
    assert "lease" in found["detail"]


def test_held_snapshot_is_named(skiplane: Run, databases: Databases, conn: Connection, dsn: str):
    from skiplane.schema.connect import connect_sync
    from skiplane.schema.doctor_calls import snapshot_holders

    conn.execute("begin isolation level repeatable read")
    conn.execute("select set_config('application_name', 'backup', false)")
    conn.execute("select pg_sleep(0.05)")
    with connect_sync(dsn, "doctor") as looking:
        [holder] = snapshot_holders(looking, 0.01)
    assert "backup" in holder.who
    assert str(conn.info.backend_pid) in holder.who
    assert holder.seconds is not None
    assert holder.seconds >= 0.05


def test_role_without_rights_is_told_what_it_lacks(
    skiplane: Run, databases: Databases, conn: Connection
):
    with databases.role() as role:
        own = databases.dsn(conn.info.dbname, role)
        said = skiplane("doctor", "--json", "--dsn", own)
        assert said.code == 1
        assert said.document[-1]["check"] == "schema"
        conn.execute(f"grant skiplane_reader to {role.name}".encode())
        found = verdicts(skiplane, "--dsn", own)
        assert "skiplane_reader" in found["roles"]["detail"]

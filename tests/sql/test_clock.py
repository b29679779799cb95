"""The clock that tests may turn, and nobody else."""

import psycopg

from skiplane.tests.support import Databases

FORGED = "2100-01-01T00:00:00Z"
SUBMIT = "select (skiplane.submit_task('work')).created_at < '2100-01-01'"


def test_only_members_of_the_owner_turn_the_clock(databases: Databases, dsn: str):
    name = str(psycopg.conninfo.conninfo_to_dict(dsn)["dbname"])
    with (
        databases.role("in role skiplane_producer") as role,
        psycopg.connect(databases.dsn(name, role), autocommit=True) as producer,
    ):
        producer.execute("select set_config('skiplane.now', %s, false)", [FORGED])
        assert producer.execute(SUBMIT).fetchone() == (True,)
    with psycopg.connect(dsn, autocommit=True) as owner:
        owner.execute("select set_config('skiplane.now', %s, false)", [FORGED])
        assert owner.execute("select skiplane.clock() = %s::timestamptz", [FORGED]).fetchone() == (
            True,
        )

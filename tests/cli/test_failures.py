"""skiplane failures: what failed, for people and for programs."""

import psycopg
import pytest

from skiplane.tests.cli.conftest import Run
from skiplane.tests.support.engine import Connection, Engine


@pytest.fixture
def failed(conn: Connection) -> Engine:
    """Two tasks that died, of which one tenant has one, and one that succeeded."""
    engine = Engine(conn)
    engine.value("refresh_rollup")
    engine.submit("mail", max_retries=0, metadata={"tenant_id": "a"})
    engine.submit("mail", max_retries=0, metadata={"tenant_id": "b"})
    engine.fail(engine.claim(2), error_type="SMTPError", error_message="no route to host 17")
    engine.submit("fine")
    engine.finish(engine.claim())
    engine.count_ends()
    return engine


def test_failures_are_told_with_their_errors(failed: Engine, skiplane: Run):
    said = skiplane("failures", "--since", "1h")
    assert said.code == 0, said.err
    for word in ("mail", "SMTPError", "no route to host", "first seen"):
        assert word in said.out
    found = skiplane("failures", "--json").document
    assert (found["types"][0]["task_type"], found["types"][0]["dead"]) == ("mail", 2)
    assert [one["errors"] for one in found["errors"]] == [2]


def test_filters_leave_out_the_rest(failed: Engine, skiplane: Run):
    found = skiplane("failures", "--tenant", "a", "--json").document
    assert [one["errors"] for one in found["errors"]] == [1]
    assert "Nothing has failed since" in skiplane("failures", "--type", "fine").out


def test_bad_length_of_time_is_told(skiplane: Run, conn: psycopg.Connection[tuple[object, ...]]):
    said = skiplane("failures", "--since", "1s")
    assert said.code == 2
    assert "seconds" in said.err
    assert "60" in said.err

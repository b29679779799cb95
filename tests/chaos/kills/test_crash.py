"""After a crash of the server, workers listen again by themselves."""

import json
import random
import time
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from skiplane.tests.chaos.kills.fleet import running_fleet
from skiplane.tests.chaos.kills.processes import scheduler, worker
from skiplane.tests.chaos.kills.tasks import marks
from skiplane.tests.support import wait_until

pytestmark = pytest.mark.xdist_group("chaos")

LISTENING = """
    select count(*) from pg_stat_activity
    where application_name = 'skiplane worker listener' and state = 'idle'"""


@pytest.mark.parametrize("crashes", [1, 2])
def test_a_worker_hears_of_tasks_again_after_a_crash(
    tmp_path: Path, crashes: int, record_property: Callable[[str, object], None]
):
    """With a poll of a minute only a notification, or the look after LISTEN, is this quick."""
    with running_fleet(tmp_path, random.randrange(10**6)) as fleet:
        only = worker("worker", tmp_path, fleet.env, "--poll-seconds", "60")
        fleet.workers = [only]
        # It wakes a worker that went to sleep while a submission was being committed.
        fleet.schedulers = [scheduler("scheduler", tmp_path, fleet.env)]
        for member in fleet.members:
            member.start()
        wait_until(lambda: "worker started" in only.log.read_text(), 60, "the worker to start")
        for _ in range(crashes):
            fleet.crash()
            fleet.server.start()
        began = time.monotonic()
        with psycopg.connect(fleet.server.dsn(), autocommit=True) as conn:
            # During the gap: nobody is told of it.
            missed = submit(conn)
            wait_until(lambda: missed in started(tmp_path), 10, "the missed task to begin")
            wait_until(lambda: conn.execute(LISTENING).fetchone() == (1,), 10, "it to listen")
            record_property("listening_after", time.monotonic() - began)
            asked = time.monotonic()
            told = submit(conn)
            wait_until(lambda: told in started(tmp_path), 10, "the next task to begin")
            latency = started(tmp_path)[told] - asked
            print(f"listening after {asked - began:.2f} s, started after {latency:.3f} s")
            assert latency < 1
        assert only.running
        assert not only.surprises


def submit(conn: psycopg.Connection[tuple[object, ...]]) -> str:
    row = conn.execute(
        "select task_id from skiplane.submit_task('watched', %s)", [json.dumps({"seconds": 0})]
    ).fetchone()
    assert row is not None
    return str(row[0])


def started(folder: Path) -> dict[str, float]:
    return {words[0]: float(words[3]) for words in marks(folder, "watched")}

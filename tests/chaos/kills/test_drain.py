"""A worker drains while the server restarts: what it runs is finished by it, once."""

import random
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from skiplane.tests.chaos.kills.fleet import Fleet, running_fleet
from skiplane.tests.chaos.kills.processes import descendants, scheduler, send, worker
from skiplane.tests.chaos.kills.tasks import marks
from skiplane.tests.support import wait_until
from skiplane.tests.worker.helpers import Tasks

pytestmark = pytest.mark.xdist_group("chaos")

DRAINING = "select draining from skiplane.worker where starts_with(name, 'first')"


def crash(fleet: Fleet) -> None:
    fleet.crash()


def stop(fleet: Fleet) -> None:
    fleet.server.stop()


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    """A scheduler, a worker called first, and one that is not started yet."""
    with running_fleet(tmp_path, random.randrange(10**6)) as made:
        made.schedulers = [scheduler("scheduler", tmp_path, made.env)]
        made.workers = [
            worker(name, tmp_path, made.env, "--name", name, "--grace-seconds", "120")
            for name in ("first", "second")
        ]
        yield made


def wait_for(member: Any, event: str) -> None:
    wait_until(lambda: event in member.log.read_text(), 60, f"{event!r} in {member.log}")


def begun(folder: Path) -> dict[tuple[str, int], int]:
    """Give where tasks have begun, by task and fence."""
    return {(words[0], int(words[1])): int(words[2]) for words in marks(folder, "watched")}


@pytest.mark.parametrize("take_away", [crash, stop])
def test_a_drain_outlives_a_restart_of_the_server(
    fleet: Fleet, tmp_path: Path, take_away: Callable[[Fleet], None]
):
    first, second = fleet.workers
    for member in (fleet.schedulers[0], first):
        member.start()
    wait_for(first, "worker started")
    kinds = ("gated", "gated_pooled")
    with psycopg.connect(fleet.server.tcp_dsn(), autocommit=True) as conn:
        tasks = Tasks(conn)
        meanwhile = [tasks.submit(kind, {"gate": "meanwhile"}) for kind in kinds]
        afterwards = [tasks.submit(kind, {"gate": "afterwards"}) for kind in kinds]
        ids = [*meanwhile, *afterwards]
        wait_until(lambda: begun(tmp_path).keys() == {(task_id, 1) for task_id in ids}, 60)
        second.start()
        wait_for(second, "worker started")
        send(first.pid, signal.SIGTERM)
        wait_until(lambda: tasks.scalar(DRAINING))
    its = {first.pid, *descendants(first.pid)}
    take_away(fleet)
    (tmp_path / "meanwhile").touch()
    # It has tried to record the ends of these and could not.
    wait_for(first, "the database is away")
    fleet.server.start()
    with psycopg.connect(fleet.server.tcp_dsn(), autocommit=True) as conn:
        tasks = Tasks(conn)
        tasks.wait_all(meanwhile)
        assert tasks.scalar(DRAINING) is True
        late = tasks.submit("watched", {"seconds": 0})
        tasks.wait(late)
        (tmp_path / "afterwards").touch()
        assert first.stop() == 0
        tasks.wait_all(ids)
        assert {(tasks.status(task_id), tasks.get(task_id)["attempt"]) for task_id in ids} == {
            ("SUCCEEDED", 1)
        }
        assert tasks.scalar("select count(*) from skiplane.worker") == 1
    where = begun(tmp_path)
    assert where.keys() == {(task_id, 1) for task_id in [*ids, late]}
    assert all(where[task_id, 1] in its for task_id in ids)
    assert where[late, 1] not in its

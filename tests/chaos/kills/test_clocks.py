"""Clocks of hosts that are wrong, or are put right meanwhile: only the database's counts."""

import importlib.util
import random
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from skiplane.tests.chaos.kills.fleet import Fleet, running_fleet
from skiplane.tests.chaos.kills.processes import scheduler, worker
from skiplane.tests.chaos.kills.tasks import marks
from skiplane.tests.support import wait_until
from skiplane.tests.worker.helpers import Tasks

pytestmark = pytest.mark.xdist_group("chaos")

LEASE_SECONDS = 2.0
LONG_SECONDS = 7.0


class Host:
    """The clock that the processes of one pretended machine see."""

    def __init__(self, folder: Path, library: Path, shift: str) -> None:
        self._file = folder / f"clock{shift}"
        self.env = {
            "LD_PRELOAD": str(library),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }
        self.set(shift)

    def set(self, shift: str) -> None:
        """Put the clock on, like +5m or -26h; whoever runs sees it at once."""
        self._file.write_text(shift)


def faketime() -> Path:
    """Give the library that pretends another time."""
    # Debian's libfaketime 0.9.10 breaks absolute sleeps by the clock that it leaves alone.
    found = importlib.util.find_spec("libfaketime")
    assert found is not None
    assert found.origin is not None
    library = Path(found.origin).with_name("vendor") / "libfaketime/src/libfaketime.so.1"
    assert library.exists()
    return library


def hosts(fleet: Fleet, *shifts: str) -> list[Host]:
    """Make a worker and a scheduler for each of the clocks, and start them."""
    made = [Host(fleet.folder, faketime(), shift) for shift in shifts]
    options = ("--lease-seconds", f"{LEASE_SECONDS:g}", "--poll-seconds", "1")
    for number, host in enumerate(made):
        env = {**fleet.env, **host.env}
        fleet.workers.append(worker(f"worker{number}", fleet.folder, env, *options))
        fleet.schedulers.append(scheduler(f"scheduler{number}", fleet.folder, env))
    for member in fleet.members:
        member.start()
    for member in fleet.workers:
        wait_until(lambda m=member: "worker started" in m.log.read_text(), 60)  # type: ignore[misc]
    return made


def days(fleet: Fleet) -> set[str]:
    """Give the days that the workers wrote into their logs."""
    text = "".join(member.log.read_text() for member in fleet.workers)
    return {part[:10] for part in text.split('"timestamp": "')[1:]}


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with running_fleet(tmp_path, random.randrange(10**6)) as made:
        yield made


def begun(folder: Path) -> dict[tuple[str, int], float]:
    """Give when tasks have begun, by task and fence, on the clock that nobody can set."""
    return {(words[0], int(words[1])): float(words[3]) for words in marks(folder, "watched")}


@pytest.mark.parametrize("shifts", [("+5m", "-5m"), ("+26h", "-26h")])
def test_wrong_clocks_of_hosts_change_nothing(
    fleet: Fleet, tmp_path: Path, shifts: tuple[str, str]
):
    """Nothing early, nothing twice, no lease lost, though a step of the clock comes, too."""
    clocks = hosts(fleet, *shifts)
    with psycopg.connect(fleet.server.tcp_dsn(), autocommit=True) as conn:
        tasks = Tasks(conn)
        submitted = time.monotonic()
        # All places of both workers' are taken for some leases' time, then some stay free.
        long = [tasks.submit("watched", {"seconds": LONG_SECONDS}) for _ in range(6)]
        retried = tasks.submit("flaky", {"failures": 1}, retry_delay_seconds=3, retry_jitter="none")
        delays = {tasks.submit("watched", {"seconds": 0}, delay_seconds=d): d for d in (2, 4, 60)}
        wait_until(lambda: {(i, 1) for i in long} <= begun(tmp_path).keys(), 60)
        for clock, shift in zip(clocks, reversed(shifts), strict=True):
            clock.set(shift)
        *soon, far = delays
        tasks.wait_all([*long, *soon, retried], 60)
        starts = begun(tmp_path)
        assert starts.keys() == {(task_id, 1) for task_id in [*long, *soon]}
        for task_id in soon:
            assert delays[task_id] <= starts[task_id, 1] - submitted < delays[task_id] + 2
            task = tasks.get(task_id)
            assert task["scheduled_at"] <= task["started_at"] <= task["completed_at"]
        assert tasks.status(far) == "SCHEDULED"
        for task_id in long:
            task = tasks.get(task_id)
            assert (task["status"], task["attempt"], task["result"]) == ("SUCCEEDED", 1, "1")
            assert LONG_SECONDS - 0.1 <= task["duration_ms"] / 1000 < LONG_SECONDS + 3
        first, second = tasks.get(retried)["attempts"]
        assert first["finished_at"] < second["started_at"]
        used = "select count(distinct worker_id) from skiplane.tasks where worker_id is not null"
        assert tasks.scalar(used) == 2
        age = (
            "select extract(epoch from clock_timestamp() - min(heartbeat_at)) from skiplane.worker"
        )
        assert tasks.scalar(age) < 5
    if "26h" in shifts[0]:  # the clocks were really wrong
        assert len(days(fleet)) > 1
    assert all(member.running and not member.surprises for member in fleet.members)

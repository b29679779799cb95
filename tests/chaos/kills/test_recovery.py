"""How soon tasks of what was killed run again, and what the dead can no longer do."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from skiplane.tests.chaos.kills.processes import Member, descendants, scheduler, send, worker
from skiplane.tests.chaos.kills.tasks import marks
from skiplane.tests.support import wait_until
from skiplane.tests.worker.helpers import Tasks, alive

pytestmark = pytest.mark.xdist_group("chaos")

TOGETHER = 6
LEASE_SECONDS = "50"


class Pair:
    """Two workers and a scheduler; default settings but for ``options`` of the workers."""

    def __init__(self, dsn: str, tasks: Tasks, folder: Path, *options: str) -> None:
        self.tasks = tasks
        self.folder = folder
        env = {"SKIPLANE_DSN": dsn, "SKIPLANE_CHAOS_FOLDER": str(folder)}
        self.first, self.second = (worker(f"worker{n}", folder, env, *options) for n in (1, 2))
        self.members = [scheduler("scheduler", folder, env), self.first, self.second]

    def begun(self) -> dict[tuple[str, int], float]:
        """Give what has begun, by task and fence, and when."""
        return {(w[0], int(w[1])): float(w[3]) for w in marks(self.folder, "watched")}

    def submit(self, seconds: float, again: float = 0) -> list[str]:
        """Submit tasks that one worker takes, and wait until they run."""
        arguments = {"seconds": seconds, "again": again}
        ids = [self.tasks.submit("watched", arguments) for _ in range(TOGETHER)]
        wait_until(lambda: {(i, 1) for i in ids} <= self.begun().keys(), 60, "them to run")
        return ids

    def wait_ready(self, *members: Member) -> None:
        """Wait until their workers claim."""
        for member in members:
            wait_until(
                lambda m=member: "worker started" in m.log.read_text(),  # type: ignore[misc]
                60,
                f"{member.name} to start",
            )

    def seconds_until_again(self, ids: list[str], since: float) -> float:
        """Wait until all have begun a second time; give how long the last one took."""
        wait_until(lambda: {(i, 2) for i in ids} <= self.begun().keys(), 60, "them to run again")
        return max(self.begun()[i, 2] for i in ids) - since


@pytest.fixture
def pair(request: pytest.FixtureRequest, dsn: str, tasks: Tasks, tmp_path: Path) -> Iterator[Pair]:
    """Start the scheduler and the first worker; the second is for the test to start."""
    made = Pair(dsn, tasks, tmp_path, *getattr(request, "param", ()))
    try:
        for member in made.members[:2]:
            member.start()
        made.wait_ready(made.first)
        yield made
    finally:
        for member in made.members:
            member.end()


@pytest.fixture
def tasks(conn) -> Tasks:
    """The tasks of the fresh database."""
    return Tasks(conn)


def test_tasks_of_a_killed_worker_run_again_when_their_lease_has_ended(
    pair: Pair, record_property: Callable[[str, object], None]
):
    ids = pair.submit(seconds=100)
    pair.second.start()
    pair.wait_ready(pair.second)
    killed = time.monotonic()
    pair.first.kill()
    took = pair.seconds_until_again(ids, killed)
    record_property("seconds", took)
    print(f"again after {took:.2f} s")
    pair.tasks.wait_all(ids)
    for task_id in ids:
        task = pair.tasks.get(task_id)
        assert (task["status"], task["result"], task["attempt"]) == ("SUCCEEDED", "2", 2)
        assert [a["outcome"] for a in task["attempts"]] == ["lost", "succeeded"]


@pytest.mark.parametrize("pair", [("--lease-seconds", LEASE_SECONDS)], indirect=True)
def test_tasks_of_a_killed_process_run_again_before_their_lease_ends(
    pair: Pair, record_property: Callable[[str, object], None]
):
    ids = pair.submit(seconds=100)
    pair.second.start()
    pair.wait_ready(pair.second)
    child = next(pid for pid in descendants(pair.first.pid) if os.getpgid(pid) == pid)
    killed = time.monotonic()
    send(child, signal.SIGKILL)
    took = pair.seconds_until_again(ids, killed)
    record_property("seconds", took)
    print(f"again after {took:.2f} s")
    assert took < float(LEASE_SECONDS)
    pair.tasks.wait_all(ids)
    assert {pair.tasks.get(task_id)["result"] for task_id in ids} == {"2"}


def test_what_a_zombie_finishes_is_refused(pair: Pair):
    ids = pair.submit(seconds=3, again=5)
    stopped = [pair.first.pid, *descendants(pair.first.pid)]
    with stopping(stopped):
        pair.second.start()
        pair.seconds_until_again(ids, time.monotonic())
    # Their time is over by its own clock: it ends them at once, while the second still runs.
    wait_until(lambda: refused(pair.first) == len(ids), 60, "the zombie to be refused")
    pair.tasks.wait_all(ids)
    for task_id in ids:
        task = pair.tasks.get(task_id)
        assert (task["status"], task["result"], task["attempt"]) == ("SUCCEEDED", "2", 2)
        assert [(a["fence"], a["outcome"]) for a in task["attempts"]] == [
            (1, "lost"),
            (2, "succeeded"),
        ]
    # It lives, and works again.
    pair.second.kill()
    again = pair.submit(seconds=0)
    pair.tasks.wait_all(again)
    assert pair.first.running
    assert all(alive(pid) for pid in stopped[:2])


@contextmanager
def stopping(pids: list[int]) -> Iterator[None]:
    """Stop processes until the end of the block."""
    for pid in pids:
        send(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            send(pid, signal.SIGCONT)


def refused(member: Member) -> int:
    """Give how many ends were not accepted, by a worker's log."""
    found = 0
    for line in member.log.read_text().splitlines():
        if line.startswith("{") and "ends of tasks were not accepted" in line:
            found += json.loads(line)["count"]
    return found


HALF = """
import sys
from skiplane import Skiplane
app = Skiplane(sys.argv[1])
with app.pool_sync().connection() as conn, conn.transaction():
    app.submit_sync("quick", {"n": 1}, connection=conn, idempotency_key="half")
    app.submit_sync("slow", {"seconds": 0}, connection=conn, delay=3600)
    app.submit_many_sync("quick", [{"n": n} for n in range(50)], connection=conn)
    print("open", flush=True)
    sys.stdin.read()
"""
TABLES = ("task", "ready", "timer", "timer_far", "idempotency", "lane", "outcome", "action")


def test_a_producer_killed_inside_its_transaction_leaves_nothing(dsn: str, tasks: Tasks):
    with subprocess.Popen(
        [sys.executable, "-c", HALF, dsn], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as producer:
        assert producer.stdout is not None
        assert producer.stdout.readline() == b"open\n"
        producer.kill()
    mine = "select count(*) from pg_stat_activity where application_name = 'skiplane app'"
    wait_until(lambda: tasks.scalar(mine) == 0, 10, "its session to end")
    left = {t: tasks.scalar(f"select count(*) from skiplane.{t}") for t in TABLES}
    assert set(left.values()) == {0}, left
    # Its key is free, for any body.
    again = tasks.submit("slow", {"seconds": 1}, idempotency_key="half")
    assert tasks.status(again) == "PENDING"

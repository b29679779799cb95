"""A server, producers, workers and schedulers, and the killer among them."""

import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from skiplane.schema.embedded import EmbeddedServer
from skiplane.schema.migrate import migrate
from skiplane.tests.chaos.kills.processes import (
    Member,
    descendants,
    kill_all,
    scheduler,
    send,
    worker,
)
from skiplane.tests.support.databases import SMALL, server_folder

# What was acknowledged before a crash must be there after it: no fast mode here.
SETTINGS = {**SMALL, "fsync": "on", "synchronous_commit": "on"}
# Name, overlap policy and task type; each fires every second.
SCHEDULES = (
    *((f"queued{n}", "queue", "tick") for n in range(4)),
    ("skipping", "skip", "tick"),
    ("replacing", "cancel_running", "replaceable"),
)
SCHEDULE = """
    select skiplane.create_cron_task(%s, '* * * * * *', p_overlap_policy => %s, p_task_type => %s,
        p_missed_policy => 'all', p_max_retries => 1000, p_retry_delay_seconds => 0.1,
        p_retry_max_delay_seconds => 0.5)"""
EFFECTS = "create table effect (task_id uuid not null, fence integer not null)"


class Fleet:
    """All processes of a kill test.

    Attributes:
        kills: How often each kind of kill was done.
        folder: Logs, and what the processes noted.
    """

    def __init__(self, server: EmbeddedServer, folder: Path, chance: random.Random) -> None:
        self.server = server
        self.folder = folder
        self.kills: Counter[str] = Counter()
        self.env = {"SKIPLANE_DSN": server.tcp_dsn(), "SKIPLANE_CHAOS_FOLDER": str(folder)}
        self.producers: list[Member] = []
        self.workers: list[Member] = []
        self.schedulers: list[Member] = []
        self._chance = chance
        self._down_until: float | None = None
        self._paused: dict[float, list[int]] = {}
        self._pace = threading.Event()

    @property
    def members(self) -> list[Member]:
        """All of them."""
        return [*self.producers, *self.workers, *self.schedulers]

    def fill(self, lease_seconds: float) -> None:
        """Make the usual members and start them."""
        options = ("--lease-seconds", str(lease_seconds), "--processes", "2", "--pool", "2")
        self.workers = [worker(f"worker{n}", self.folder, self.env, *options) for n in range(3)]
        self.schedulers = [scheduler(f"scheduler{n}", self.folder, self.env) for n in range(2)]
        command = ["-m", "skiplane.tests.chaos.kills.producer"]
        self.producers = [
            Member(
                name, [*command, name, str(self._chance.randrange(10**6))], self.folder, self.env
            )
            for name in ("producer0", "producer1")
        ]
        for member in self.members:
            member.start()

    def rage(
        self, seconds: float, pause: tuple[float, float], look: Callable[[], None] = lambda: None
    ) -> None:
        """Kill at random, one kind after the other so that none is left out.

        Args:
            seconds: How long.
            pause: Least and most seconds between two kills.
            look: Called before each kill, while the server is there.
        """
        end = time.monotonic() + seconds
        next_kill = time.monotonic() + 2
        deck: list[Callable[[], str]] = []
        while time.monotonic() < end:
            self.keep()
            if time.monotonic() >= next_kill:
                deck = deck or self._shuffled()
                if self._down_until is None:
                    look()
                self.kills[deck.pop()()] += 1
                next_kill = time.monotonic() + self._chance.uniform(*pause)
            self._pace.wait(0.03)

    def keep(self) -> None:
        """Start again what is due."""
        now = time.monotonic()
        if self._down_until is not None and now >= self._down_until:
            self.server.start()
            self._down_until = None
        for at in [at for at in self._paused if at <= now]:
            for pid in self._paused.pop(at):
                send(pid, signal.SIGCONT)
        for member in self.members:
            member.keep(self._chance)

    def calm(self) -> None:
        """Bring everything back, with nobody killed any more."""
        while self._down_until is not None or self._paused:
            self.keep()
            self._pace.wait(0.03)
        for member in self.members:
            while not member.running:
                member.keep(self._chance)
                self._pace.wait(0.03)

    def crash(self) -> None:
        """Kill all processes of the server."""
        backends = descendants(self.server.pid)
        send(self.server.pid, signal.SIGKILL)
        kill_all(backends)
        self.server.kill9()

    def end(self) -> None:
        """Leave no process."""
        for member in self.members:
            member.end()

    def _shuffled(self) -> list[Callable[[], str]]:
        kinds = [self._workers, self._children, self._schedulers, self._postgres, self._backend]
        kinds += [self._supervisor, self._workers, self._children, self._producer, self._pause]
        self._chance.shuffle(kinds)
        return kinds

    def _workers(self) -> str:
        self._chance.choice(self.workers).kill()
        return "worker with all its processes"

    def _children(self) -> str:
        self._chance.choice(self.workers).kill_child(self._chance)
        return "process of a worker"

    def _supervisor(self) -> str:
        self._chance.choice(self.workers).kill(whole=False)
        return "supervisor alone"

    def _schedulers(self) -> str:
        self._chance.choice(self.schedulers).kill()
        return "scheduler"

    def _producer(self) -> str:
        self._chance.choice(self.producers).kill()
        return "producer"

    def _pause(self) -> str:
        """Stop a worker for longer than its lease, and have it wake as a zombie."""
        chosen = self._chance.choice(self.workers)
        if chosen.running:
            pids = [chosen.pid, *descendants(chosen.pid)]
            for pid in pids:
                send(pid, signal.SIGSTOP)
            self._paused[time.monotonic() + self._chance.uniform(2, 7)] = pids
        return "pause of a worker"

    def _postgres(self) -> str:
        if self._down_until is None:
            self.crash()
            self._down_until = time.monotonic() + self._chance.uniform(0.1, 2)
        return "PostgreSQL"

    def _backend(self) -> str:
        """Kill one process of the server, which ends all others and recovers."""
        if self._down_until is None and (backends := descendants(self.server.pid)):
            kill_all([self._chance.choice(backends)])
        return "process of PostgreSQL"


@contextmanager
def running_fleet(folder: Path, seed: int) -> Iterator[Fleet]:
    """Run a server of its own with an empty fleet, until the end of the block."""
    with server_folder() as data, EmbeddedServer(data, settings=SETTINGS) as server:
        dsn = server.tcp_dsn()
        migrate(dsn)
        with psycopg.connect(dsn, autocommit=True) as conn:
            conn.execute(EFFECTS)
            conn.cursor().executemany(SCHEDULE, SCHEDULES)
        fleet = Fleet(server, folder, random.Random(seed))
        try:
            yield fleet
        finally:
            fleet.end()

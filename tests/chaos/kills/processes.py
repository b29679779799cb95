"""Real processes that are killed and come back."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

PROGRAM = "from skiplane.cli import main; main(prog_name='skiplane')"
APP = "skiplane.tests.chaos.kills.tasks"


class Member:
    """A process that is started again whenever it has ended.

    Attributes:
        name: For the log's name and for messages.
        log: What it and its children write, over all its lives.
        surprises: Exit codes with which it ended though nobody had killed it.
    """

    def __init__(
        self, name: str, command: Sequence[str], folder: Path, env: Mapping[str, str]
    ) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        self.surprises: list[int] = []
        self._command = [sys.executable, *command]
        self._env = {**os.environ, "SKIPLANE_LOG_FORMAT": "json", **env}
        self._process: subprocess.Popen[bytes] | None = None
        self._killed = False
        self._start_at = 0.0

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self._process is not None
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether it runs."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it; from the main thread, whose end would end it."""
        self._killed = False
        with self.log.open("ab") as out:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=self._env,
                start_new_session=True,
            )

    def keep(self, chance: random.Random) -> None:
        """Start it again if it has ended, after a moment."""
        if self.running:
            return
        if self._process is not None:
            self._note_end(self._process.wait())
            self._process = None
            self._start_at = time.monotonic() + chance.uniform(0.1, 1.5)
        if time.monotonic() >= self._start_at:
            self.start()

    def kill(self, *, whole: bool = True) -> None:
        """Kill it with all that descends from it, or the process alone."""
        if self.running:
            self._killed = True
            kill_all([self.pid, *descendants(self.pid)] if whole else [self.pid])

    def kill_child(self, chance: random.Random) -> bool:
        """Kill one process that descends from it; False when there is none."""
        found = descendants(self.pid) if self.running else []
        if found:
            kill_all([chance.choice(found)])
        return bool(found)

    def stop(self, timeout: float = 30) -> int:
        """Stop it gracefully and give the exit code."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(timeout)

    def end(self) -> None:
        """Leave nothing of it."""
        self.kill()
        if self._process is not None:
            self._process.wait()

    def _note_end(self, code: int) -> None:
        if not self._killed:
            self.surprises.append(code)


def worker(
    name: str, folder: Path, env: Mapping[str, str], *options: str, app: str = APP
) -> Member:
    """Give a ``skiplane worker`` that has not been started."""
    return Member(name, ["-c", PROGRAM, "worker", "--app", app, *options], folder, env)


def scheduler(name: str, folder: Path, env: Mapping[str, str]) -> Member:
    """Give a ``skiplane scheduler`` that has not been started."""
    return Member(name, ["-c", PROGRAM, "scheduler"], folder, env)


def kill_all(pids: Sequence[int]) -> None:
    """Kill processes; those that are gone do not matter."""
    for pid in pids:
        send(pid, signal.SIGKILL)


def send(pid: int, number: signal.Signals) -> None:
    """Send a signal if the process is still there."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def descendants(pid: int) -> list[int]:
    """Give the ids of all processes that descend from one, parents first."""
    parents: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            stat = (folder / "stat").read_text()
        except OSError:
            continue
        # The name before the state may itself hold spaces and brackets.
        parents.setdefault(int(stat.rpartition(")")[2].split()[1]), []).append(int(folder.name))
    found = [pid]
    for one in found:
        found.extend(parents.get(one, []))
    return found[1:]

"""Processes of Skiplane that live no longer than the one that started them."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

from ..schema.embedded import launch
from ..schema.embedded.process import PARENT_DEATH

# Not the script beside the interpreter: an environment may come without it.
PROGRAM = (sys.executable, "-c", "from skiplane.cli import main; main(prog_name='skiplane')")


class Child:
    """One `skiplane` command as a child process with its own log file.

    It gets SIGINT when this process ends, however it ends, and not when
    somebody presses Ctrl-C: who started it decides in what order things stop.
    """

    def __init__(
        self, name: str, arguments: list[str], log: Path, environment: Mapping[str, str]
    ) -> None:
        """Start it.

        Args:
            name: How messages call it.
            arguments: The command and its options.
            log: Where its output is appended to.
            environment: Variables on top of this process's own.
        """
        self.name = name
        self.log = log
        self._over = threading.Event()
        self._started = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        # The parent-death signal belongs to the thread that forks.
        threading.Thread(
            target=self._keep, args=([*PROGRAM, *arguments], dict(environment)), daemon=True
        ).start()
        self._started.wait()

    def _keep(self, command: list[str], environment: dict[str, str]) -> None:
        pipe = PARENT_DEATH == "pipe"
        launcher = [sys.executable, "-I", "-S", str(Path(launch.__file__)), PARENT_DEATH]
        try:
            with self.log.open("ab") as log:
                self._process = subprocess.Popen(
                    [*launcher, "-", "-", str(os.getpid()), "2", *command],
                    stdin=subprocess.PIPE if pipe else subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env={**os.environ, **environment},
                    start_new_session=True,
                )
        finally:
            self._started.set()
        self._over.wait()

    @property
    def process(self) -> "subprocess.Popen[bytes]":
        """The process; an error when it could not be started."""
        if self._process is None:
            raise OSError(f"the {self.name} could not be started")
        return self._process

    def exit_code(self) -> int | None:
        """Give its exit code, None while it runs."""
        return self.process.poll()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal; nothing happens when it has ended."""
        self.process.send_signal(number)

    def stop(self, seconds: float) -> bool:
        """Ask it to stop, and kill it when it has not after ``seconds``; False then."""
        self.signal(signal.SIGTERM)
        return self.wait(seconds)

    def wait(self, seconds: float) -> bool:
        """Wait for its end, and kill it when it does not come; False then."""
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            # Its own session: nothing that it started stays behind.
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            return False
        finally:
            self._over.set()
        return True

    def last_words(self, lines: int = 10) -> str:
        """Give the end of its log."""
        try:
            text = self.log.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""
        return "\n".join(text.splitlines()[-lines:])

"""The server's process, tied to the life of this one."""

import contextlib
import importlib.util
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from .binaries import Account, EmbeddedError, clean_environment

# Only Linux can tell a process that its parent died; ctypes is how to ask for it.
PARENT_DEATH = (
    "signal" if sys.platform == "linux" and importlib.util.find_spec("_ctypes") else "pipe"
)


class ServerProcess:
    """A running server that is shut down when this process ends, however it ends.

    Args:
        command: The server's program and its arguments.
        account: The user that it runs as, None for our own.
        lock: A descriptor that all its processes keep open.
        log: A descriptor for its output.
        parent_death: ``signal`` or ``pipe``: how it learns of our end.

    Raises:
        EmbeddedError: It could not be started.
    """

    def __init__(
        self,
        command: Sequence[str],
        account: Account | None,
        *,
        lock: int,
        log: int,
        parent_death: str = PARENT_DEATH,
    ) -> None:
        self._owner = os.getpid()
        self._over = threading.Event()
        self._started = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._error: OSError | None = None
        launcher = [
            # Isolated and without site: fast, and nothing of the caller's runs as another user.
            *(sys.executable, "-I", "-S", str(Path(__file__).with_name("launch.py"))),
            parent_death,
            *((str(account.uid), str(account.gid)) if account else ("-", "-")),
            *(str(os.getpid()), str(lock)),
            *command,
        ]
        # The parent-death signal belongs to the thread that forks, so that
        # thread must live as long as the server, whoever called us.
        threading.Thread(
            target=self._keep,
            args=(launcher, lock, log, parent_death == "pipe"),
            name="skiplane-postgres",
            daemon=True,
        ).start()
        self._started.wait()
        if self._error:
            raise EmbeddedError(f"The embedded server cannot be launched: {self._error}.")

    def _keep(self, launcher: list[str], lock: int, log: int, pipe: bool) -> None:
        try:
            self._process = subprocess.Popen(
                launcher,
                stdin=subprocess.PIPE if pipe else subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(lock,),
                env=clean_environment(),
                cwd="/",
                # Else Ctrl-C in the terminal ends it before those who use it.
                start_new_session=True,
            )
        except OSError as error:
            self._error = error
        self._started.set()
        self._over.wait()

    @property
    def process(self) -> "subprocess.Popen[bytes]":
        """The child: the server, or in pipe mode the launcher that waits for it."""
        assert self._process is not None
        return self._process

    @property
    def ended(self) -> bool:
        """Whether it has ended."""
        return self.process.poll() is not None

    def stop(self, postmaster: int | None) -> None:
        """Shut down: first cancelling and saving, then at once, then by force.

        Args:
            postmaster: The server's main process, None for the child itself.
        """
        # A forked child that ends must not stop its parent's server.
        if self._owner != os.getpid():
            return
        target = postmaster or self.process.pid
        for kind, seconds in ((signal.SIGINT, 60), (signal.SIGQUIT, 10), (signal.SIGKILL, 10)):
            if not self.ended:
                self._signal(target, kind, seconds)
        self._finish()

    def kill9(self, postmaster: int) -> None:
        """Kill the main process, as a crash would."""
        self._signal(postmaster, signal.SIGKILL, 10)
        self._finish()

    def _signal(self, target: int, kind: int, seconds: float) -> None:
        with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
            os.kill(target, kind)
            self.process.wait(seconds)

    def _finish(self) -> None:
        if self.process.stdin:
            self.process.stdin.close()
        self._over.set()

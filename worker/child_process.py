"""A worker process as its supervisor sees it."""

import contextlib
import os
import select
import subprocess
import sys
import time
import uuid

import msgspec

from .begun import Noted, read, shared_file
from .orders import ENDED, READY, STOP, Orders
from .processes import is_running, kill_group
from .settings import WorkerSettings


class ChildProcess:
    """One start of a worker process, in a session of its own.

    Attributes:
        worker_id: Its identity: new with every start.
        guard: Readable when it is ready, and at the end when it and its pool's
            host are gone.
        ready: Whether it has said that it claims.
        ended: Whether it has said that it ends as it should.
        outstayed: Whether it was killed because it did not stop in time.
        begun: After its end, the tasks that it had begun; None: all that it held.
    """

    def __init__(self, settings: WorkerSettings, name: str) -> None:
        """Start it; from the main thread only, whose end would kill it."""
        self.worker_id = str(uuid.uuid4())
        self.ready = False
        self.ended = False
        self.outstayed = False
        self.begun: Noted | None = None
        self._memory = shared_file()
        self._began = time.monotonic()
        memory = self._memory.fileno()
        their_command, self._command = os.pipe()
        self.guard, their_guard = os.pipe()
        try:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "skiplane.worker.child",
                    *map(str, (os.getpid(), their_command, their_guard, memory)),
                ],
                pass_fds=(their_command, their_guard, memory),
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        finally:
            os.close(their_command)
            os.close(their_guard)
        # Through the pipe, since a DSN may hold a password and arguments are public.
        orders = Orders(msgspec.structs.replace(settings, name=name), self.worker_id)
        self._say(msgspec.json.encode(orders) + b"\n")

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def age(self) -> float:
        """Seconds since its start."""
        return time.monotonic() - self._began

    def hear(self) -> bool:
        """Take what it has said; False at the end."""
        data = os.read(self.guard, 64)
        self.ready |= READY in data
        self.ended |= ENDED in data
        return bool(data)

    def poll(self) -> int | None:
        """Give its exit code, None while it lives."""
        return self._process.poll()

    def how_it_ended(self) -> str:
        """Say how it ended."""
        code = self._process.returncode
        return f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"

    def can_run(self) -> bool:
        """Tell whether it is neither stopped nor dead."""
        return is_running(self.pid)

    def stop(self) -> None:
        """Ask it to stop."""
        self._say(STOP)

    def kill(self) -> None:
        """Kill it and what its tasks have started."""
        if self._process.poll() is None:
            kill_group(self.pid)

    def finish(self, seconds: float) -> None:
        """Wait for the end of all that belongs to it, and let go of it."""
        kill_group(self.pid)
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            ready, _, _ = select.select([self.guard], [], [], left)
            if ready and not self.hear():
                break
        self.begun = read(self._memory)
        self._memory.close()
        os.close(self.guard)
        os.close(self._command)

    def _say(self, data: bytes) -> None:
        with contextlib.suppress(OSError):
            os.write(self._command, data)

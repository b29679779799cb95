"""Folders for servers, and servers in other processes."""

import contextlib
import json
import os
import pwd
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from skiplane.schema.embedded import EmbeddedServer
from skiplane.tests.support.databases import server_folder

PROGRAM = """
import json, sys, threading
from skiplane.schema.embedded import EmbeddedServer, process
from skiplane.schema.embedded.process import ServerProcess

folder, parent_death = sys.argv[1:]
ServerProcess.__init__.__kwdefaults__["parent_death"] = parent_death
server = EmbeddedServer(folder, fast=True)
# From a thread that ends at once, as asyncio.to_thread may do it.
thread = threading.Thread(target=server.start)
thread.start()
thread.join()
print(json.dumps([server.dsn(), server.pid, server.attached]), flush=True)
sys.stdin.read()
server.stop()
"""

# The interpreter may be in root's home, where the other user could not run it.
REACH = ["--inh-caps=-all,+dac_override", "--ambient-caps=-all,+dac_override"]


class Starter:
    """A process that starts a server on a folder and keeps it until told to end."""

    def __init__(self, folder: Path, user: int | None, parent_death: str) -> None:
        become = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", *REACH]
        self.process = subprocess.Popen(
            [
                *(become if user else []),
                *(sys.executable, "-c", PROGRAM, str(folder), parent_death),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd="/",
        )

    def ready(self) -> "Starter":
        """Wait for the server; sets dsn, pid and attached."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the starter failed; see its standard error"
        self.dsn, self.pid, self.attached = json.loads(line)
        return self

    def end(self) -> None:
        """Let it stop its server and end."""
        self.process.communicate(timeout=60)

    def kill(self) -> None:
        """Kill it, as the kernel does when memory is short."""
        self.process.kill()
        self.process.communicate(timeout=60)


@pytest.fixture
def empty_folder() -> Iterator[Path]:
    """A folder that the server's user can enter."""
    with server_folder() as made:
        yield made


@pytest.fixture(scope="session")
def initialised() -> Iterator[Path]:
    """A folder with a stopped server; initdb takes longer than all the rest of most tests."""
    with server_folder() as made:
        with EmbeddedServer(made, fast=True):
            pass
        yield made


@pytest.fixture
def folder(initialised: Path) -> Iterator[Path]:
    """A copy of that folder."""
    with server_folder() as made:
        subprocess.run(["cp", "-a", f"{initialised}/.", made], check=True)
        yield made


@pytest.fixture
def starter() -> Iterator[Callable[..., Starter]]:
    """Make starters; all end with the test."""
    made: list[Starter] = []

    def make(folder: Path, user: int | None = None, parent_death: str = "signal") -> Starter:
        made.append(Starter(folder, user, parent_death))
        return made[-1]

    yield make
    for one in made:
        one.kill()


def nobody() -> int:
    """User id of an ordinary user, for tests that root runs."""
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("needs root and setpriv, to become another user")
    return pwd.getpwnam("nobody").pw_uid


def processes_of(folder: Path) -> list[int]:
    """Process ids of every server process on that folder (Linux)."""
    found = []
    for cwd in Path("/proc").glob("[0-9]*/cwd"):
        with contextlib.suppress(OSError):
            if cwd.readlink() == folder / "pg":
                found.append(int(cwd.parent.name))
    return found

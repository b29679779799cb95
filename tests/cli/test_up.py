"""skiplane up: everything runs, and nothing stays."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from skiplane.tests.cli.conftest import PROGRAM
from skiplane.tests.support import wait_until
from skiplane.tests.support.databases import server_folder
from skiplane.tests.worker.helpers import alive

# Two that begin at the same moment may both choose the default port.
pytestmark = pytest.mark.xdist_group("up")

COMMAND = [sys.executable, "-c", PROGRAM]
Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def folder() -> Iterator[Path]:
    """A data folder that the server's user can enter."""
    with server_folder() as made:
        yield made / "data"


@pytest.fixture
def run(bare: dict[str, str], folder: Path) -> Run:
    """Runs another command while `up` runs."""

    def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
        environment = {**bare, "SKIPLANE_DATA": str(folder)}
        return subprocess.run(
            [*COMMAND, *arguments], capture_output=True, text=True, timeout=60, env=environment
        )

    return run


@contextmanager
def up(bare: dict[str, str], folder: Path, *options: str) -> Iterator["subprocess.Popen[str]"]:
    command = [*COMMAND, "up", "--data", str(folder), *options]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=bare) as process:
        try:
            yield process
        finally:
            process.kill()


def answered(web: str, key: str) -> int:
    request = urllib.request.Request(
        f"{web}/api/v1/tasks", headers={"Authorization": f"Bearer {key}"}
    )
    with urllib.request.urlopen(request, timeout=10) as response:
        return int(response.status)


def ready(process: "subprocess.Popen[str]") -> dict[str, Any]:
    assert process.stdout
    line = process.stdout.readline()
    assert line, process.stderr and process.stderr.read()
    found: dict[str, Any] = json.loads(line)
    return found


def family(pid: int) -> set[int]:
    """Give a process and all that descend from it."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                parents.setdefault(int(fields[1]), []).append(int(entry.name))
    found, todo = set(), [pid]
    while todo:
        found.add(todo[-1])
        todo.extend(parents.get(todo.pop(), []))
    return found


def wait_all_gone(pids: set[int], timeout: float = 30) -> None:
    wait_until(lambda: not any(map(alive, pids)), timeout, f"{pids} to be gone")


def test_a_task_goes_all_the_way_and_ctrl_c_leaves_nothing(
    bare: dict[str, str], folder: Path, run: Run
):
    with up(bare, folder, "--json", "--no-demo") as process:
        said = ready(process)
        assert said["pid"] == process.pid
        assert answered(said["web"], said["key"]) == 200
        done = run("submit", "demo.greet", '{"name": "Ada"}', "--wait", "60", "--json")
        assert json.loads(done.stdout)["result"] == "Hello, Ada!"
        assert done.returncode == 0
        everybody = family(process.pid)
        # Itself, a server, a scheduler, the API, a worker and its child at least.
        assert len(everybody) >= 6
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    wait_all_gone(everybody)
    assert not (folder / "endpoint.json").exists()
    assert run("task", "list").returncode == 1


def test_data_stays_for_the_next_time(bare: dict[str, str], folder: Path, run: Run):
    with up(bare, folder, "--json", "--no-demo") as process:
        ready(process)
        done = run("submit", "demo.greet", '{"name": "Ada"}', "--wait", "60", "--json")
        task_id = json.loads(done.stdout)["task_id"]
        process.terminate()
        assert process.wait(60) == 0
    with up(bare, folder, "--json", "--no-demo") as process:
        ready(process)
        assert json.loads(run("task", "show", task_id, "--json").stdout)["status"] == "SUCCEEDED"


def test_killed_one_takes_everything_with_it(bare: dict[str, str], folder: Path):
    with up(bare, folder, "--json", "--no-demo") as process:
        ready(process)
        everybody = family(process.pid)
        process.kill()
        process.wait()
        wait_all_gone(everybody)


def test_second_one_on_a_folder_is_refused(bare: dict[str, str], folder: Path):
    with up(bare, folder, "--json", "--no-demo") as first:
        ready(first)
        with up(bare, folder, "--json") as second:
            assert second.wait(60) == 1
            assert second.stderr
            said = second.stderr.read()
        assert "already runs" in said
        assert str(first.pid) in said
        assert first.poll() is None


def test_given_database_is_used(bare: dict[str, str], folder: Path, empty_dsn: str, run: Run):
    with up(bare, folder, "--json", "--no-demo", "--dsn", empty_dsn) as process:
        assert ready(process)["dsn"] == empty_dsn
        done = run("submit", "demo.greet", '{"name": "Ada"}', "--wait", "60", "--json")
        assert json.loads(done.stdout)["result"] == "Hello, Ada!"
        assert not (folder / "pg").exists()
        everybody = family(process.pid)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    wait_all_gone(everybody)


def test_worker_that_cannot_start_ends_it_with_the_reason(bare: dict[str, str], folder: Path):
    with up(bare, folder, "--json", "--app", "no.such.module") as process:
        assert process.wait(60) == 2
        assert process.stderr
        said = process.stderr.read()
    assert "worker" in said
    assert "no.such.module" in said
    assert "Traceback" not in said


def test_demo_shows_every_way_a_task_can_go(bare: dict[str, str], folder: Path):
    with up(bare, folder) as process:
        assert process.stdout
        seen: set[tuple[str, str]] = set()
        wanted = {
            ("SUCCEEDED", "demo.greet"),
            ("SCHEDULED", "demo.remind"),
            ("SUCCEEDED", "demo.flaky"),
            ("SUCCEEDED", "demo.report"),
            ("SUCCEEDED", "demo.tick"),
            ("DEAD", "demo.broken"),
        }
        deadline = time.monotonic() + 60
        while not wanted <= seen and time.monotonic() < deadline:
            words = process.stdout.readline().split()
            seen.add((words[1], words[2]))
        assert wanted <= seen
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0


def test_terminal_shows_it_live(bare: dict[str, str], folder: Path):
    main, terminal = pty.openpty()
    command = [*COMMAND, "up", "--data", str(folder)]
    environment = {**bare, "TERM": "xterm", "COLUMNS": "80", "LINES": "40"}
    process = subprocess.Popen(
        command, stdin=terminal, stdout=terminal, stderr=terminal, env=environment
    )
    os.close(terminal)
    shown = ""
    try:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not re.search(r"\d+ SUCCEEDED", shown):
            if select.select([main], [], [], 1)[0]:
                raw = os.read(main, 65536).decode(errors="replace")
                shown += re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", raw)
        assert "skiplane submit demo.greet" in shown
        assert re.search(r"\d+ SUCCEEDED", shown)
        # The ids can be copied.
        assert re.search(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", shown)
        everybody = family(process.pid)
        # The terminal is closed.
        os.close(main)
        process.send_signal(signal.SIGHUP)
        process.wait(60)
    finally:
        process.kill()
        process.wait()
    wait_all_gone(everybody)

"""The processes of `skiplane web`: they share a port, come back, and end."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx

from skiplane.schema import key_calls
from skiplane.schema.pools import SyncPool
from skiplane.tests.cli.conftest import PROGRAM
from skiplane.tests.support import wait_until
from skiplane.tests.worker.helpers import alive

COMMAND = [sys.executable, "-c", PROGRAM, "web"]


@contextmanager
def web(dsn: str, *options: str) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    command = [*COMMAND, "--dsn", dsn, "--port", "0", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout
    try:
        url = process.stdout.readline().strip()
        assert url.startswith("http://127.0.0.1:"), process.stderr and process.stderr.read()
        wait_until(lambda: answers(url), 30, "the server")
        yield process, url
    finally:
        process.kill()
        process.communicate()


def answers(url: str) -> bool:
    with suppress(httpx.HTTPError):
        return httpx.get(f"{url}/healthz", timeout=2).status_code == 200
    return False


def children(pid: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                command = (entry / "cmdline").read_bytes()
                if int(fields[1]) == pid and b"spawn_main" in command:
                    found.append(int(entry.name))
    return sorted(found)


def make_key(dsn: str) -> dict[str, str]:
    drawn = key_calls.draw_key()
    pool = SyncPool(dsn, size=1)
    pool.run(key_calls.create_api_key(drawn, "t", "admin"))
    pool.close()
    return {"Authorization": f"Bearer {drawn.key}"}


def test_sigterm_ends_open_streams_and_all_processes(dsn: str):
    headers = make_key(dsn)
    with web(dsn, "--processes", "2") as (process, url):
        wait_until(lambda: len(children(process.pid)) == 2, what="two processes")
        family = children(process.pid)
        ended = threading.Event()

        def listen() -> None:
            with httpx.stream("GET", f"{url}/api/v1/events", headers=headers, timeout=60) as told:
                begun.set()
                for _ in told.iter_lines():
                    pass
            ended.set()

        begun = threading.Event()
        thread = threading.Thread(target=listen)
        thread.start()
        assert begun.wait(30)
        at = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
        thread.join(30)
        assert ended.is_set()
        assert time.monotonic() - at < 30
        assert not any(map(alive, family))


def test_process_that_dies_is_started_again(dsn: str):
    with web(dsn, "--processes", "2") as (process, url):
        wait_until(lambda: len(children(process.pid)) == 2, what="two processes")
        first = children(process.pid)
        os.kill(first[0], signal.SIGKILL)
        wait_until(lambda: set(children(process.pid)) - set(first), 20, "another process")
        wait_until(lambda: len(children(process.pid)) == 2, 20, "two processes")
        assert answers(url)


def test_killed_parent_leaves_nothing(dsn: str):
    with web(dsn, "--processes", "2") as (process, _):
        wait_until(lambda: len(children(process.pid)) == 2, what="two processes")
        family = children(process.pid)
        process.kill()
        wait_until(lambda: not any(map(alive, family)), 20, "the processes to end")


def test_port_that_is_taken_is_told(dsn: str):
    with web(dsn, "--processes", "2") as (_, url):
        port = url.rpartition(":")[2]
        for processes in ("1", "2"):
            done = subprocess.run(
                [*COMMAND, "--dsn", dsn, "--port", port, "--processes", processes],
                capture_output=True,
                text=True,
                timeout=30,
            )
            assert done.returncode == 1
            assert "Give another --host or --port" in done.stderr


def test_logs_hold_no_key(dsn: str):
    headers = make_key(dsn)
    with web(dsn) as (process, url):
        httpx.get(f"{url}/api/v1/tasks", headers=headers)
        httpx.get(f"{url}/api/v1/nothing?key=sk_secret", headers=headers)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
        assert process.stderr
        said = process.stderr.read()
    assert re.search(r"sk_[0-9a-f]{8}_", said) is None
    assert "sk_secret" not in said

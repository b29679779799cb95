"""Waiting on conditions: a bare sleep is either too short or too long."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import psycopg

T = TypeVar("T")
PAUSE = 0.01


def wait_until(predicate: Callable[[], T], timeout: float = 30.0, what: str = "") -> T:
    """Call until it gives something true, and give that.

    Args:
        predicate: Called every 10 ms.
        timeout: Seconds after which the test fails.
        what: What is waited for, for the message.

    Raises:
        AssertionError: It did not come.
    """
    deadline = time.monotonic() + timeout
    while not (result := predicate()):
        assert time.monotonic() < deadline, f"waited {timeout} s for {what or predicate}"
        time.sleep(PAUSE)
    return result


async def wait_until_async(
    predicate: Callable[[], T | Awaitable[T]],
    timeout: float = 30.0,  # noqa: ASYNC109 (asyncio.timeout could not say what was waited for)
    what: str = "",
) -> T:
    """Do the same on the event loop; the predicate may be a coroutine function."""
    deadline = time.monotonic() + timeout
    while True:
        result = predicate()
        if inspect.isawaitable(result):
            result = await result
        if result:
            return result
        assert time.monotonic() < deadline, f"waited {timeout} s for {what or predicate}"
        await asyncio.sleep(PAUSE)


def backend_waits_for_lock(conn: psycopg.Connection[Any], pid: int) -> bool:
    """Tell whether the server process ``pid`` waits for a lock that another one holds."""
    row = conn.execute("select cardinality(pg_blocking_pids(%s)) > 0", [pid]).fetchone()
    return bool(row and row[0])


def wait_for_lock(conn: psycopg.Connection[Any], pid: int, timeout: float = 30.0) -> None:
    """Wait until the server process ``pid`` waits for a lock.

    Args:
        conn: A third connection: the two of the race are busy.
        pid: ``connection.info.backend_pid`` of the one that should wait.
        timeout: Seconds after which the test fails.
    """
    wait_until(lambda: backend_waits_for_lock(conn, pid), timeout, f"process {pid} to wait")

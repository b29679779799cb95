"""The tasks that workers under test run."""

# ruff: noqa: ASYNC240, ASYNC251  (what tasks do wrong is the point)

import asyncio
import contextlib
import ctypes
import decimal
import logging
import os
import random
import signal
import subprocess
import sys
import threading
import time
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import structlog

from skiplane import Context, PermanentError, Postpone, Retry, Skiplane, SyncContext

app = Skiplane()


@app.task("echo")
async def echo(value: Any) -> Any:
    return value


@app.task("typed")
async def typed(to: str, count: int = 1) -> str:
    return to * count


@app.task("sleep")
async def sleep(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "slept"


@app.task("block")
async def block(seconds: float) -> str:
    time.sleep(seconds)
    return "blocked"


@app.task("hold_gil")
async def hold_gil(seconds: int) -> str:
    # PyDLL does not let go of the interpreter, as a bad C extension would not.
    ctypes.PyDLL(None).sleep(seconds)
    return "held"


@app.task("stubborn")
async def stubborn(seconds: float) -> str:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(0.01)
    return "late"


@app.task("sync_echo")
def sync_echo(value: Any) -> Any:
    return value


@app.task("sync_pid")
def sync_pid() -> int:
    return os.getpid()


@app.task("sync_random")
def sync_random() -> tuple[int, float]:
    time.sleep(0.02)
    return os.getpid(), random.random()


@app.task("sync_sleep")
def sync_sleep(seconds: float, mark: str = "") -> str:
    if mark:
        Path(mark).write_text(str(os.getpid()))
    time.sleep(seconds)
    return "slept"


@app.task("family")
def family(mark: str, own_session: bool = False) -> None:
    """Start a child process, write down both ids, and wait."""
    child = subprocess.Popen(["sleep", "1000"], start_new_session=own_session)
    Path(mark).write_text(f"{os.getpid()} {child.pid}")
    time.sleep(1000)


@app.task("async_family")
async def async_family(mark: str) -> None:
    child = await asyncio.create_subprocess_exec("sleep", "1000")
    Path(mark).write_text(f"{os.getpid()} {child.pid}")
    time.sleep(1000)


def _family(mark: str) -> str:
    return f"sleep 1000 & echo $$ $! > {mark}; wait"


@app.task("parent")
async def parent(mark: str, how: str, until: str = "") -> None:
    """Start a shell that starts another process; wait, or end when the file ``until`` is there."""
    shell = _family(mark)
    if how == "exec":
        await asyncio.create_subprocess_exec("sh", "-c", shell)
    elif how == "shell":
        await asyncio.create_subprocess_shell(shell)
    elif how == "session":
        await asyncio.create_subprocess_exec("sh", "-c", shell, start_new_session=True)
    elif how == "run":
        await asyncio.to_thread(subprocess.run, ["sh", "-c", shell], check=False)
    else:
        subprocess.Popen(["sh", "-c", shell])  # noqa: ASYNC220
    await asyncio.to_thread(_wait_for, until)


def _wait_for(name: str) -> None:
    while not (name and Path(name).exists()):
        time.sleep(0.01)


@app.task("thread_parent", mode="thread")
def thread_parent(mark: str) -> None:
    """Start a shell that starts another process, and wait for it."""
    subprocess.run(["sh", "-c", _family(mark)], check=False)


@app.task("thread_sleep", mode="thread")
def thread_sleep(seconds: float) -> str:
    time.sleep(seconds)
    return "slept"


@app.task("thread_echo", mode="thread")
def thread_echo(value: Any) -> Any:
    return value


@app.task("watch_cancel")
async def watch_cancel(ctx: Context, mark: str) -> None:
    Path(mark).write_text("began")
    try:
        await asyncio.sleep(1000)
    finally:
        Path(mark).write_text(f"cancelled={ctx.cancelled}")


@app.task("sync_watch_cancel")
def sync_watch_cancel(ctx: SyncContext, mark: str) -> None:
    Path(mark).write_text("began")
    while not ctx.cancelled:
        time.sleep(0.01)
    Path(mark).write_text("cancelled=True")


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class OwnBase(BaseException):
    pass


def _endless() -> None:
    _endless()


def raise_it(name: str) -> None:
    loop_to_itself = ValueError("itself")
    loop_to_itself.__cause__ = loop_to_itself
    errors: dict[str, BaseException] = {
        "value": ValueError("plain"),
        "nul": ValueError("a\x00b"),
        "surrogate": ValueError("\ud800"),
        "huge": ValueError("é" * 5_000_000),
        "unprintable": Unprintable(),
        "itself": loop_to_itself,
        "group": BaseExceptionGroup("many", [ValueError(i) for i in range(1000)]),
        "exit0": SystemExit(0),
        "exit1": SystemExit(1),
        "interrupt": KeyboardInterrupt(),
        "generator": GeneratorExit(),
        "cancelled": asyncio.CancelledError(),
        "own": OwnBase("own"),
        "memory": MemoryError(),
        "stop": StopIteration(1),
        "permanent": PermanentError("never"),
        "retry": Retry(after=60),
        "postpone": Postpone(delay=60),
        "lookup": KeyError("listed"),
    }
    if name == "recursion":
        _endless()
    raise errors[name]


@app.task("fail", permanent_errors=(LookupError,), max_retries=1)
async def fail(name: str) -> None:
    raise_it(name)


@app.task("sync_fail", permanent_errors=(LookupError,), max_retries=1)
def sync_fail(name: str) -> None:
    raise_it(name)


@app.task("thread_fail", mode="thread", permanent_errors=(LookupError,), max_retries=1)
def thread_fail(name: str) -> None:
    raise_it(name)


def odd(name: str) -> Any:
    deep: Any = []
    for _ in range(5000):
        deep = [deep]
    return {
        "nan": float("nan"),
        "infinity": [float("inf")],
        "nul": "a\x00b",
        "escaped": "a\\u0000b",
        "surrogate": "\ud800",
        "object": object(),
        "deep": deep,
        "decimal_nan": decimal.Decimal("NaN"),
        "set": {1},
        "bytes": b"x",
        "huge_int": 10**5000,
    }[name]


@app.task("odd_result")
async def odd_result(name: str) -> Any:
    return odd(name)


@app.task("sync_odd_result")
def sync_odd_result(name: str) -> Any:
    return odd(name)


@app.task("cancel_everything")
async def cancel_everything() -> str:
    for task in asyncio.all_tasks():
        task.cancel()
    await asyncio.sleep(1000)
    return "never"


@app.task("stop_loop")
async def stop_loop() -> str:
    asyncio.get_running_loop().stop()
    await asyncio.sleep(0.05)
    return "still here"


@app.task("stray_exit")
async def stray_exit() -> str:
    async def leave() -> None:
        sys.exit(1)

    stray = asyncio.create_task(leave())
    await asyncio.sleep(0.05)
    return f"still here {stray.done()}"


@app.task("take_signals")
async def take_signals() -> str:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    return "taken"


@app.task("die")
async def die(how: str = "exit") -> None:
    die_now(how)


@app.task("sync_die")
def sync_die(how: str = "exit") -> None:
    die_now(how)


def die_now(how: str) -> None:
    if how == "exit":
        os._exit(0)
    os.kill(os.getpid(), signal.SIGKILL)


@app.task("stray_thread")
async def stray_thread() -> str:
    def boom() -> None:
        raise SystemExit(3)

    thread = threading.Thread(target=boom)
    thread.start()
    thread.join()
    return "ok"


@app.task("where")
async def where(ctx: Context) -> dict[str, Any]:
    ctx.log.info("here")
    return {
        "task_id": ctx.task_id,
        "type": ctx.task_type,
        "attempt": ctx.attempt,
        "fence": ctx.fence,
        "tenant": ctx.tenant_id,
        "metadata": ctx.metadata,
        "deadline": ctx.deadline is not None,
        "cancelled": ctx.cancelled,
    }


@app.task("sync_where")
def sync_where(ctx: SyncContext) -> dict[str, Any]:
    return {"attempt": ctx.attempt, "fence": ctx.fence, "metadata": ctx.metadata}


@app.task("steps")
async def steps(ctx: Context) -> Any:
    if ctx.last_checkpoint is None:
        await ctx.checkpoint({"done": 3})
        await ctx.progress(0.5, "half")
        raise Retry(after=0)
    return ctx.last_checkpoint


@app.task("sync_steps")
def sync_steps(ctx: SyncContext) -> Any:
    if ctx.last_checkpoint is None:
        ctx.checkpoint({"done": 3})
        ctx.progress(0.5, "half")
        raise Retry(after=0)
    return ctx.last_checkpoint


_seen: ContextVar[int] = ContextVar("seen", default=0)


@app.task("look_around")
async def look_around() -> int:
    """Give how many tasks before this one have left something in its context."""
    found = _seen.get()
    _seen.set(found + 1)
    return found


@app.task("pay")
async def pay(ctx: Context, how: str = "well", seconds: float = 0) -> str:
    await asyncio.sleep(seconds)
    async with ctx.transaction() as conn:
        await conn.execute("insert into payment values (%s)", (how,))
        ctx.set_result({"paid": how})
        if how == "fail_inside":
            raise ValueError("inside")
    if how == "fail_after":
        raise ValueError("after")
    return "not this"


@app.task("sync_pay")
def sync_pay(ctx: SyncContext, how: str = "well", seconds: float = 0) -> str:
    time.sleep(seconds)
    with ctx.transaction() as conn:
        conn.execute("insert into payment values (%s)", (how,))
        ctx.set_result({"paid": how})
        if how == "fail_inside":
            raise ValueError("inside")
    if how == "fail_after":
        raise ValueError("after")
    return "not this"


@app.task("slow_pay")
async def slow_pay(ctx: Context, mark: str, go: str) -> str:
    async with ctx.transaction() as conn:
        await conn.execute("insert into payment values ('slow')")
        Path(mark).write_text("open")
        while not Path(go).exists():  # noqa: ASYNC110  the test says when
            await asyncio.sleep(0.01)
    return "paid"


def log_here() -> None:
    logging.getLogger("library").warning("a library speaks")
    structlog.get_logger("mine").info("the task speaks")


@app.task("async_logs")
async def async_logs() -> None:
    log_here()


@app.task("pool_logs")
def pool_logs() -> None:
    log_here()


@app.task("thread_logs", mode="thread")
def thread_logs() -> None:
    log_here()

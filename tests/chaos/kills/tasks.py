"""The tasks of the kill tests: every kind of work that a kill may hit.

``marks()`` files, in the folder SKIPLANE_CHAOS_FOLDER, tell what a process had
been assured of before it was killed.
"""

import asyncio
import os
import time
from pathlib import Path

from skiplane import Context, PermanentError, Skiplane, SyncContext
from skiplane.schema.options import TaskOptions

app = Skiplane()

# A kill charges an attempt: what is to succeed must survive many.
PATIENT: TaskOptions = {"max_retries": 1000, "retry_delay": 0.1, "retry_max_delay": 0.5}
SHORT: TaskOptions = {"max_retries": 2, "retry_delay": 0.1, "retry_backoff": "fixed"}
LATE: TaskOptions = {**SHORT, "timeout": 0.5}
STEPS = 4
EFFECT = "insert into effect (task_id, fence) values (%s, %s)"


def mark(name: str, *words: object) -> None:
    """Append a line to a file that survives this process."""
    path = Path(os.environ["SKIPLANE_CHAOS_FOLDER"]) / f"{name}.marks"
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(file, (" ".join(map(str, words)) + "\n").encode())
    finally:
        os.close(file)


def marks(folder: Path, name: str) -> list[list[str]]:
    """Give the words of all lines that were written under a name."""
    path = folder / f"{name}.marks"
    return [line.split() for line in path.read_text().splitlines()] if path.exists() else []


@app.task("quick", **PATIENT)
async def quick(n: int) -> int:
    return n


@app.task("slow", **PATIENT)
async def slow(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "slept"


@app.task("pooled", **PATIENT)
def pooled(seconds: float) -> str:
    time.sleep(seconds)
    return "slept"


@app.task("flaky", **PATIENT)
async def flaky(ctx: Context, failures: int) -> int:
    if ctx.attempt <= failures:
        raise ValueError("not yet")
    return ctx.attempt


@app.task("hopeless", **PATIENT)
async def hopeless() -> None:
    raise PermanentError("never")


@app.task("doomed", **SHORT)
async def doomed() -> None:
    raise ValueError("always")


@app.task("late", **LATE)
async def late() -> None:
    await asyncio.sleep(1000)


@app.task("late_pooled", **LATE)
def late_pooled() -> None:
    time.sleep(1000)


@app.task("once", **PATIENT)
async def once(ctx: Context, seconds: float, failures: int) -> None:
    async with ctx.transaction() as conn:
        await conn.execute(EFFECT, (ctx.task_id, ctx.fence))
        await asyncio.sleep(seconds)
        if ctx.attempt <= failures:
            raise ValueError("after the write")
    # Its success is recorded: what comes now must change nothing.
    if failures:
        raise ValueError("after the end")


@app.task("once_pooled", **PATIENT)
def once_pooled(ctx: SyncContext, seconds: float) -> None:
    with ctx.transaction() as conn:
        conn.execute(EFFECT, (ctx.task_id, ctx.fence))
        time.sleep(seconds)


@app.task("steps", **PATIENT)
async def steps(ctx: Context) -> int:
    done = int(ctx.last_checkpoint["done"]) if ctx.last_checkpoint else 0
    mark("begun", ctx.task_id, ctx.fence, done)
    while done < STEPS:
        await asyncio.sleep(0.15)
        await ctx.checkpoint({"done": done + 1})
        done += 1
        mark("saved", ctx.task_id, ctx.fence, done)
    return done


def _wait_for(gate: str) -> None:
    path = Path(os.environ["SKIPLANE_CHAOS_FOLDER"]) / gate
    while not path.exists():
        time.sleep(0.01)


@app.task("gated", **PATIENT)
async def gated(ctx: Context, gate: str) -> int:
    """Tell where it runs, and run until a file is there."""
    mark("watched", ctx.task_id, ctx.fence, os.getpid(), time.monotonic())
    await asyncio.to_thread(_wait_for, gate)
    return ctx.fence


@app.task("gated_pooled", **PATIENT)
def gated_pooled(ctx: SyncContext, gate: str) -> int:
    """As ``gated``, in a pool process."""
    mark("watched", ctx.task_id, ctx.fence, os.getppid(), time.monotonic())
    _wait_for(gate)
    return ctx.fence


@app.task("tick", **PATIENT)
async def tick(ctx: Context) -> str:
    """Made by a schedule."""
    return str(ctx.metadata["fire_time"])


@app.task("replaceable", **PATIENT)
async def replaceable() -> None:
    """Made by a schedule, whose next fire comes before it ends."""
    await asyncio.sleep(1.5)


@app.task("watched", max_retries=5, retry_delay=0)
async def watched(ctx: Context, seconds: float, again: float = 0) -> str:
    """Tell where and when it runs; take ``seconds`` at first, and then ``again``."""
    mark("watched", ctx.task_id, ctx.fence, os.getpid(), time.monotonic())
    await asyncio.sleep(seconds if ctx.fence == 1 else again)
    return f"{ctx.fence}"

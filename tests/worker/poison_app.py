"""Tasks that are the end of their process, and the neighbours of such tasks."""

import asyncio
import os
import signal
import time
from pathlib import Path

import psycopg

from skiplane import Context, Skiplane, SyncContext

app = Skiplane()
_ended: list[str] = []
# Open beforehand: a poison that takes long is no longer one with others behind it.
_conn = psycopg.connect(os.environ["SKIPLANE_DSN"], autocommit=True)


@app.task("innocent")
async def innocent(ctx: Context) -> None:
    _ended.append(str(ctx.task_id))


@app.task("thread_poison", mode="thread")
def thread_poison(mark: str) -> None:
    """Die, when the ends of all that ran here before are recorded."""
    with Path(mark).open("a") as marks:
        marks.write(".")
    missing = "select exists (select from skiplane.get_results(%s::uuid[]) where not done)"
    while _conn.execute(missing, [_ended]).fetchone() != (False,):
        time.sleep(0.002)
    os._exit(1)


@app.task("poison")
async def poison(mark: str) -> None:
    """As ``thread_poison``, on the event loop."""
    await asyncio.to_thread(thread_poison, mark)


def _hang_first(mark: str) -> None:
    if not Path(mark).exists():
        Path(mark).touch()
        time.sleep(1000)


@app.task("hang_first")
def hang_first(mark: str) -> None:
    """Hang, if nobody has before."""
    _hang_first(mark)


@app.task("thread_hang_first", mode="thread")
def thread_hang_first(mark: str) -> None:
    """As ``hang_first``."""
    _hang_first(mark)


def _rest(began: str, until: str) -> None:
    with Path(began).open("a") as lines:
        lines.write(".")
    while not Path(until).exists():
        time.sleep(0.01)


def _tell(mark: str, text: str) -> None:
    Path(mark).write_text(text)


@app.task("resting")
async def resting(ctx: Context, began: str, until: str) -> int:
    """Tell that it has begun, and run until it may end."""
    await asyncio.to_thread(_rest, began, until)
    return ctx.attempt


@app.task("thread_resting", mode="thread")
def thread_resting(ctx: SyncContext, began: str, until: str) -> int:
    """As ``resting``."""
    _rest(began, until)
    return ctx.attempt


@app.task("process_resting")
def process_resting(ctx: SyncContext, began: str, until: str) -> int:
    """As ``resting``."""
    _rest(began, until)
    return ctx.attempt


def _fell(began: str, fellows: int, mark: str) -> None:
    with Path(mark).open("a") as marks:
        marks.write(".")
    starts = len(Path(mark).read_text())
    Path(began).touch()
    while len(Path(began).read_text()) < fellows * min(starts, 2):
        time.sleep(0.002)
    os._exit(1)


@app.task("felling")
async def felling(began: str, fellows: int, mark: str) -> None:
    """Die when so many others run beside it; at the second start, when all have begun again."""
    await asyncio.to_thread(_fell, began, fellows, mark)


@app.task("thread_felling", mode="thread")
def thread_felling(began: str, fellows: int, mark: str) -> None:
    """As ``felling``."""
    _fell(began, fellows, mark)


@app.task("process_felling")
def process_felling(began: str, fellows: int, mark: str) -> None:
    """As ``felling``, in a process where nothing else runs."""
    _fell(began, fellows if not Path(mark).exists() else 0, mark)


@app.task("deep")
async def deep(ctx: Context, checkpoint: bool) -> int:
    """Die at the first attempt; use all of the context at the second."""
    if ctx.attempt == 1:
        os._exit(1)
    async with ctx.transaction() as conn:
        await conn.execute("create table proof (pid integer)")
        ctx.set_result(os.getpid())
        await ctx.checkpoint(checkpoint)
        await asyncio.sleep(0.05)
    return 0


@app.task("patient")
async def patient(ctx: Context, mark: str) -> None:
    """Die at the first attempt; at the second, clean up when cancelled."""
    if ctx.attempt == 1:
        os._exit(1)
    _tell(mark, "running")
    try:
        await asyncio.sleep(1000)
    except asyncio.CancelledError:
        _tell(mark, "cleaned up")
        raise


@app.task("headless")
def headless() -> None:
    """Kill the host of the pool processes."""
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(1000)

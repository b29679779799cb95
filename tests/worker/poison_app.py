"""Tasks that are the end of their process, and the neighbours of such tasks."""

import asyncio
import os
import time
from pathlib import Path

import psycopg

from skiplane import Context, Skiplane

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

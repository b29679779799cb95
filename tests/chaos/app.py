"""The tasks that run while everything around them is killed.

Each writes down its execution first, in a file that no crash of the database
can take back: what ran is then compared with what the database says.
"""

import asyncio
import json
import os
import time
from typing import Any

from skiplane import Context, PermanentError, Skiplane, SyncContext

app = Skiplane()

EFFECT = "insert into public.effect (task_id, fence) values (%s::uuid, %s)"
STEPS = 4


def witness(ctx: Context | SyncContext) -> None:
    """Append one line, in one write, so that lines of many processes do not mix."""
    line = json.dumps({"id": ctx.task_id, "fence": ctx.fence, "attempt": ctx.attempt})
    file = os.open(os.environ["CHAOS_WITNESS"], os.O_WRONLY | os.O_APPEND)
    try:
        os.write(file, line.encode() + b"\n")
    finally:
        os.close(file)


@app.task("quick", max_retries=50)
async def quick(ctx: Context, n: int) -> int:
    witness(ctx)
    return n


@app.task("slow", max_retries=50)
async def slow(ctx: Context, n: int, seconds: float) -> int:
    witness(ctx)
    await asyncio.sleep(seconds)
    return n


@app.task("flaky", max_retries=50, retry_backoff="fixed", retry_delay_seconds=0.3)
async def flaky(ctx: Context, n: int, failures: int) -> int:
    witness(ctx)
    if ctx.attempt <= failures:
        raise ValueError(f"attempt {ctx.attempt} fails")
    return n


@app.task("doomed", max_retries=2, retry_backoff="fixed", retry_delay_seconds=0.2)
async def doomed(ctx: Context, n: int) -> None:
    witness(ctx)
    raise ValueError(f"{n} always fails")


@app.task("refused", max_retries=50)
async def refused(ctx: Context, n: int) -> None:
    witness(ctx)
    raise PermanentError(f"{n} can never work")


@app.task("pooled", max_retries=50)
def pooled(ctx: SyncContext, n: int) -> int:
    witness(ctx)
    time.sleep(0.02)
    return n


@app.task("exact", max_retries=50)
async def exact(ctx: Context, n: int) -> None:
    witness(ctx)
    async with ctx.transaction() as conn:
        await conn.execute(EFFECT, [ctx.task_id, ctx.fence])
        await asyncio.sleep(0.02)
        ctx.set_result(n)


@app.task("exact_pooled", max_retries=50)
def exact_pooled(ctx: SyncContext, n: int) -> None:
    witness(ctx)
    with ctx.transaction() as conn:
        conn.execute(EFFECT, [ctx.task_id, ctx.fence])
        time.sleep(0.02)
        ctx.set_result(n)


@app.task("steps", max_retries=50)
async def steps(ctx: Context, n: int) -> Any:
    """Go through the steps, each saved, from where the attempt before came to."""
    witness(ctx)
    done: int = (ctx.last_checkpoint or {"done": 0})["done"]
    begun_at = done
    while done < STEPS:
        await asyncio.sleep(0.1)
        done += 1
        await ctx.checkpoint({"done": done})
    return {"n": n, "done": done, "begun_at": begun_at}


@app.task("overdue", timeout_seconds=0.5, max_retries=1, retry_delay_seconds=0.2)
async def overdue(ctx: Context, n: int) -> int:
    witness(ctx)
    await asyncio.sleep(600)
    return n


@app.task("overdue_pooled", timeout_seconds=0.5, max_retries=1, retry_delay_seconds=0.2)
def overdue_pooled(ctx: SyncContext, n: int) -> int:
    witness(ctx)
    time.sleep(600)
    return n


@app.task("endless", max_retries=50)
async def endless(ctx: Context, n: int) -> int:
    """Run until somebody cancels it."""
    witness(ctx)
    await asyncio.sleep(600)
    return n

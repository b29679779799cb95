"""The demo of `skiplane up`: an app with one task for each way in which a task can go."""

import asyncio
import itertools
import random
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

from .. import Conflict, Context, Skiplane, chain, group, workflow

app = Skiplane()

NAMES = ("Ada", "Edsger", "Grace", "Barbara", "Donald", "Frances")
STEPS = 10
EVERY_FEW_SECONDS = "* * * * * */5"


@app.task("demo.greet")
async def greet(name: str) -> str:
    """Run at once."""
    return f"Hello, {name}!"


@app.task("demo.remind")
async def remind(text: str, asked_at: str) -> dict[str, Any]:
    """Run at its time."""
    waited = datetime.now(UTC) - datetime.fromisoformat(asked_at)
    return {"text": text, "waited_seconds": round(waited.total_seconds(), 3)}


@app.task("demo.flaky", max_retries=3, retry_delay=1)
async def flaky(ctx: Context) -> str:
    """Fail twice, then succeed."""
    if ctx.attempt <= 2:
        raise ConnectionError(f"the other side hung up on attempt {ctx.attempt}")
    return f"it took {ctx.attempt} attempts"


@app.task("demo.broken", max_retries=1, retry_delay=1)
def broken(amount: int) -> None:
    """Fail whenever it is tried, in a pool process; it ends in the dead letter queue."""
    raise ValueError(f"cannot divide {amount} by nothing")


@app.task("demo.report", timeout=60)
async def report(ctx: Context, pages: int) -> str:
    """Take its time, say how far it is, and go on after a crash where it stopped."""
    done = int(ctx.last_checkpoint or 0)
    for page in range(done + 1, pages + 1):
        await asyncio.sleep(0.5)
        await ctx.checkpoint(page)
        await ctx.progress(page / pages, f"page {page} of {pages}")
    return f"{pages} pages"


@app.task("demo.tick")
async def tick(ctx: Context) -> str:
    """Run whenever the demo's schedule fires."""
    return f"fired for {ctx.metadata['fire_time']}"


def make_schedule() -> None:
    """Let a schedule fire every few seconds; one that is there already goes on."""
    try:
        app.cron.create_sync("demo", EVERY_FEW_SECONDS, tick)
    except Conflict:
        app.cron.resume_sync(app.cron.find_sync("demo").cron_id)


@app.task("demo.count")
async def count(ctx: Context, number: int = 0) -> int:
    """Add a number to what its dependencies in a workflow gave."""
    total: int = number + sum((await ctx.dependency_results()).values())
    return total


def _submit_workflow() -> Any:
    flow = workflow("demo")
    flow.add(chain(count.step(1), group(count.step(n) for n in range(1, 4)), count))
    flow.task(greet.step("the one who fails"), after=list(flow.nodes), trigger="any_failed")
    return flow.submit_sync()


def submissions() -> Iterator[Callable[[], Any]]:
    """Give, for ever, functions that submit something each: most of them simple tasks."""
    kinds = (
        lambda: greet.submit_sync(name=random.choice(NAMES)),
        lambda: remind.options(delay=5).submit_sync(text="tea", asked_at=_now()),
        lambda: greet.submit_sync(name=random.choice(NAMES)),
        lambda: flaky.submit_sync(),
        lambda: report.submit_sync(pages=STEPS),
        lambda: greet.submit_sync(name=random.choice(NAMES)),
        lambda: broken.submit_sync(amount=random.randint(1, 99)),
        _submit_workflow,
    )
    return itertools.cycle(kinds)


def _now() -> str:
    return datetime.now(UTC).isoformat()

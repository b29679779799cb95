"""A nightly import as a workflow: shops side by side, then one report, and an alarm.

    skiplane worker --app nightly --queues default     in this folder
    python nightly.py

Each task is retried by its own rules. When a shop fails for good, the report is
failed with the reason and the alarm goes off; `skiplane workflow retry` runs the
shop and the report again once the cause is gone.
"""

import asyncio
import random

from skiplane import Context, Skiplane, WorkflowFailed, workflow

app = Skiplane()

SHOPS = ("north", "south", "east", "west")


@app.task("import_shop", max_retries=3, retry_delay=1)
async def import_shop(shop: str) -> int:
    """Give the number of orders of one shop."""
    if random.random() < 0.2:
        raise ConnectionError(f"shop {shop} does not answer")
    return len(shop) * 10


@app.task("report")
async def report(ctx: Context) -> str:
    """Add up what the shops gave."""
    orders = await ctx.dependency_results()
    return f"{sum(orders.values())} orders from {len(orders)} shops"


@app.task("alarm")
async def alarm(ctx: Context) -> list[str]:
    """Say which tasks have failed; it starts as soon as one has."""
    return [name for name, one in (await ctx.dependencies()).items() if one.error_type]


async def main() -> None:
    """Submit the workflow and wait for it."""
    flow = workflow("nightly")
    shops = [flow.task(import_shop.step(shop), name=shop) for shop in SHOPS]
    flow.task(report, after=shops)
    flow.task(alarm, after=shops, trigger="any_failed")
    async with app:
        handle = await flow.submit()
        print(f"submitted {handle.id}")
        try:
            print((await handle.results(timeout=120))["report"])
        except WorkflowFailed as error:
            print(error)


if __name__ == "__main__":
    asyncio.run(main())

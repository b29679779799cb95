"""A long import that goes on where it stopped.

    skiplane worker --app etl_checkpoint --queues etl      in this folder
    python etl_checkpoint.py

When the worker is killed halfway, the next attempt starts after the last page
that was saved. The dashboard shows how far it is.
"""

import asyncio
from collections.abc import AsyncIterator

from skiplane import Context, Retry, Skiplane

app = Skiplane()

PAGES = 20
ROWS = 50


@app.task("import_orders", queue="etl", max_retries=10, timeout=3600, estimated_duration=60)
async def import_orders(ctx: Context, source: str, pages: int = PAGES) -> dict[str, int]:
    """Import all pages of a source; gives the number of rows."""
    saved = ctx.last_checkpoint or {"page": 0, "rows": 0}
    page, rows = saved["page"], saved["rows"]
    while page < pages:
        if ctx.cancelled:  # the worker stops, or somebody cancelled: save nothing half done
            raise Retry(reason="stopped between two pages")
        rows += await import_page(source, page)
        page += 1
        await ctx.checkpoint({"page": page, "rows": rows})
        await ctx.progress(page / pages, f"page {page} of {pages}")
    return {"rows": rows}


async def import_page(source: str, page: int) -> int:
    """Stand in for fetching and loading one page, which may be done twice without harm."""
    count = 0
    async for _row in fetch(source, page):
        count += 1
    return count


async def fetch(source: str, page: int) -> AsyncIterator[tuple[str, int]]:
    """Stand in for a service that gives its rows in pages."""
    await asyncio.sleep(0.001)
    for number in range(ROWS):
        yield source, page * ROWS + number


async def main() -> None:
    async with app:
        handle = await import_orders.options(
            # One import of a source at a time, and one a day.
            concurrency_key="import:shop",
            idempotency_key="import:shop:2026-07-01",
        ).submit(source="shop")
        print("imported", await handle.result(timeout=600))


if __name__ == "__main__":
    asyncio.run(main())

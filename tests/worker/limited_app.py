"""An app whose task types have limits."""

import asyncio

from skiplane import Skiplane

app = Skiplane()


@app.task("paced", rate_limit="40/s", burst=5)
async def paced() -> None: ...


@app.task("single", concurrency=1)
async def single(seconds: float) -> None:
    await asyncio.sleep(seconds)


@app.task("few", concurrency=3, max_retries=1000)
async def few(seconds: float) -> None:
    await asyncio.sleep(seconds)

"""The tasks that `skiplane bench` measures with."""

import time

from ... import Skiplane

app = Skiplane()


@app.task("bench.noop")
async def noop(data: str) -> dict[str, bool]:
    """Do nothing."""
    return {"ok": True}


@app.task("bench.noop_sync")
def noop_sync(data: str) -> dict[str, bool]:
    """Do nothing, in a pool process."""
    return {"ok": True}


@app.task("bench.mark")
async def mark() -> float:
    """Give the time of its first line, in seconds since the epoch."""
    return time.time()

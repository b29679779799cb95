"""How soon: from the submission, and from the due time, to the task's first line."""

import asyncio
import random
import time
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from ...schema.task_calls import get_results
from .bench import Bench
from .meter import percentiles

SAMPLES, WARM_UP = 200, 20
LEAD_SECONDS = 2.0


async def pickup(bench: Bench) -> dict[str, Any]:
    """Measure the way of single tasks through a system that has nothing else to do."""
    samples = min(SAMPLES, bench.tasks // 20)
    bench.say(f"pick-up on an idle system, {samples} tasks")
    queue = bench.queue()
    took: list[float] = []
    with bench.scheduler(), bench.worker([queue]) as worker:
        for number in range(samples + WARM_UP):
            before = time.time()
            task = await bench.app.submit("bench.mark", queue=queue)
            await asyncio.sleep(0.02)
            await bench.wait_for([task.id], worker, 0.01)
            result = (await bench.app.run(get_results([task.id])))[0].result
            # The first ones find a worker that is still starting, and cold caches.
            if number >= WARM_UP:
                took.append((result - before) * 1000)
            await asyncio.sleep(random.uniform(0.01, 0.05))
    return {"pickup_ms": percentiles(took)}


async def timer(bench: Bench) -> dict[str, Any]:
    """Measure how late tasks start that have a time, at two rates."""
    found: dict[str, Any] = {}
    for rate, key in ((50, "timer_ms"), (2000, "timer_2000_ms")):
        seconds = bench.seconds(10)
        bench.say(f"timers, {rate} due per second, {seconds:g} s")
        late = await _lateness(bench, rate, seconds)
        found[key] = percentiles(late)
        found["timer_early"] = found.get("timer_early", 0) + sum(ms < 0 for ms in late)
    return found


async def _lateness(bench: Bench, rate: int, seconds: float) -> list[float]:
    queue = bench.queue()
    count = max(1, int(rate * seconds))
    late: list[float] = []
    with bench.scheduler(), bench.worker([queue]) as worker:
        warm = await bench.app.submit("bench.mark", queue=queue)
        await bench.wait_for([warm.id], worker)
        # All are stored before the first is due: what is measured is the timer.
        lead = LEAD_SECONDS + count / 10_000
        start = datetime.now(UTC) + timedelta(seconds=lead)
        due = await _submit_timers(bench, queue, start, [i / rate for i in range(count)])
        await asyncio.sleep(max(0.0, (start - datetime.now(UTC)).total_seconds()) + seconds)
        ids = list(due)
        for chunk in (ids[i : i + 1000] for i in range(0, count, 1000)):
            await bench.wait_for(chunk, worker)
            for result in await bench.app.run(get_results(chunk)):
                late.append((result.result - due[result.task_id]) * 1000)
    return late


async def _submit_timers(
    bench: Bench, queue: str, start: datetime, offsets: list[float]
) -> dict[UUID, float]:
    due: dict[UUID, float] = {}
    for i in range(0, len(offsets), 1000):
        # Not in step with anybody's clock tick.
        times = [start + timedelta(seconds=o + random.random() / 50) for o in offsets[i : i + 1000]]
        tasks = [{"task_type": "bench.mark", "queue": queue, "scheduled_at": at} for at in times]
        for answer in await bench.app.submit_tasks(tasks):
            due[answer.task_id] = answer.scheduled_at.timestamp()
    return due

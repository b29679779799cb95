"""How many tasks per second: submitting, draining, both at once, and the bare floor."""

import asyncio
import threading
import time
from collections import deque
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg

from ...schema import bench_calls as calls
from ...schema.connect import connect_sync
from ...schema.task_calls import get_results
from ..children import Child
from .bench import Bench, Stopwatch, make_payload
from .meter import Meter

STEADY_BATCH, STEADY_BACKLOG = 500, 10_000


async def enqueue(bench: Bench) -> dict[str, Any]:
    """Measure one async client that submits: one at a time, and in bulk."""
    queue = bench.queue()
    found: dict[str, Any] = {}
    bench.say("enqueue, one at a time")
    payload = make_payload(300)
    count = max(20, bench.tasks // 20)
    for _ in range(20):
        await bench.app.submit("bench.noop", payload, queue=queue)
    watch = Stopwatch()
    for _ in range(count):
        last = await bench.app.submit("bench.noop", payload, queue=queue)
    found["enqueue_one_per_s"] = round(count / watch.seconds())
    found["enqueue_bulk_per_s"] = {}
    ids = [last.id]
    for size, share in ((300, 1), (2048, 4)):
        bench.say(f"enqueue, in bulk, {size} bytes each")
        count = max(20, bench.tasks // share)
        watch = Stopwatch()
        ids = await bench.submit(queue, count, size)
        found["enqueue_bulk_per_s"][str(size)] = round(count / watch.seconds())
    bench.say("clearing away what was submitted")
    with bench.worker([queue]) as worker:
        await bench.wait_for(ids[-1:], worker)
        await bench.wait_until_empty(queue, worker)
    return found


async def drain(bench: Bench) -> dict[str, Any]:
    """Measure worker processes that empty a queue, with and without company."""
    found: dict[str, Any] = {"drain_per_s": {}}
    for processes in (1, 2):
        bench.say(f"drain, {processes} worker {'process' if processes == 1 else 'processes'}")
        rate, cost = await _drain(bench, processes, bench.tasks)
        found["drain_per_s"][str(processes)] = rate
        if processes == 1:
            found |= cost
    bench.say("drain of sync tasks, 2 worker processes")
    found["sync_drain_per_s"], _ = await _drain(
        bench, 2, max(20, bench.tasks // 10), "bench.noop_sync"
    )
    return found


async def _drain(
    bench: Bench, processes: int, count: int, task_type: str = "bench.noop"
) -> tuple[int | None, dict[str, Any]]:
    queue = bench.queue()
    meter = Meter(bench.conn)
    async with await psycopg.AsyncConnection.connect(bench.dsn) as conn:
        ids = await bench.submit(queue, count, task_type=task_type, connection=conn)
        with bench.worker([queue], processes) as worker:
            # Starting Python is not the engine: the tasks come into sight when every process asks.
            await bench.wait_for_workers(queue, processes, worker)
            begun = calls.clock(bench.conn)
            await conn.commit()
            # The workers sleep by now, and only a new submission wakes them.
            await bench.submit(queue, 1, task_type=task_type)
            await bench.wait_for(ids[-1:], worker)
            wal, cpu = meter.wal_bytes(), meter.cpu_us()
            done = await bench.wait_for_all(queue, ids, worker)
    cost = {
        "wal_bytes_per_task": None if wal is None else round(wal / count),
        "server_cpu_us_per_task": None if cpu is None else round(cpu / count, 1),
    }
    rate = round(count / (done.last_end - begun)) if done.last_end else None
    return rate, cost


async def steady(bench: Bench) -> dict[str, Any]:
    """Measure a producer and a worker that go on at once, with a bounded backlog."""
    queue = bench.queue()
    seconds = bench.seconds(15)
    bench.say(f"steady state, producer and worker together, {seconds:g} s")
    with bench.worker([queue]) as worker:
        first = await bench.submit(queue, STEADY_BATCH)
        await bench.wait_for(first, worker)
        start = datetime.now(UTC)
        last, backlog = await _produce(bench, queue, worker, seconds)
        end = datetime.now(UTC)
        await bench.wait_until_empty(queue, worker)
    offset = _clock_offset(bench)
    done = calls.finished_between(bench.conn, queue, first[0], last, start + offset, end + offset)
    return {
        "steady_per_s": round(done / (end - start).total_seconds()),
        "steady_backlog_max": backlog,
    }


async def _produce(bench: Bench, queue: str, worker: Child, seconds: float) -> tuple[UUID, int]:
    """Submit whenever there is room; give the last id and the largest backlog."""
    watch = Stopwatch()
    open_batches: deque[UUID] = deque()
    largest = 0
    looked = 0.0
    while watch.seconds() < seconds:
        if len(open_batches) * STEADY_BATCH < STEADY_BACKLOG:
            last = (await bench.submit(queue, STEADY_BATCH))[-1]
            open_batches.append(last)
            largest = max(largest, len(open_batches) * STEADY_BATCH)
        elif time.monotonic() - looked < 0.01:
            await asyncio.sleep(0.005)
        if time.monotonic() - looked >= 0.01:
            looked = time.monotonic()
            results = await bench.app.run(get_results(list(open_batches)))
            done = {result.task_id for result in results if result.done}
            open_batches = deque(i for i in open_batches if i not in done)
    return last, largest


def _clock_offset(bench: Bench) -> timedelta:
    """Give what the server's clock is ahead of this one's."""
    before = time.time()
    server = calls.clock(bench.conn)
    return timedelta(seconds=server - (before + time.time()) / 2)


async def floor(bench: Bench) -> dict[str, Any]:
    """Measure the bare cycle with two clients."""
    bench.say("floor: a bare SQL cycle, two clients")
    try:
        return {"floor_per_s": await asyncio.to_thread(_floor, bench)}
    except psycopg.errors.InsufficientPrivilege:
        bench.say("no floor: this role may not create a schema")
        return {"floor_per_s": None}


def _floor(bench: Bench) -> int:
    bare = calls.Floor(f"{bench.name}_floor")
    payload = '{"data":"' + make_payload(300)["data"] + '"}'
    conns = [connect_sync(bench.dsn, "bench") for _ in range(3)]
    try:
        bare.make(conns[2], bench.tasks, payload)

        def empty(conn: Any) -> None:
            while bare.cycle(conn):
                pass

        watch = Stopwatch()
        threads = [threading.Thread(target=empty, args=(conn,)) for conn in conns[:2]]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return round(bench.tasks / watch.seconds())
    finally:
        bare.drop(conns[2])
        for conn in conns:
            conn.close()

"""The drain while somebody holds a snapshot: the case in which queues in SQL collapse."""

import asyncio
import json
import time
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from ...schema import bench_calls as calls
from ...schema import worker_calls
from ...schema.connect import AsyncConnection, connect_async, connect_sync
from .bench import Bench, Stopwatch
from .meter import percentiles

PER_SECOND = 5000
BATCH = 250
PROBE_TASKS = 20
PROBE_PAUSE = 0.1


async def held(bench: Bench) -> dict[str, Any]:
    """Offer a steady load for a while, and compare the first part with the last."""
    seconds = bench.seconds(60)
    part = max(1.0, min(60.0, seconds / 5))
    bench.say(f"drain under a held snapshot, {PER_SECOND} tasks/s offered, {seconds:g} s")
    queue = bench.queue()
    holder = connect_sync(bench.dsn, "bench snapshot")
    try:
        calls.hold_snapshot(holder)
        with bench.scheduler(), bench.worker([queue]) as worker:
            first = await bench.submit(queue, BATCH)
            await bench.wait_for(first, worker)
            probe = Probe(bench, queue)
            probing = asyncio.create_task(probe.run())
            start = datetime.now(UTC)
            last = await _offer(bench, queue, seconds)
            end = datetime.now(UTC)
            probe.stop()
            await probing
            await bench.wait_until_empty(queue, worker)
    finally:
        holder.close()
    window = timedelta(seconds=part)

    def rate(since: datetime) -> int:
        args = (bench.conn, queue, first[0], last, since, since + window)
        return round(calls.finished_between(*args) / part)

    first_claims = percentiles(probe.took(0, part)) or {}
    last_claims = percentiles(probe.took(seconds - part, seconds + 1)) or {}
    return {
        "held": {
            "first_per_s": rate(start),
            "last_per_s": rate(end - window),
            "claim_p99_ms": last_claims.get("p99"),
            "first_claim_p99_ms": first_claims.get("p99"),
            "offered_per_s": PER_SECOND,
            "part_seconds": part,
        }
    }


async def _offer(bench: Bench, queue: str, seconds: float) -> UUID:
    watch = Stopwatch()
    sent = 0
    while True:
        last = (await bench.submit(queue, BATCH))[-1]
        sent += BATCH
        if watch.seconds() >= seconds:
            return last
        await asyncio.sleep(max(0.0, sent / PER_SECOND - watch.seconds()))


class Probe:
    """One more worker on the queue, which notes how long each of its claims took."""

    def __init__(self, bench: Bench, queue: str) -> None:
        self._dsn = bench.dsn
        self._queue = queue
        self._stopping = asyncio.Event()
        self._watch = Stopwatch()
        self._claims: list[tuple[float, float]] = []

    def stop(self) -> None:
        """End after the claim in progress."""
        self._stopping.set()

    def took(self, start: float, end: float) -> list[float]:
        """Give the milliseconds of the claims between two times in seconds."""
        return [ms for at, ms in self._claims if start <= at < end]

    async def run(self) -> None:
        """Claim and finish until stopped."""
        conn, _ = await connect_async(self._dsn, "bench probe")
        async with conn:
            worker_calls.prepare_claiming(conn)
            claim = worker_calls.Claim(
                str(uuid4()), worker_calls.text_array([self._queue]), None, 10.0
            )
            registration = worker_calls.Registration(
                claim.worker_id, "bench probe", [self._queue], None, PROBE_TASKS, "", 0, 10.0, None
            )
            await worker_calls.register_worker(conn, registration)
            try:
                cursor: str | None = None
                while not self._stopping.is_set():
                    cursor = await self._claim(conn, claim, cursor)
                    await asyncio.sleep(PROBE_PAUSE)
            finally:
                await worker_calls.unregister_worker(conn, claim.worker_id)

    async def _claim(
        self, conn: AsyncConnection, claim: worker_calls.Claim, cursor: str | None
    ) -> str | None:
        before = time.perf_counter()
        answer = await worker_calls.finish_and_claim(conn, claim, None, PROBE_TASKS, cursor, 0)
        self._claims.append((self._watch.seconds(), (time.perf_counter() - before) * 1000))
        if answer.lease_id is not None and answer.tasks is not None:
            ids = [task["task_id"] for task in json.loads(answer.tasks)]
            zeros = [0] * len(ids)
            finish = worker_calls.Finish(
                answer.lease_id, ids, ['{"ok":true}'] * len(ids), zeros, zeros, ()
            )
            await worker_calls.finish_and_claim(conn, claim, finish, 0, answer.cursor, 0)
        return answer.cursor

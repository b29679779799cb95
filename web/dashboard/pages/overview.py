"""The first page: how things are now."""

import asyncio
import time
from typing import Any

from litestar.response.base import ASGIResponse
from markupsafe import Markup

from ....schema import dashboard_calls as calls
from ....schema.errors import SkiplaneError
from ....schema.watch_calls import Queue, queues
from ....schema.web_calls import health
from ...services import Services
from ..charts import Series, bars, hour, lines, quantile
from ..render import page
from ..shows import AnyRequest, principal, services, shows

HOUR = 3600
STEP = 60
Point = dict[str, Any]


@shows("/ui")
async def overview(request: AnyRequest) -> ASGIResponse:
    """Show how things are."""
    who, service = principal(request), services(request)
    if who.tenant is not None:
        return await _of_tenant(request, who.tenant)
    run = service.database.run
    totals, depth, waiting, fleet, dead, checks = await asyncio.gather(
        run(calls.recent_totals(HOUR)),
        run(calls.depth_history()),
        run(queues()),
        run(calls.fleet()),
        run(calls.count_dead_letters(None)),
        _checks(service),
    )
    minutes = _by_minute(totals)
    recent = [one for one in totals if one["at"] >= time.time() - 90]
    running = [worker for worker in fleet if worker["status"] != "LOST"]
    charts = [
        _throughput(minutes),
        _depth(depth),
        _latency("Wait until start", minutes, "waits"),
        _latency("Run time", minutes, "runs"),
    ]
    return page(
        request,
        "overview.html",
        charts=charts,
        tiles=_tiles(recent, waiting, dead),
        alerts=_alerts(minutes, waiting, running, checks, dead),
        workers=running,
        capacity=sum(w["concurrency"] for w in running),
        busy=sum(min(w["holding"], w["concurrency"]) for w in running),
        queues=waiting[:8],
    )


async def _checks(service: Services) -> list[tuple[str, bool, str]]:
    try:
        return await service.database.run(health())
    except SkiplaneError:
        return []


async def _of_tenant(request: AnyRequest, tenant: str) -> ASGIResponse:
    run = services(request).database.run
    minutes, dead = await asyncio.gather(
        run(calls.recent_outcomes(tenant, HOUR)), run(calls.count_dead_letters(tenant))
    )
    filled = _fill(minutes, {"wait_ms": 0, "run_ms": 0, "started": 0})
    means = [
        Series(name, css, [m[key] / m["started"] / 1000 if m["started"] else None for m in filled])
        for name, css, key in (("wait", "l-1", "wait_ms"), ("run", "l-2", "run_ms"))
    ]
    charts = [
        _throughput(filled),
        lines("Mean wait and run time", [m["at"] for m in filled], means, "s"),
    ]
    return page(
        request,
        "overview.html",
        charts=charts,
        tiles=_tiles(minutes[-1:], None, dead, 60),
        alerts=_alerts(minutes, [], None, [], dead),
        workers=None,
        capacity=0,
        busy=0,
        queues=None,
    )


def _empty(at: float) -> Point:
    return {"at": at, "succeeded": 0, "failed": 0, "cancelled": 0, "dead": 0, "retried": 0}


def _fill(points: list[Point], more: Point) -> list[Point]:
    """Give a point for each minute of the last hour, also for those without any."""
    known = {one["at"]: one for one in points}
    last = int(time.time() - 20) // STEP * STEP
    return [
        known.get(at) or {**_empty(at), **more} for at in range(last - HOUR + STEP, last + 1, STEP)
    ]


def _by_minute(totals: list[Point]) -> list[Point]:
    found: dict[int, Point] = {}
    for one in totals:
        at = one["at"] // STEP * STEP
        minute = found.setdefault(at, {**_empty(at), "waits": [0] * 48, "runs": [0] * 48})
        for name in ("succeeded", "failed", "cancelled", "dead", "retried"):
            minute[name] += one[name]
        for name in ("waits", "runs"):
            minute[name] = [a + b for a, b in zip(minute[name], one[name], strict=True)]
    return _fill(list(found.values()), {"waits": [], "runs": []})


def _throughput(minutes: list[Point]) -> Markup:
    return bars(
        "Finished per minute",
        [m["at"] for m in minutes],
        [
            Series("succeeded", "b-ok", [m["succeeded"] for m in minutes]),
            Series("retried", "b-warn", [m["retried"] for m in minutes]),
            Series("failed or dead", "b-bad", [m["failed"] + m["dead"] for m in minutes]),
            Series("cancelled", "b-off", [m["cancelled"] for m in minutes]),
        ],
    )


def _depth(points: list[Point]) -> Markup:
    found = hour(points, time.time())
    waiting = Series("waiting", "l-1", [one.get("depth") for one in found])
    return lines("Waiting tasks", [one["at"] or 0 for one in found], [waiting], area=True)


def _latency(title: str, minutes: list[Point], name: str) -> Markup:
    series = [
        Series(label, css, [quantile(m[name], share) for m in minutes])
        for label, css, share in (
            ("half", "l-1", 0.5),
            ("95 of 100", "l-2", 0.95),
            ("99 of 100", "l-3", 0.99),
        )
    ]
    return lines(title, [m["at"] for m in minutes], series, "s")


def _tiles(
    recent: list[Point], waiting: list[Queue] | None, dead: int, seconds: int | None = None
) -> dict[str, Any]:
    span = seconds or 10 * max(1, len(recent))
    ended = sum(one["succeeded"] + one["failed"] + one["dead"] + one["cancelled"] for one in recent)
    waits = [
        sum(column)
        for column in zip(*(one["waits"] for one in recent if "waits" in one), strict=True)
    ]
    return {
        "rate": ended / span,
        "wait": quantile(waits, 0.5),
        "depth": None if waiting is None else sum(queue.depth for queue in waiting),
        "oldest": max((q.oldest_seconds or 0 for q in waiting), default=0) if waiting else None,
        "dead": dead,
    }


def _alerts(
    minutes: list[Point],
    waiting: list[Queue],
    workers: list[Point] | None,
    checks: list[tuple[str, bool, str]],
    dead: int,
) -> list[tuple[str, str, str]]:
    """Tell what somebody should look at: a heading, the matter, and where."""
    found: list[tuple[str, str, str]] = []
    if workers is not None and not workers:
        found.append(("No worker runs", "What is submitted waits until one does.", "/ui/workers"))
    last = minutes[-5:]
    ended = sum(m["succeeded"] + m["failed"] + m["dead"] for m in last)
    bad = sum(m["failed"] + m["dead"] for m in last)
    if ended >= 20 and bad > 0.05 * ended:
        share = f"{100 * bad / ended:.0f} % of what ended in the last minutes."
        found.append(("Many tasks fail", share, "/ui/failures"))
    served = {name for worker in workers or () for name in worker["queues"]}
    for queue in waiting:
        if queue.queue not in served and workers:
            text = f"{queue.queue}: {queue.depth} tasks wait."
            found.append(("A queue that nobody serves", text, "/ui/queues"))
        elif (queue.oldest_seconds or 0) > 60:
            text = f"{queue.queue}: the oldest task has waited {queue.oldest_seconds:.0f} s."
            found.append(("Tasks wait long", text, "/ui/queues"))
    for name, well, detail in checks:
        if not well:
            found.append((name.replace("_", " ").capitalize(), detail, ""))
    if dead:
        found.append(
            (
                "Dead letters",
                "Tasks ran out of retries and wait for a decision.",
                "/ui/dead-letters",
            )
        )
    return found[:8]


HANDLERS = [overview]

"""Queues and workers."""

import asyncio
import time
from typing import Any
from uuid import UUID

from litestar.response.base import ASGIResponse

from ....schema import dashboard_calls as calls
from ....schema import watch_calls
from ....schema.web_calls import drain_worker as ask_to_drain
from ...problems import Problem
from ..charts import Series, hour, lines
from ..render import page, redirect
from ..shows import AnyRequest, asked, form, may, principal, read_id, services, shows

MOST_TASKS = 100


def _utilisation(worker: dict[str, Any]) -> dict[str, Any]:
    return {**worker, "share": worker["holding"] / max(1, worker["concurrency"])}


@shows("/ui/queues", fleet=True)
async def list_queues(request: AnyRequest) -> ASGIResponse:
    """Show what waits where."""
    service = services(request)
    run = service.database.run
    name = asked(request, ["name"])["name"]
    waiting, fleet, depth = await asyncio.gather(
        run(watch_calls.queues()), run(calls.fleet()), run(calls.depth_history(name))
    )
    rows: dict[str, dict[str, Any]] = {}
    for worker in fleet:
        if worker["status"] != "LOST":
            for served in worker["queues"]:
                row = rows.setdefault(served, _row(served))
                row["workers"] += 1
                row["capacity"] += worker["concurrency"]
    for queue in waiting:
        row = rows.setdefault(queue.queue, _row(queue.queue))
        row["depths"][queue.priority] = queue.depth
        row["depth"] += queue.depth
        row["oldest"] = max(row["oldest"] or 0, queue.oldest_seconds or 0)
        row["refreshed_at"] = queue.refreshed_at
    for served, (_, pressure) in service.pressure.queues.items():
        rows.setdefault(served, _row(served))["pressure"] = pressure
    shown = [row for row in rows.values() if name is None or row["name"] == name]
    title = "Waiting tasks" if name is None else f"Waiting tasks of {name}"
    points = hour(depth, time.time())
    times = [one["at"] or 0 for one in points]
    depths = [Series("waiting", "l-1", [one.get("depth") for one in points])]
    ages = [Series("oldest", "l-3", [one.get("oldest_seconds") for one in points])]
    return page(
        request,
        "queues.html",
        queues=sorted(shown, key=lambda row: (-row["depth"], row["name"])),
        name=name,
        charts=[
            lines(title, times, depths, area=True),
            lines("Oldest waiting task", times, ages, "s"),
        ],
    )


def _row(name: str) -> dict[str, Any]:
    return {
        "name": name, "depth": 0, "depths": {}, "oldest": None, "workers": 0, "capacity": 0,
        "pressure": "none", "refreshed_at": None,
    }  # fmt: skip


@shows("/ui/workers", fleet=True)
async def list_workers(request: AnyRequest) -> ASGIResponse:
    """Show the fleet."""
    found = await services(request).database.run(calls.fleet())
    running = [worker for worker in found if worker["status"] != "LOST"]
    return page(
        request,
        "workers.html",
        workers=[_utilisation(worker) for worker in found],
        capacity=sum(worker["concurrency"] for worker in running),
        busy=sum(min(worker["holding"], worker["concurrency"]) for worker in running),
    )


@shows("/ui/workers/{worker_id}", fleet=True)
async def show_worker(request: AnyRequest) -> ASGIResponse:
    """Show a worker and what it holds."""
    run = services(request).database.run
    id_ = read_id(request, "worker_id")
    found = [worker for worker in await run(calls.fleet()) if UUID(worker["worker_id"]) == id_]
    if not found:
        raise Problem(
            "not_found",
            "No worker has this id.",
            "worker_id",
            str(id_),
            "It has stopped, or was lost a while ago.",
        )
    worker = _utilisation(found[0])
    return page(
        request,
        "worker.html",
        worker=worker,
        tasks=await run(calls.worker_tasks(id_, MOST_TASKS)),
        may_drain=may(principal(request), "operator") and worker["status"] == "RUNNING",
        done="The worker takes no more tasks."
        if request.query_params.get("done") == "drained"
        else None,
    )


@shows("/ui/workers/{worker_id}/drain", "operator", fleet=True, method="POST")
async def drain(request: AnyRequest) -> ASGIResponse:
    """Ask a worker to take no more."""
    await form(request)
    id_ = read_id(request, "worker_id")
    if not await services(request).database.run(ask_to_drain(id_, principal(request).actor)):
        raise Problem("not_found", "No worker has this id.", "worker_id", str(id_))
    return redirect(f"/ui/workers/{id_}?done=drained")


HANDLERS = [list_queues, list_workers, show_worker, drain]

"""Workers: what concerns all tenants."""

from litestar.response.base import ASGIResponse

from ...schema import watch_calls
from ...schema.web_calls import drain_worker as ask_to_drain
from ..body import Query, task_id
from ..problems import Problem
from ..services import principal, services
from .routes import AnyRequest, handles, reply

_NONE: frozenset[str] = frozenset()
_AUTOSCALE = frozenset(
    {"queue", "target_seconds", "slots_per_worker", "min_workers", "max_workers"}
)


@handles("GET", "/api/v1/workers")
async def list_workers(request: AnyRequest) -> ASGIResponse:
    """List workers."""
    Query(request, _NONE)
    found = await services(request).database.run(watch_calls.workers())
    return reply(
        {
            "workers": [
                {
                    **worker._asdict(),
                    "utilisation": round(min(1.0, worker.holding / worker.concurrency), 3),
                }
                for worker in found
            ]
        }
    )


@handles("POST", "/api/v1/workers/{worker_id}/drain")
async def drain_worker(request: AnyRequest) -> ASGIResponse:
    """Drain a worker."""
    Query(request, _NONE)
    worker_id = task_id(request, "worker_id")
    call = ask_to_drain(worker_id, principal(request).actor)
    if not await services(request).database.run(call):
        raise Problem(
            "not_found",
            "No worker has this id.",
            "worker_id",
            str(worker_id),
            "GET /api/v1/workers shows those that run.",
        )
    return reply({"worker_id": worker_id, "status": "DRAINING"}, 202)


@handles("GET", "/api/v1/autoscale")
async def autoscale(request: AnyRequest) -> ASGIResponse:
    """Tell how many workers are needed."""
    query = Query(request, _AUTOSCALE)
    least = query.number("min_workers", 0, 0, 10_000)
    call = watch_calls.autoscale(
        query.names("queue"),
        query.number("target_seconds", 60, 1, 86_400),
        # 0 is not given: what the workers have.
        query.number("slots_per_worker", 0, 1, 10_000) or None,
        least,
        query.number("max_workers", max(100, least), least, 10_000),
    )
    return reply(await services(request).database.run(call))


HANDLERS = [autoscale, list_workers, drain_worker]

"""Probes, numbers, and the document of the API."""

from typing import Any

from litestar.response.base import ASGIResponse

from ...schema.errors import SkiplaneError
from ...schema.watch_calls import autoscale
from ...schema.web_calls import health, measurements
from ..body import Query
from ..metrics import CONTENT_TYPE
from ..openapi import document
from ..problems import RETRY_SECONDS, problem_of
from ..services import Services, services
from .routes import AnyRequest, handles, reply

_NONE: frozenset[str] = frozenset()
# Without these a request cannot be served; the others delay what was accepted.
_NEEDED = frozenset({"partitions_ahead"})


@handles("GET", "/healthz")
async def healthz(request: AnyRequest) -> ASGIResponse:
    """Answer."""
    return reply({"status": "ok"})


@handles("GET", "/readyz")
async def readyz(request: AnyRequest) -> ASGIResponse:
    """Look at what requests need."""
    checks = await _checks(services(request))
    missing = [check["name"] for check in checks if not check["ok"]]
    stops = [name for name in missing if name in _NEEDED or name == "database"]
    body = {
        "status": "not_ready" if stops else "ready",
        "missing": missing,
        "checks": checks,
    }
    if stops:
        return reply(body, 503, {"retry-after": str(RETRY_SECONDS)})
    return reply(body)


async def _checks(service: Services) -> list[dict[str, Any]]:
    try:
        found = await service.database.run(health())
    except SkiplaneError as error:
        return [{"name": "database", "ok": False, "detail": problem_of(error).title}]
    return [
        {"name": "database", "ok": True, "detail": "it answers"},
        *({"name": name, "ok": ok, "detail": detail} for name, ok, detail in found),
    ]


@handles("GET", "/metrics")
async def metrics(request: AnyRequest) -> ASGIResponse:
    """Give the numbers."""
    service = services(request)
    Query(request, _NONE)
    measured = await service.database.run(measurements())
    needed = await service.database.run(autoscale())
    body = service.metrics.render(measured, needed["queues"])
    return ASGIResponse(body=body, headers={"content-type": CONTENT_TYPE})


@handles("GET", "/openapi.json")
async def openapi(request: AnyRequest) -> ASGIResponse:
    """Give the document."""
    return reply(document())


HANDLERS = [healthz, readyz, metrics, openapi]

"""Analytics: what fails."""

from litestar.response.base import ASGIResponse

from ...schema import dashboard_calls
from ..body import Query
from ..services import principal, services
from .routes import AnyRequest, handles, reply

_FILTERS = ("task_type", "queue", "tenant_id", "fingerprint")
_KNOWN = frozenset({*_FILTERS, "seconds", "limit"})


@handles("GET", "/api/v1/analytics/failures")
async def failure_analytics(request: AnyRequest) -> ASGIResponse:
    """Tell what failed."""
    query = Query(request, _KNOWN)
    call = dashboard_calls.failure_analytics(
        principal(request).tenant,
        query.number("seconds", 86_400, 60, 31_536_000),
        {name: query.text(name) for name in _FILTERS},
        query.number("limit", 50, 1, 500),
    )
    return reply(await services(request).database.run(call))


HANDLERS = [failure_analytics]

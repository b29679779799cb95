"""The stream of events."""

from litestar.response.base import ASGIResponse
from litestar.response.streaming import ASGIStreamingResponse

from ..body import Query
from ..events import Wanted
from ..problems import invalid
from ..services import principal, services
from .routes import AnyRequest, handles

_KNOWN = frozenset({"status", "task_type", "queue", "tenant_id", "task_id", "workflow_id"})
_TOLD = frozenset({"SCHEDULED", "PENDING", "RETRYING", "SUCCEEDED", "FAILED", "CANCELLED", "DEAD"})


@handles("GET", "/api/v1/events")
async def stream_events(request: AnyRequest) -> ASGIResponse:
    """Send changes of state as they come."""
    who = principal(request)
    query = Query(request, _KNOWN)
    statuses = query.texts("status")
    for status in statuses or ():
        if status not in _TOLD:
            remedy = f"Give one of {', '.join(sorted(_TOLD))}."
            raise invalid("status is no state that is told.", "status", status, remedy)
    asked = query.text("tenant_id")
    wanted = Wanted(
        # Another tenant's: nothing, for ever.
        tenant=who.tenant or asked if asked in (None, who.tenant) or not who.tenant else "",
        queue=query.text("queue"),
        task_type=query.text("task_type"),
        statuses=None if statuses is None else frozenset(statuses),
        task_id=query.uuid("task_id"),
        workflow_id=query.uuid("workflow_id"),
    )
    told = await services(request).stream.open(wanted, request.headers.get("last-event-id"))
    headers = {
        "content-type": "text/event-stream; charset=utf-8",
        "cache-control": "no-store",
        "x-accel-buffering": "no",
    }
    return ASGIStreamingResponse(iterator=told, headers=headers)


HANDLERS = [stream_events]

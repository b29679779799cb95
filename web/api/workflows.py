"""Workflows."""

from typing import Any
from uuid import UUID

import msgspec
from litestar.response.base import ASGIResponse
from msgspec import UNSET

from ...schema import workflow_calls
from ...schema.call import Call
from ...schema.web_calls import as_text, check_within
from ..body import MAX_PAYLOAD, Query, read_json, read_optional, storable, task_id, tenant_filter
from ..contract import FLOWS, ONE_FLOW
from ..cursors import read_cursor, write_cursor
from ..models import Why
from ..models_flows import WorkflowRequest, WorkflowTask
from ..reading import DEFAULT_TENANT, bound_metadata, trace_context
from ..services import principal, services
from .routes import AnyRequest, handles, page, reply

_NONE: frozenset[str] = frozenset()
_LIST = frozenset(
    {"status", "workflow_name", "tenant_id", "created_after", "created_before", "limit", "cursor"}
)
SUBMIT_SECONDS = 30.0


def _document(task: WorkflowTask, where: str) -> bytes:
    if task.payload is not UNSET:
        storable(bytes(task.payload), f"{where}.payload", MAX_PAYLOAD)
    fields = {
        name: value
        for name in task.__struct_fields__
        if name != "task_id" and (value := getattr(task, name)) is not UNSET
    }
    return msgspec.json.encode({"name": task.task_id, **fields})


@handles("POST", FLOWS)
async def submit_workflow(request: AnyRequest) -> ASGIResponse:
    """Submit a workflow."""
    service, who = services(request), principal(request)
    Query(request, _NONE)
    wish = await read_json(request, WorkflowRequest)
    documents = [_document(task, f"tasks[{n}]") for n, task in enumerate(wish.tasks)]
    metadata = {**trace_context(request), **bound_metadata(wish.metadata, who.tenant)}
    for task in wish.tasks:
        if task.queue is not UNSET or service.pressure.queues:
            queue = "default" if task.queue is UNSET else task.queue
            service.pressure.refuse_full(queue)
    await service.budgets.spend(metadata.get("tenant_id", DEFAULT_TENANT), len(documents))
    options: dict[str, Any] = {"metadata": metadata} if metadata else {}
    if wish.idempotency_key:
        options["idempotency_key"] = wish.idempotency_key
    call = workflow_calls.submit_documents(wish.workflow_name, documents, options)
    made = await service.database.run(call, SUBMIT_SECONDS)
    body = {
        "workflow_id": made.workflow_id,
        "status": made.status,
        "tasks": {task.name: task.status for task in made.tasks},
    }
    where = {"location": f"{FLOWS}/{made.workflow_id}"}
    if made.duplicate:
        return reply(body, 200, {**where, "idempotency-replayed": "true"})
    return reply(body, 202, where)


@handles("GET", FLOWS)
async def list_workflows(request: AnyRequest) -> ASGIResponse:
    """List workflows."""
    who = principal(request)
    query = Query(request, _LIST)
    statuses, name = query.texts("status"), query.text("workflow_name")
    asked = query.text("tenant_id")
    after, before = query.instant("created_after"), query.instant("created_before")
    limit = query.number("limit", 50, 1, 1000)
    scope = ("workflows", who.tenant, statuses, name, asked, after, before)
    cursor = read_cursor(query.text("cursor"), *scope)
    tenant, nothing = tenant_filter(who.tenant, asked)
    call = workflow_calls.list_workflows(
        status=statuses,
        name=name,
        tenant=tenant,
        created_after=after,
        created_before=before,
        limit=limit,
        cursor=cursor,
    )
    found = [] if nothing else await services(request).database.run(as_text(call))
    last = msgspec.json.decode(found[-1])["workflow_id"] if len(found) == limit else None
    return page("workflows", found, write_cursor(last, *scope))


async def _visible(request: AnyRequest) -> UUID:
    """Give the id of the path, once the caller may see what it names."""
    workflow_id = task_id(request, "workflow_id")
    who = principal(request)
    if who.tenant is not None:
        await services(request).database.run(check_within("workflow", workflow_id, who.tenant))
    return workflow_id


async def _document_of(request: AnyRequest, call: Call[Any]) -> bytes:
    [document] = await services(request).database.run(as_text(call))
    return document.encode()


@handles("GET", ONE_FLOW)
async def get_workflow(request: AnyRequest) -> ASGIResponse:
    """Read a workflow."""
    Query(request, _NONE)
    call = workflow_calls.get_workflow(await _visible(request))
    return reply(await _document_of(request, call))


@handles("GET", ONE_FLOW + "/graph")
async def workflow_graph(request: AnyRequest) -> ASGIResponse:
    """Read a workflow's picture."""
    Query(request, _NONE)
    call = workflow_calls.workflow_graph(await _visible(request))
    return reply(await _document_of(request, call))


async def _changed(request: AnyRequest, verb: Any) -> ASGIResponse:
    Query(request, _NONE)
    why = await read_optional(request, Why)
    workflow_id = await _visible(request)
    call = verb(workflow_id, why.reason, principal(request).actor)
    found = await services(request).database.run(call, SUBMIT_SECONDS)
    return reply({"workflow_id": found.workflow_id, "status": found.status})


@handles("POST", ONE_FLOW + "/cancel")
async def cancel_workflow(request: AnyRequest) -> ASGIResponse:
    """Cancel a workflow."""
    return await _changed(request, workflow_calls.cancel_workflow)


@handles("POST", ONE_FLOW + "/retry")
async def retry_workflow(request: AnyRequest) -> ASGIResponse:
    """Retry a workflow."""
    return await _changed(request, workflow_calls.retry_workflow)


HANDLERS = [
    submit_workflow,
    list_workflows,
    get_workflow,
    workflow_graph,
    cancel_workflow,
    retry_workflow,
]

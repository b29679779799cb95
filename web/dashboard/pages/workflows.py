"""Workflows: a list, and each as a picture."""

from typing import Any

from litestar.response.base import ASGIResponse

from ....schema import workflow_calls as calls
from ....schema.workflow_records import WorkflowGraph
from ...cursors import read_cursor, write_cursor
from ...problems import Problem, invalid
from ..graph import draw
from ..picture import render
from ..render import page, redirect
from ..shows import AnyRequest, asked, form, may, principal, read_id, services, shows
from ..states import STATES

PAGE = 50
MOST_ROWS = 60
STATUSES = ("RUNNING", "SUCCEEDED", "FAILED", "CANCELLED")
_DONE = {"cancelled": "The workflow was cancelled.", "retried": "What failed will run again."}


@shows("/ui/workflows")
async def list_workflows(request: AnyRequest) -> ASGIResponse:
    """Show a page of workflows."""
    who = principal(request)
    values = asked(request, ("status", "name", "tenant_id", "cursor"))
    given = values.pop("cursor")
    if values["status"] and values["status"] not in STATUSES:
        raise invalid("status is no state.", "status", values["status"], "Choose one of the list.")
    scope = ("ui-workflows", who.tenant, values)
    found = await services(request).database.run(
        calls.list_workflows(
            status=values["status"],
            name=values["name"],
            tenant=who.tenant or values["tenant_id"],
            limit=PAGE,
            cursor=read_cursor(given, *scope),
        )
    )
    last = found[-1].cursor if len(found) == PAGE else None
    return page(
        request,
        "workflows.html",
        workflows=found,
        values=values,
        filtered=any(values.values()),
        first=given is None,
        next=write_cursor(last, *scope),
        states=STATUSES,
    )


async def _read(request: AnyRequest) -> WorkflowGraph:
    id_, who = read_id(request, "workflow_id"), principal(request)
    found = await services(request).database.run(calls.workflow_graph(id_))
    if who.tenant not in (None, found.tenant_id):
        raise Problem("not_found", "No workflow has this id.", "workflow_id", str(id_))
    return found


@shows("/ui/workflows/{workflow_id}")
async def show_workflow(request: AnyRequest) -> ASGIResponse:
    """Show a workflow as a picture and as a list."""
    graph, who = await _read(request), principal(request)
    drawing = draw(graph)
    states: dict[str, int] = {}
    for node in graph.nodes:
        states[str(node.status)] = states.get(str(node.status), 0) + 1
    done = request.query_params.get("done", "")
    return page(
        request,
        "workflow.html",
        workflow=graph,
        picture=render(drawing, str(graph.workflow_id)),
        folded=drawing.folded,
        states={name: states[name] for name in STATES if name in states},
        nodes=graph.nodes[:MOST_ROWS],
        more=max(0, len(graph.nodes) - MOST_ROWS),
        done=_DONE.get(done),
        may_cancel=may(who, "producer") and not graph.status.final,
        may_retry=may(who, "operator") and graph.status.value in ("FAILED", "CANCELLED"),
    )


async def _do(request: AnyRequest, verb: Any, done: str) -> ASGIResponse:
    values = await form(request)
    graph = await _read(request)  # whose it is
    reason = values.get("reason", "").strip()[:1000] or None
    call = verb(graph.workflow_id, reason, principal(request).actor)
    await services(request).database.run(call, 30)
    return redirect(f"/ui/workflows/{graph.workflow_id}?done={done}")


@shows("/ui/workflows/{workflow_id}/cancel", "producer", method="POST")
async def cancel_workflow(request: AnyRequest) -> ASGIResponse:
    """Cancel what has not ended."""
    return await _do(request, calls.cancel_workflow, "cancelled")


@shows("/ui/workflows/{workflow_id}/retry", "operator", method="POST")
async def retry_workflow(request: AnyRequest) -> ASGIResponse:
    """Run again what failed."""
    return await _do(request, calls.retry_workflow, "retried")


HANDLERS = [list_workflows, show_workflow, cancel_workflow, retry_workflow]

"""One task: everything that is known of it, and what can be done to it."""

from typing import Any

import msgspec
from litestar.response.base import ASGIResponse
from msgspec import Raw

from ....schema import dashboard_calls as calls
from ....schema.encode import decode_json
from ....schema.errors import SkiplaneError
from ....schema.web_calls import edit_task_within, verb_within
from ...body import MAX_PAYLOAD, storable
from ...problems import Problem, problem_of
from ..render import page, redirect
from ..shows import AnyRequest, form, instant, may, principal, read_id, services, shows
from ..timeline import draw, parts_of

# Shown as JSON text, number for number.
_RAW = ("payload", "result", "checkpoint", "metadata")
_WAITING = ("SCHEDULED", "PENDING", "RETRYING")
_DONE = {
    "cancelled": "The task was cancelled.",
    "retried": "The task will run again.",
    "edited": "The change is stored.",
}
# A success tells less of its attempt.
_ATTEMPT = dict.fromkeys(
    ("fence", "worker_id", "retry_at", "error_type", "error_message", "error_detail")
)
NULL = Raw(b"null")


async def _read(request: AnyRequest) -> dict[str, Any]:
    found = await services(request).tasks.read(read_id(request), principal(request).tenant)
    parts = msgspec.json.decode(found.document, type=dict[str, Raw])
    task: dict[str, Any] = {
        name: value if name in _RAW else decode_json(bytes(value)) for name, value in parts.items()
    }
    for name in _RAW:
        if bytes(task.get(name, NULL)) == b"null":
            task[name] = None
    task["attempts"] = [{**_ATTEMPT, **attempt} for attempt in task["attempts"]]
    return task


def _trace(task: dict[str, Any]) -> str | None:
    metadata = decode_json(bytes(task["metadata"])) if task["metadata"] else {}
    parent = metadata.get("traceparent") if isinstance(metadata, dict) else None
    parts = parent.split("-") if isinstance(parent, str) else []
    return parts[1] if len(parts) >= 4 else None


async def _why(request: AnyRequest, task: dict[str, Any]) -> str | None:
    """Tell why a task waits."""
    if task["status"] == "BLOCKED":
        return "It waits for other tasks of its workflow."
    if task["status"] == "PENDING":
        if principal(request).tenant is not None:
            return "It is ready and waits for a free worker."
        fleet = await services(request).database.run(calls.fleet())
        return _who_serves(task, [worker for worker in fleet if worker["status"] == "RUNNING"])
    return None


def _who_serves(task: dict[str, Any], fleet: list[dict[str, Any]]) -> str:
    serving = [worker for worker in fleet if task["queue"] in worker["queues"]]
    if not serving:
        return f"No running worker serves the queue {task['queue']}."
    serving = [w for w in serving if not w["task_types"] or task["task_type"] in w["task_types"]]
    if not serving:
        return f"No worker of its queue knows the type {task['task_type']}."
    free = sum(max(0, worker["concurrency"] - worker["holding"]) for worker in serving)
    if free:
        return "It is ready; a worker with room takes it within moments."
    return f"All {len(serving)} workers of its queue are busy."


@shows("/ui/tasks/{task_id}")
async def show_task(request: AnyRequest) -> ASGIResponse:
    """Show a task."""
    task, who = await _read(request), principal(request)
    done = request.query_params.get("done", "")
    parts = parts_of(task)
    return page(
        request,
        "task.html",
        task=task,
        spans=parts,
        timeline=draw(parts),
        trace=_trace(task),
        why=await _why(request, task),
        done=_DONE.get(done),
        may_cancel=may(who, "producer") and not task["completed_at"],
        may_edit=may(who, "producer") and task["status"] in _WAITING,
        may_retry=may(who, "operator") and task["status"] in ("FAILED", "DEAD", "CANCELLED"),
    )


async def _do(request: AnyRequest, verb: str, done: str) -> ASGIResponse:
    values, who, id_ = await form(request), principal(request), read_id(request)
    reason = values.get("reason", "").strip()[:1000] or None
    call = verb_within(verb, who.tenant, id_, reason, who.actor)
    await services(request).database.run(call)
    return redirect(f"/ui/tasks/{id_}?done={done}")


@shows("/ui/tasks/{task_id}/cancel", "producer", method="POST")
async def cancel_task(request: AnyRequest) -> ASGIResponse:
    """Cancel a task."""
    return await _do(request, "cancel_task", "cancelled")


@shows("/ui/tasks/{task_id}/retry", "operator", method="POST")
async def retry_task(request: AnyRequest) -> ASGIResponse:
    """Run a task again."""
    return await _do(request, "retry_task", "retried")


@shows("/ui/tasks/{task_id}/edit", "producer")
async def show_edit(request: AnyRequest) -> ASGIResponse:
    """Show the form of an edit."""
    task = await _read(request)
    if task["status"] not in _WAITING:
        raise Problem("conflict", f"The task cannot be edited: it is {task['status']}.")
    return _edit_page(request, task, _values(task), None)


def _values(task: dict[str, Any]) -> dict[str, str]:
    names = ("queue", "priority", "scheduled_at", "max_retries", "timeout_seconds", "expires_at")
    shown = {name: "" if task[name] is None else str(task[name]) for name in names}
    payload = bytes(task["payload"]) if task["payload"] else b"null"
    return {**shown, "payload": msgspec.json.format(payload, indent=2).decode()}


def _edit_page(
    request: AnyRequest, task: dict[str, Any], values: dict[str, str], problem: Problem | None
) -> ASGIResponse:
    status = problem.status if problem else 200
    return page(request, "edit.html", status, task=task, values=values, problem=problem)


@shows("/ui/tasks/{task_id}/edit", "producer", method="POST")
async def edit_task(request: AnyRequest) -> ASGIResponse:
    """Store an edit: what differs from what the form showed."""
    given = await form(request)
    task, who = await _read(request), principal(request)
    try:
        version = int(given.get("version", "0")[:9] or 0)
        changes = _changes(given, _values(task))
        if not changes:
            return redirect(f"/ui/tasks/{task['task_id']}")
        body = (
            b"{" + b",".join(msgspec.json.encode(n) + b":" + v for n, v in changes.items()) + b"}"
        )
        call = edit_task_within(who.tenant, read_id(request), version, body, who.actor)
        await services(request).database.run(call)
    except (Problem, SkiplaneError, ValueError) as error:
        problem = problem_of(error)
        return _edit_page(request, task, {**_values(task), **given}, problem)
    return redirect(f"/ui/tasks/{task['task_id']}?done=edited")


def _changes(given: dict[str, str], shown: dict[str, str]) -> dict[str, bytes]:
    """Give the fields that were changed, as JSON."""
    found: dict[str, bytes] = {}
    for name, before in shown.items():
        text = given.get(name, before).replace("\r\n", "\n").strip()
        if text == before.strip():
            continue
        if name == "payload":
            storable(text.encode(), name, MAX_PAYLOAD)
            found[name] = text.encode()
        elif not text:
            found[name] = b"null"
        elif name in ("scheduled_at", "expires_at"):
            instant({name: text}, name)
            found[name] = msgspec.json.encode(text)
        elif name in ("max_retries", "timeout_seconds"):
            found[name] = _number(name, text)
        else:
            found[name] = msgspec.json.encode(text)
    return found


def _number(name: str, text: str) -> bytes:
    try:
        return msgspec.json.encode(int(text) if name == "max_retries" else float(text))
    except ValueError:
        raise Problem("invalid_input", f"{name} is no number.", name, text[:100]) from None


HANDLERS = [show_task, cancel_task, retry_task, show_edit, edit_task]

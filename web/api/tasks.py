"""Tasks: submit, read, list, edit, cancel, retry, wait."""

from typing import Any

import msgspec
from litestar.response.base import ASGIResponse
from msgspec import UNSET

from ...schema.web_calls import Accepted, edit_task_within, list_page, verb_within
from ..body import MAX_PAYLOAD, Query, read_json, read_optional, storable, task_id
from ..contract import ONE_TASK, TASKS
from ..cursors import read_cursor, write_cursor
from ..models import Batch, TaskEdit, TaskSubmission, Why
from ..reading import Reader, check_times, header_key
from ..services import principal, services
from ..submissions import Submission
from .routes import AnyRequest, handles, page, reply
from .schedules import create_recurring
from .versions import version_of

_NONE: frozenset[str] = frozenset()
_SUBMIT = frozenset({"schedule_recurring"})
_FILTERS = ("task_type", "queue", "tenant_id", "tag")
_LIST = frozenset(
    {*_FILTERS, "status", "workflow_id", "created_after", "created_before", "limit", "cursor"}
)


def _accepted(accepted: Accepted) -> dict[str, Any]:
    return {
        "task_id": accepted.task_id,
        "status": accepted.status,
        "scheduled_at": accepted.scheduled_at,
        "created_at": accepted.created_at,
    }


@handles("POST", TASKS)
async def submit_task(request: AnyRequest) -> ASGIResponse:
    """Submit one task."""
    service, who = services(request), principal(request)
    if Query(request, _SUBMIT).flag("schedule_recurring"):
        return await create_recurring(request)
    task = await read_json(request, TaskSubmission)
    header_key(request, task)
    submission = _placed(request, task, Reader(request, who).submission(task))
    await service.budgets.spend(submission.tenant)
    accepted = await service.submitter.submit(submission)
    where = {"location": f"{TASKS}/{accepted.task_id}"}
    if accepted.duplicate:
        body = {**_accepted(accepted), "duplicate": True}
        return reply(body, 200, {**where, "idempotency-replayed": "true"})
    return reply(_accepted(accepted), 202, where)


def _placed(
    request: AnyRequest, task: TaskSubmission, submission: Submission, where: str = ""
) -> Submission:
    """Move a submission of low priority to the overflow while its queue is busy."""
    pressure = services(request).pressure
    if not pressure.queues:
        return submission
    queue = task.queue if task.queue is not UNSET and task.queue else "default"
    priority = task.priority if task.priority is not UNSET and task.priority else "medium"
    place = pressure.queue_for(queue, priority, where)
    if place == queue:
        return submission
    options = {**msgspec.json.decode(submission.options), "queue": place}
    return submission._replace(options=msgspec.json.encode(options))


@handles("POST", TASKS + "/batch")
async def submit_batch(request: AnyRequest) -> ASGIResponse:
    """Submit many tasks, all or none."""
    service, who = services(request), principal(request)
    Query(request, _NONE)
    batch = await read_json(request, Batch)
    reader = Reader(request, who)
    many = [
        _placed(request, task, reader.submission(task, f"tasks[{index}]."), f"tasks[{index}].")
        for index, task in enumerate(batch.tasks)
    ]
    counts: dict[str, int] = {}
    for one in many:
        counts[one.tenant] = counts.get(one.tenant, 0) + 1
    for tenant, count in counts.items():
        await service.budgets.spend(tenant, count)
    accepted = await service.submitter.submit_all(many)
    return reply(
        {"tasks": [{**_accepted(one), "duplicate": one.duplicate} for one in accepted]}, 202
    )


@handles("GET", TASKS)
async def list_tasks(request: AnyRequest) -> ASGIResponse:
    """List tasks."""
    service, who = services(request), principal(request)
    query = Query(request, _LIST)
    filters: dict[str, Any] = {name: query.text(name) for name in _FILTERS}
    filters["status"] = query.texts("status")
    filters["workflow_id"] = query.uuid("workflow_id")
    filters["created_after"] = query.instant("created_after")
    filters["created_before"] = query.instant("created_before")
    limit = query.number("limit", 50, 1, 1000)
    scope = ("tasks", who.tenant, filters)
    cursor = read_cursor(query.text("cursor"), *scope)
    found = await service.database.run(list_page(who.tenant, limit, cursor, **filters))
    return page("tasks", found.documents, write_cursor(found.next_cursor, *scope))


@handles("GET", ONE_TASK)
async def get_task(request: AnyRequest) -> ASGIResponse:
    """Read one task."""
    Query(request, _NONE)
    found = await services(request).tasks.read(task_id(request), principal(request).tenant)
    return reply(found.document, 200, {"etag": f'"v{found.version}"'})


@handles("PUT", ONE_TASK)
async def edit_task(request: AnyRequest) -> ASGIResponse:
    """Change a task that has not started."""
    service, who = services(request), principal(request)
    Query(request, _NONE)
    id_ = task_id(request)
    version = version_of(request)
    edit = await read_json(request, TaskEdit)
    check_times(edit, "")
    if edit.payload is not UNSET:
        storable(bytes(edit.payload), "payload", MAX_PAYLOAD)
    changes = msgspec.json.encode(edit)
    call = edit_task_within(who.tenant, id_, version, changes, who.actor)
    document = await service.database.run(call)
    current = msgspec.json.decode(document, type=_Version).version
    return reply(document.encode(), 200, {"etag": f'"v{current}"'})


class _Version(msgspec.Struct):
    version: int


async def _cancel(request: AnyRequest, reason: str | None) -> ASGIResponse:
    who = principal(request)
    call = verb_within("cancel_task", who.tenant, task_id(request), reason, who.actor)
    document = msgspec.json.decode(await services(request).database.run(call))
    return reply(
        {
            "task_id": document["task_id"],
            "status": document["status"],
            "cancelled_at": document["completed_at"],
        }
    )


@handles("POST", ONE_TASK + "/cancel")
async def cancel_task(request: AnyRequest) -> ASGIResponse:
    """Cancel a task."""
    Query(request, _NONE)
    return await _cancel(request, (await read_optional(request, Why)).reason)


@handles("DELETE", ONE_TASK)
async def delete_task(request: AnyRequest) -> ASGIResponse:
    """Cancel a task."""
    Query(request, _NONE)
    return await _cancel(request, None)


@handles("POST", ONE_TASK + "/retry")
async def retry_task(request: AnyRequest) -> ASGIResponse:
    """Run a task again."""
    Query(request, _NONE)
    return await retried(request, "retry_task")


async def retried(request: AnyRequest, verb: str) -> ASGIResponse:
    """Call retry_task or retry_dead_letter."""
    who = principal(request)
    why = await read_optional(request, Why)
    call = verb_within(verb, who.tenant, task_id(request), why.reason, who.actor)
    document = msgspec.json.decode(await services(request).database.run(call))
    return reply({"task_id": document["task_id"], "status": document["status"]})


@handles("GET", ONE_TASK + "/result")
async def get_result(request: AnyRequest) -> ASGIResponse:
    """Read the result, waiting for it."""
    service = services(request)
    wait = Query(request, frozenset({"wait"})).number("wait", 0, 0, 60)
    id_ = task_id(request)
    found = await _standing(request, id_)
    if found["done"] or not wait:
        return reply(found, 200 if found["done"] else 202)
    ended = await service.waiting.result(id_, wait)
    if ended is not None:
        return reply(ended.encode())
    found = await _standing(request, id_)
    return reply(found, 200 if found["done"] else 202)


async def _standing(request: AnyRequest, id_: Any) -> dict[str, Any]:
    found = await services(request).tasks.read(id_, principal(request).tenant)
    document = msgspec.json.decode(found.document)
    names = ("task_id", "status", "result", "error_type", "error_message")
    done = document["status"] in ("SUCCEEDED", "FAILED", "CANCELLED", "DEAD")
    return {"done": done, **{name: document[name] for name in names}}


HANDLERS = [
    submit_task,
    submit_batch,
    list_tasks,
    get_task,
    edit_task,
    cancel_task,
    delete_task,
    retry_task,
    get_result,
]

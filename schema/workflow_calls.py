"""The calls of those who submit workflows, look at them and steer them."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from .call import Call, Rows, call, id_argument, optional_instant, text, texts
from .encode import check_text, encode_json, shown
from .errors import InvalidInput
from .options import integer, read_options
from .producer import changes
from .records import Result
from .task_calls import RESULT_COLUMNS, read_result
from .workflow_records import SubmittedWorkflow, WorkflowGraph, WorkflowRecord, WorkflowStatus

NODE_FIELDS = ("name", "task_type", "payload", "dependencies", "trigger")


def submit_workflow(
    name: str, tasks: Sequence[Mapping[str, Any]], options: Mapping[str, Any] | None = None
) -> Call[SubmittedWorkflow]:
    """Submit a workflow, all or nothing.

    Args:
        name: Its name; several may have the same.
        tasks: For each ``name``, ``task_type``, ``payload``, ``dependencies``
            (names), ``trigger`` and any options of a submission.
        options: ``idempotency_key``, ``metadata`` and ``tenant`` of the workflow.

    Raises:
        InvalidInput: Something in them cannot be sent.
    """
    documents = [_document(task, f"tasks[{index}]") for index, task in enumerate(tasks)]
    return submit_documents(name, documents, options or {})


def submit_documents(
    name: str, documents: Sequence[bytes], options: Mapping[str, Any]
) -> Call[SubmittedWorkflow]:
    """Submit a workflow whose tasks are JSON objects already; see submit_workflow."""
    given = read_options(options)
    if unknown := given.keys() - {"idempotency_key", "metadata"}:
        raise TypeError(f"{min(unknown)!r} is an option of a task, not of a workflow.")
    return call(
        "submit_workflow",
        "submit_workflow::text",
        lambda rows: msgspec.json.decode(rows[0][0], type=SubmittedWorkflow),
        {
            "name": ("text", check_text("workflow_name", name)),
            "tasks": ("jsonb", (b"[%b]" % b",".join(documents)).decode()),
            "idempotency_key": ("text", given.get("idempotency_key")),
            "metadata": ("jsonb", given.get("metadata")),
        },
        repeatable="idempotency_key" in given,
    )


def submit_workflows(
    flows: Iterable[tuple[str, Sequence[bytes], Mapping[str, Any]]],
) -> Call[list[SubmittedWorkflow]]:
    """Submit many workflows, all or nothing.

    Args:
        flows: For each its name, its tasks as JSON objects, and its options as for
            submit_documents.

    Raises:
        InvalidInput: Something in them cannot be sent.
    """
    return call(
        "submit_workflows",
        "submit_workflows::text",
        lambda rows: [msgspec.json.decode(row[0], type=SubmittedWorkflow) for row in rows],
        {"workflows": ("jsonb", msgspec.json.encode([_whole(*flow) for flow in flows]).decode())},
    )


def _whole(name: str, documents: Sequence[bytes], options: Mapping[str, Any]) -> dict[str, Any]:
    given = read_options(options)
    document: dict[str, Any] = {
        "workflow_name": check_text("workflow_name", name),
        "tasks": [msgspec.Raw(task) for task in documents],
    }
    if "idempotency_key" in given:
        document["idempotency_key"] = given["idempotency_key"]
    if "metadata" in given:
        document["metadata"] = msgspec.Raw(given["metadata"].encode())
    return document


def _document(task: Any, where: str) -> bytes:
    if not isinstance(task, Mapping):
        raise InvalidInput(f"{where} is no mapping.", where, shown(task), "Give a dict.")
    options = {key: value for key, value in task.items() if key not in NODE_FIELDS}
    document = {key: task[key] for key in NODE_FIELDS if key in task and key != "payload"}
    try:
        document.update(changes(options))
    except TypeError as error:
        raise InvalidInput(f"{where}: {error}", where, shown(sorted(options))) from error
    except InvalidInput as error:
        field = f"{where}.{error.field}"
        raise InvalidInput(f"{where}: {error.message}", field, error.value, error.remedy) from error
    document["payload"] = msgspec.Raw(encode_json(task.get("payload", {}), f"{where}.payload"))
    return encode_json(document, where)


def get_workflow(workflow_id: UUID | str) -> Call[WorkflowRecord]:
    """Read one workflow, with the number of its tasks in each state."""
    arguments = {"workflow_id": id_argument(workflow_id, "workflow_id")}
    return call("get_workflow", "get_workflow::text", _one, arguments, repeatable=True)


def _one(rows: Rows) -> WorkflowRecord:
    return msgspec.json.decode(rows[0][0], type=WorkflowRecord)


def workflow_status(workflow_id: UUID | str) -> Call[WorkflowStatus]:
    """Read a workflow's state alone, which costs one look at one row."""
    return call(
        "workflow_status",
        "workflow_status",
        lambda rows: WorkflowStatus(rows[0][0]),
        {"workflow_id": id_argument(workflow_id, "workflow_id")},
        repeatable=True,
    )


def workflow_graph(workflow_id: UUID | str) -> Call[WorkflowGraph]:
    """Read a workflow with its nodes and edges."""
    return call(
        "workflow_graph",
        "workflow_graph::text",
        lambda rows: msgspec.json.decode(rows[0][0], type=WorkflowGraph),
        {"workflow_id": id_argument(workflow_id, "workflow_id")},
        repeatable=True,
    )


def list_workflows(
    *,
    status: str | Sequence[str] | None = None,
    name: str | None = None,
    tenant: str | None = None,
    created_after: datetime | None = None,
    created_before: datetime | None = None,
    limit: int = 50,
    cursor: str | None = None,
) -> Call[list[WorkflowRecord]]:
    """Read workflows, the newest first."""
    return call(
        "list_workflows",
        "list_workflows::text",
        lambda rows: [msgspec.json.decode(row[0], type=WorkflowRecord) for row in rows],
        {
            "status": texts("status", status),
            "name": text("name", name),
            "tenant_id": text("tenant", tenant),
            "created_after": optional_instant("created_after", created_after),
            "created_before": optional_instant("created_before", created_before),
            "limit": ("int", integer("limit", limit)),
            "cursor": text("cursor", cursor),
        },
        repeatable=True,
    )


def cancel_workflow(
    workflow_id: UUID | str, reason: str | None = None, actor: str | None = None
) -> Call[WorkflowRecord]:
    """Cancel all tasks of a workflow that have not ended."""
    return _verb("cancel_workflow", workflow_id, reason, actor)


def retry_workflow(
    workflow_id: UUID | str, reason: str | None = None, actor: str | None = None
) -> Call[WorkflowRecord]:
    """Run again what failed in a workflow, and what did not run because of it."""
    return _verb("retry_workflow", workflow_id, reason, actor)


def _verb(
    name: str, workflow_id: UUID | str, reason: str | None, actor: str | None
) -> Call[WorkflowRecord]:
    return call(
        name,
        f"{name}::text",
        _one,
        {
            "workflow_id": id_argument(workflow_id, "workflow_id"),
            "reason": text("reason", reason),
            "actor": text("actor", actor),
        },
    )


def workflow_results(workflow_id: UUID | str) -> Call[dict[str, Result]]:
    """Read where each task of a workflow stands, by name."""
    return _results("workflow_results", "workflow_id", id_argument(workflow_id, "workflow_id"))


def dependency_results(task_id: UUID | str) -> Call[dict[str, Result]]:
    """Read how the dependencies of a workflow's task ended, by name."""
    return _results("dependency_results", "task_id", id_argument(task_id))


def _results(name: str, field: str, value: tuple[str, str]) -> Call[dict[str, Result]]:
    return call(
        name,
        f"name, {RESULT_COLUMNS}",
        lambda rows: {row[0]: read_result(row[1:]) for row in rows},
        {field: value},
        repeatable=True,
    )

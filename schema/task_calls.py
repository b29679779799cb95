"""The calls of those who look at tasks and steer them."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, LiteralString
from uuid import UUID

import msgspec

from .call import Call, Rows, as_uuid, call, id_argument, optional_instant, text, texts
from .encode import decode_json, encode_json
from .options import integer
from .producer import changes
from .records import DeadLetter, Result, Status, TaskRecord, decode_record

RESULT_COLUMNS: LiteralString = "task_id, status, done, result::text, error_type, error_message"


def _one(rows: Rows) -> TaskRecord:
    return decode_record(rows[0][0], TaskRecord)


def get_task(task_id: UUID | str) -> Call[TaskRecord]:
    """Read one task with its attempts."""
    arguments = {"task_id": id_argument(task_id)}
    return call("get_task", "get_task::text", _one, arguments, repeatable=True)


def list_tasks(
    *,
    status: str | Sequence[str] | None = None,
    task_type: str | None = None,
    queue: str | None = None,
    tenant: str | None = None,
    created_after: datetime | None = None,
    created_before: datetime | None = None,
    limit: int = 50,
    cursor: str | None = None,
) -> Call[list[TaskRecord]]:
    """Read tasks, the newest first."""
    return call(
        "list_tasks",
        "list_tasks::text",
        lambda rows: [decode_record(row[0], TaskRecord) for row in rows],
        {
            "status": texts("status", status),
            "task_type": text("task_type", task_type),
            "queue": text("queue", queue),
            "tenant_id": text("tenant", tenant),
            "created_after": optional_instant("created_after", created_after),
            "created_before": optional_instant("created_before", created_before),
            "limit": ("int", integer("limit", limit)),
            "cursor": text("cursor", cursor),
        },
        repeatable=True,
    )


def get_results(task_ids: Sequence[UUID]) -> Call[list[Result]]:
    """Read where tasks stand; those that do not exist are left out."""
    return call(
        "get_results",
        RESULT_COLUMNS,
        lambda rows: [read_result(row) for row in rows],
        {"task_ids": ("uuid[]", [str(task_id) for task_id in task_ids])},
        repeatable=True,
    )


def read_result(row: Sequence[Any]) -> Result:
    """Read a row of RESULT_COLUMNS."""
    task_id, status, done, result, error_type, error_message = row
    value = None if result is None else decode_json(result)
    return Result(as_uuid(task_id), Status(status), done, value, error_type, error_message)


def _verb(
    name: str, task_id: UUID | str, reason: str | None, actor: str | None
) -> Call[TaskRecord]:
    return call(
        name,
        f"{name}::text",
        _one,
        {
            "task_id": id_argument(task_id),
            "reason": text("reason", reason),
            "actor": text("actor", actor),
        },
    )


def cancel_task(
    task_id: UUID | str, reason: str | None = None, actor: str | None = None
) -> Call[TaskRecord]:
    """Cancel a task that has not ended."""
    return _verb("cancel_task", task_id, reason, actor)


def retry_task(
    task_id: UUID | str, reason: str | None = None, actor: str | None = None
) -> Call[TaskRecord]:
    """Run a FAILED, DEAD or CANCELLED task again, with a fresh budget."""
    return _verb("retry_task", task_id, reason, actor)


def retry_dead_letter(
    task_id: UUID | str, reason: str | None = None, actor: str | None = None
) -> Call[TaskRecord]:
    """Run a dead letter again."""
    return _verb("retry_dead_letter", task_id, reason, actor)


def discard_dead_letter(
    task_id: UUID | str, reason: str | None = None, actor: str | None = None
) -> Call[TaskRecord]:
    """Take a dead letter out of the queue for good."""
    return _verb("discard_dead_letter", task_id, reason, actor)


def edit_task(
    task_id: UUID | str, version: int, fields: Mapping[str, Any], actor: str | None = None
) -> Call[TaskRecord]:
    """Change a task that has not started. ``payload`` is one of the fields."""
    document = changes({name: value for name, value in fields.items() if name != "payload"})
    if "payload" in fields:
        document["payload"] = msgspec.Raw(encode_json(fields["payload"]))
    return call(
        "edit_task",
        "edit_task::text",
        _one,
        {
            "task_id": id_argument(task_id),
            "version": ("int", integer("version", version)),
            "changes": ("jsonb", msgspec.json.encode(document).decode()),
            "actor": text("actor", actor),
        },
    )


def list_dead_letters(
    *,
    task_type: str | None = None,
    queue: str | None = None,
    tenant: str | None = None,
    limit: int = 50,
    cursor: str | None = None,
) -> Call[list[DeadLetter]]:
    """Read dead letters, the newest first."""
    return call(
        "list_dead_letters",
        "list_dead_letters::text",
        lambda rows: [decode_record(row[0], DeadLetter) for row in rows],
        {
            "task_type": text("task_type", task_type),
            "queue": text("queue", queue),
            "tenant_id": text("tenant", tenant),
            "limit": ("int", integer("limit", limit)),
            "cursor": text("cursor", cursor),
        },
        repeatable=True,
    )


def retry_dead_letters(
    *,
    task_type: str | None = None,
    queue: str | None = None,
    tenant: str | None = None,
    actor: str | None = None,
) -> Call[int]:
    """Run a part of the dead letters again; repeat until it gives 0."""
    return call(
        "retry_dead_letters",
        "retry_dead_letters",
        lambda rows: int(rows[0][0]),
        {
            "task_type": text("task_type", task_type),
            "queue": text("queue", queue),
            "tenant_id": text("tenant", tenant),
            "actor": text("actor", actor),
        },
    )

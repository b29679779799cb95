"""The calls of those who submit tasks. See task_calls for all that comes after."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC
from typing import Any
from uuid import UUID

import msgspec

from .call import Call, JsonTexts, Rows, as_uuid, call, uuids
from .encode import check_text, encode_json, shown
from .errors import InvalidInput
from .options import CASTS, read_options
from .records import Status, Submitted
from .tracing import carry

# One statement holds one such chunk: the client encodes the next while the
# server works, and neither has to keep everything in memory at once.
CHUNK_TASKS = 5000
CHUNK_BYTES = 4 * 1024 * 1024


def submit_task(task_type: str, payload: bytes, options: Mapping[str, Any]) -> Call[Submitted]:
    """Submit one task.

    Args:
        task_type: Its type.
        payload: What encode_json gave.
        options: What read_options gave.
    """
    return call(
        "submit_task",
        "task_id, status, scheduled_at, created_at, duplicate",
        _submitted_one,
        {
            "task_type": ("text", check_text("task_type", task_type)),
            "payload": ("jsonb", payload.decode()),
            **{name: (CASTS[name], value) for name, value in carry(options).items()},
        },
        repeatable="idempotency_key" in options,
    )


def submit_tasks(tasks: Sequence[Mapping[str, Any]]) -> Call[list[Submitted]]:
    """Submit tasks of several types, all or none.

    Args:
        tasks: For each ``task_type``, ``payload`` and any options.
    """
    documents = [_document(task, f"tasks[{index}]") for index, task in enumerate(tasks)]
    return call(
        "submit_tasks",
        "task_id, status, scheduled_at, created_at, duplicate",
        lambda rows: [_submitted(row) for row in rows],
        {"tasks": ("jsonb", (b"[%b]" % b",".join(documents)).decode())},
    )


def submit_batch(
    task_type: str,
    payloads: JsonTexts,
    options: Mapping[str, Any],
    keys: Sequence[str | None] | None = None,
) -> Call[list[UUID]]:
    """Submit many tasks of one type with the same options; the ids come in order."""
    return call(
        "submit_batch",
        "submit_batch",
        lambda rows: uuids(rows[0][0]),
        {
            "task_type": ("text", check_text("task_type", task_type)),
            "payloads": ("text[]", payloads),
            **{name: (CASTS[name], value) for name, value in options.items()},
            "idempotency_keys": ("text[]", keys),
        },
        repeatable=keys is not None,
    )


def batches(
    task_type: str,
    payloads: Iterable[bytes],
    options: Mapping[str, Any],
    keys: Sequence[str | None] | None = None,
) -> Iterator[Call[list[UUID]]]:
    """Give the calls that submit all payloads; to be run in one transaction.

    Raises:
        InvalidInput: There is one key for all, or not one for each.
    """
    if "idempotency_key" in options:
        raise InvalidInput(
            "idempotency_key is one key, and these are many tasks.",
            "idempotency_key",
            options["idempotency_key"],
            "Give idempotency_keys, one for each task.",
        )
    texts = None if keys is None else [_key(index, key) for index, key in enumerate(keys)]
    start = 0
    options = carry(options)
    for chunk in chunks(payloads):
        part = None if texts is None else texts[start : start + len(chunk)]
        yield submit_batch(task_type, chunk, options, part)
        start += len(chunk)
    if texts is not None and len(texts) != start:
        raise InvalidInput(
            "There are not as many idempotency_keys as tasks.",
            "idempotency_keys",
            f"{len(texts)} for {start}",
            "Give a key, or None, for each task.",
        )


def _key(index: int, key: str | None) -> str | None:
    return None if key is None else check_text(f"idempotency_keys[{index}]", key)


def chunks(payloads: Iterable[bytes]) -> Iterator[JsonTexts]:
    """Cut documents into parts that are worth one statement each."""
    part, size = JsonTexts(), 0
    for payload in payloads:
        if part and (len(part) >= CHUNK_TASKS or size + len(payload) > CHUNK_BYTES):
            yield part
            part, size = JsonTexts(), 0
        part.append(payload)
        size += len(payload)
    if part:
        yield part


def _document(task: Mapping[str, Any], name: str) -> bytes:
    options = {key: value for key, value in task.items() if key not in ("task_type", "payload")}
    if "task_type" not in task:
        raise InvalidInput(f"{name}.task_type is missing.", f"{name}.task_type", shown(dict(task)))
    return encode_json(
        {
            "task_type": check_text(f"{name}.task_type", task["task_type"]),
            "payload": msgspec.Raw(encode_json(task.get("payload", {}), f"{name}.payload")),
            **changes(options),
        },
        name,
    )


def changes(options: Mapping[str, Any]) -> dict[str, Any]:
    """Give options as the fields of a JSON document."""
    return {
        name: msgspec.Raw(value.encode()) if CASTS[name] == "jsonb" else value
        for name, value in read_options(options).items()
    }


def _submitted_one(rows: Rows) -> Submitted:
    return _submitted(rows[0])


def _submitted(row: Sequence[Any]) -> Submitted:
    task_id, status, scheduled_at, created_at, duplicate = row
    return Submitted(
        as_uuid(task_id),
        Status(status),
        scheduled_at.astimezone(UTC),
        created_at.astimezone(UTC),
        duplicate,
    )

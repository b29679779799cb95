"""Workflows as people write them into files."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from ..schema.encode import shown
from ..schema.errors import InvalidInput

FIELDS = ("workflow_name", "tasks", "idempotency_key", "metadata")
TIMES = ("scheduled_at", "expires_at")


def read_workflow(
    file: Any, given: Mapping[str, str | None]
) -> tuple[str, list[Any], dict[str, Any]]:
    """Give name, tasks and options of a workflow file; what is given on the command line wins.

    Raises:
        InvalidInput: It is no workflow.
    """
    document = {"tasks": file} if isinstance(file, list) else file
    if not isinstance(document, dict):
        raise InvalidInput(
            "The file is no workflow.",
            "file",
            shown(file),
            'Write {"workflow_name": ..., "tasks": [...]}, or a list of tasks.',
        )
    if unknown := sorted(document.keys() - set(FIELDS)):
        raise InvalidInput(
            f"The file has an unknown field {unknown[0]}.",
            unknown[0],
            shown(document[unknown[0]]),
            f"Known fields: {', '.join(FIELDS)}.",
        )
    name = given["name"] or document.get("workflow_name")
    if not name:
        raise InvalidInput(
            "The workflow has no name.", "workflow_name", None, "Write it into the file, or --name."
        )
    tasks = document.get("tasks")
    if not isinstance(tasks, list):
        raise InvalidInput("tasks is no list.", "tasks", shown(tasks), "Give a list of objects.")
    options = {
        "idempotency_key": given["idempotency_key"] or document.get("idempotency_key"),
        "metadata": document.get("metadata"),
        "tenant": given["tenant"],
    }
    return name, [_with_times(task, index) for index, task in enumerate(tasks)], options


def _with_times(task: Any, index: int) -> Any:
    if not isinstance(task, dict):
        return task
    return {
        key: _instant(f"tasks[{index}].{key}", value) if key in TIMES and value else value
        for key, value in task.items()
    }


def _instant(field: str, value: Any) -> datetime:
    try:
        return datetime.fromisoformat(value)
    except (TypeError, ValueError) as error:
        raise InvalidInput(
            f"{field} is no time.", field, shown(value), "Give one like 2030-01-31T17:00:00Z."
        ) from error

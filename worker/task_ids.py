"""The ids that every line of a log carries which is written inside a task.

They are looked up when a line is written: tasks that write none pay nothing.
"""

from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from ..config import Config
from ..log import set_ids, setup_logging
from .document import ClaimedTask
from .settings import WorkerSettings


class HasTask(Protocol):
    """An attempt, wherever it runs."""

    task: ClaimedTask


def log_with_ids(
    settings: WorkerSettings, worker_id: str, current: Callable[[], HasTask | None]
) -> None:
    """Set up logging in a process that runs tasks.

    Args:
        settings: Format and level.
        worker_id: The worker.
        current: Gives the attempt in whose context it is called, None outside of one.
    """
    chosen = {"log_format": settings.log_format, "log_level": settings.log_level}
    setup_logging(msgspec.convert(chosen, Config))

    def ids() -> dict[str, Any]:
        attempt = current()
        return {} if attempt is None else _ids(attempt.task, worker_id)

    set_ids(ids)


def _ids(task: ClaimedTask, worker_id: str) -> dict[str, Any]:
    found: dict[str, Any] = {
        "task_id": task.task_id,
        "task_type": task.task_type,
        "attempt": task.attempt,
        "worker_id": worker_id,
    }
    if task.metadata is not None and b"traceparent" in bytes(task.metadata):
        parts = str(msgspec.json.decode(task.metadata).get("traceparent")).split("-")
        if len(parts) >= 4:
            found["trace_id"] = parts[1]
    return found

"""Waiting for a task to end, and showing what it became."""

import sys
import time
from collections.abc import Callable
from typing import Any
from uuid import UUID

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from ..schema.errors import NotFound
from ..schema.task_calls import get_results, get_task
from .database import Database
from .output import cell, console, fail, print_json, short, table, when

# What people look for first; the rest follows as the engine has it.
FIRST_FIELDS = (
    "task_id", "task_type", "status", "payload", "result", "error_type", "error_message",
    "progress", "queue", "priority", "attempt", "max_retries", "created_at", "scheduled_at",
    "started_at", "completed_at", "duration_ms",
)  # fmt: skip
FIRST_PAUSE, LONGEST_PAUSE = 0.005, 0.5


def wait(db: Database, task_id: UUID, seconds: float | None) -> bool:
    """Wait until the task has ended; False when ``seconds`` were not enough.

    Raises:
        NotFound: There is no such task.
    """

    def ended() -> bool:
        found = db.run(get_results([task_id]))
        if not found:
            raise NotFound(f"No task has the id {task_id}.")
        return found[0].done

    return poll(task_id, seconds, ended, lambda: _what_it_does(db, task_id))


def poll(
    name: UUID,
    seconds: float | None,
    ended: Callable[[], bool],
    tell: Callable[[], str] | None = None,
) -> bool:
    """Look again and again, at growing intervals; False when ``seconds`` were not enough.

    Args:
        name: What is waited for.
        seconds: How long; None for ever.
        ended: The look.
        tell: Says, to somebody who watches a long wait, how things stand.
    """
    deadline = None if seconds is None else time.monotonic() + seconds
    pause = FIRST_PAUSE
    with Console(stderr=True).status(f"Waiting for {name}") as status:
        while not ended():
            if deadline is not None and time.monotonic() >= deadline:
                return False
            if tell is not None and sys.stderr.isatty() and pause >= LONGEST_PAUSE:
                status.update(tell())
            left = pause if deadline is None else deadline - time.monotonic()
            time.sleep(max(0.0, min(pause, left)))
            pause = min(LONGEST_PAUSE, pause * 1.5)
    return True


def wait_and_show(db: Database, task_id: UUID, seconds: float | None, as_json: bool) -> None:
    """Wait, print the task, and end with exit code 0 only when it SUCCEEDED."""
    ended = wait(db, task_id, seconds)
    document = db.document(get_task(task_id))
    show(document, as_json)
    if not ended:
        fail(f"Task {task_id} is still {document['status']} after {seconds:g} s.")
    sys.exit(0 if document["status"] == "SUCCEEDED" else 1)


def show(document: dict[str, Any], as_json: bool) -> None:
    """Print one task."""
    if as_json:
        print_json(document)
        return
    parts: list[Any] = [_fields(document)]
    if document.get("attempts"):
        parts += [Text(), _attempts(document["attempts"])]
    if document.get("actions"):
        parts += [Text(), _actions(document["actions"])]
    console().print(Group(*parts))


def _what_it_does(db: Database, task_id: UUID) -> str:
    task = db.run(get_task(task_id))
    text = f"{task_id} is {task.status}"
    if task.progress is not None:
        text += f", {task.progress.share:.0%} {task.progress.message or ''}"
    # The words are the task's own and must not work as markup.
    return text.replace("[", r"\[")


def _fields(document: dict[str, Any]) -> Table:
    made = Table.grid(padding=(0, 2))
    for name in dict.fromkeys((*FIRST_FIELDS, *document)):
        value = document.get(name)
        if value in (None, [], {}) or name in ("attempts", "actions", "cursor"):
            continue
        if name == "progress":
            value = f"{value['share']:.0%} {value.get('message') or ''}".strip()
        elif name.endswith("_at") or name == "lease_expiry":
            value = when(value)
        elif isinstance(value, dict | list) or name in ("payload", "result", "checkpoint"):
            value = short(value, 2000)
        made.add_row(Text(name, style="bold"), cell(value))
    return made


def _attempts(attempts: list[dict[str, Any]]) -> Table:
    return table(
        "Attempts",
        ("#", "outcome", "started", "finished", "error", "retry at"),
        (
            (
                attempt.get("attempt"),
                attempt.get("outcome"),
                when(attempt.get("started_at")),
                when(attempt.get("finished_at")),
                _error(attempt),
                when(attempt.get("retry_at")),
            )
            for attempt in attempts
        ),
    )


def _error(attempt: dict[str, Any]) -> str | None:
    parts = [attempt.get("error_type"), attempt.get("error_message")]
    return short(": ".join(part for part in parts if part), 200) or None


def _actions(actions: list[dict[str, Any]]) -> Table:
    return table(
        "Actions",
        ("at", "actor", "did", "detail"),
        (
            (when(a.get("at")), a.get("actor"), a.get("verb"), short(a.get("detail") or ""))
            for a in actions
        ),
    )

"""What `skiplane up` shows: its tasks live on a terminal, one line per change elsewhere."""

import sys
import time
from collections import Counter, deque
from types import TracebackType
from typing import Self
from uuid import UUID

import rich_click as click
from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from ..schema.records import Status, TaskRecord
from ..schema.task_calls import get_task, list_tasks
from .database import Database
from .output import STATUS_STYLES, console, short, span, table

ROWS = 14
REMEMBERED = 500
LOOK_SECONDS = 0.5


class Stage:
    """Looks at the newest tasks twice a second and shows what has changed."""

    def __init__(self, db: Database, headline: list[str]) -> None:
        """Prepare it; ``headline`` stands above everything."""
        self._db = db
        self._headline = headline
        self._seen: dict[UUID, Status] = {}
        self._order: deque[UUID] = deque()
        self._looked_at = float("-inf")
        self._live = Live(console=console(), auto_refresh=False) if sys.stdout.isatty() else None

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
        else:
            for line in self._headline:
                click.echo(line)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live:
            self._live.stop()

    def look(self) -> None:
        """Look again, unless that was just done."""
        now = time.monotonic()
        if now - self._looked_at < LOOK_SECONDS:
            return
        self._looked_at = now
        # More than are shown: in plain lines no end of a task should be missed.
        newest = self._db.run(list_tasks(limit=200))
        changed = [task for task in newest if self._seen.get(task.task_id) != task.status]
        for task in changed:
            self._remember(task)
        if self._live:
            shown = [self._closer(task) for task in newest[:ROWS]]
            self._live.update(self._picture(shown), refresh=True)
        else:
            for task in reversed(changed):
                click.echo(_line(task))

    def _closer(self, task: TaskRecord) -> TaskRecord:
        # Lists leave the progress out.
        return self._db.run(get_task(task.task_id)) if task.status is Status.RUNNING else task

    def _remember(self, task: TaskRecord) -> None:
        if task.task_id not in self._seen:
            self._order.append(task.task_id)
        self._seen[task.task_id] = task.status
        if len(self._order) > REMEMBERED:
            del self._seen[self._order.popleft()]

    def _picture(self, newest: list[TaskRecord]) -> RenderableType:
        counts = Counter(self._seen.values())
        shown = [(str(s), STATUS_STYLES[s]) for s in Status if counts[s]]
        line = Text("  ").join(Text(f"{counts[Status(s)]} {s}", style=style) for s, style in shown)
        rows = (
            (task.task_id, task.task_type, str(task.status), task.attempt, _cut(_says(task)))
            for task in newest
        )
        return Group(
            *(Text(text) for text in self._headline),
            Text(),
            line,
            Text(),
            table(None, ("newest tasks", "type", "status", "try", ""), rows),
        )


def _says(task: TaskRecord) -> str:
    if task.status is Status.SUCCEEDED:
        took = None if task.duration_ms is None else span(task.duration_ms / 1000)
        return f"{short(task.result)}" + (f"  in {took}" if took else "")
    if task.progress is not None and task.status is Status.RUNNING:
        return f"{task.progress.share:.0%} {task.progress.message or ''}"
    if task.error_message:
        return short(task.error_message)
    return ""


def _cut(text: str) -> Text:
    return Text(text, no_wrap=True, overflow="ellipsis")


def _line(task: TaskRecord) -> str:
    clock = time.strftime("%H:%M:%S")
    says = _says(task)
    return f"{clock} {task.status:<9} {task.task_type} {task.task_id}{f'  {says}' if says else ''}"

"""The life of one task as a picture and as a list: what waited, what ran, how it ended."""

from datetime import UTC, datetime
from typing import Any, NamedTuple

from markupsafe import Markup

from .words import as_time, duration

WIDTH = 1000.0
LEAST = 6.0


class Part(NamedTuple):
    """A stretch of time: waiting, or one attempt."""

    kind: str
    label: str
    begin: datetime
    end: datetime


def parts_of(task: dict[str, Any], now: datetime | None = None) -> list[Part]:
    """Cut the time from submission to end, or to now, into parts."""
    now = now or datetime.now(UTC)
    created = as_time(task["created_at"]) or now
    done = as_time(task["completed_at"])
    parts: list[Part] = []
    place = created
    due = as_time(task["scheduled_at"])
    if due and due > created:
        place = min(due, done or now)
        parts.append(Part("planned", "until its time", created, place))
    for attempt in _attempts(task, now):
        begin, end = as_time(attempt["started_at"]), as_time(attempt["finished_at"])
        if begin is None or end is None:
            continue
        if begin > place:
            parts.append(Part("wait", "waiting", place, begin))
        outcome = attempt["outcome"]
        parts.append(Part(_kind(outcome), f"attempt {attempt['attempt']}: {outcome}", begin, end))
        place = max(place, end)
    end = done or now
    # What ended it is written a moment after its last attempt.
    waits = (end - place).total_seconds() > (1 if done and task["attempts"] else 0)
    if waits and task["status"] != "RUNNING":
        parts.append(Part("wait", "waiting", place, end))
    return parts


def _attempts(task: dict[str, Any], now: datetime) -> list[dict[str, Any]]:
    found = list(task["attempts"])
    if task["status"] == "RUNNING":
        found.append(
            {
                "attempt": task["attempt"],
                "outcome": "running",
                "started_at": task["started_at"],
                "finished_at": now,
            }
        )
    return found


def _kind(outcome: str) -> str:
    return {"succeeded": "ok", "running": "run", "cancelled": "off"}.get(outcome, "bad")


def draw(parts: list[Part]) -> Markup:
    """Draw parts to scale; what is too short to be seen is drawn as short as can be."""
    if not parts:
        return Markup("")
    begin, end = parts[0].begin, max(part.end for part in parts)
    whole = max((end - begin).total_seconds(), 0.001)
    shapes = []
    for part in parts:
        x = (part.begin - begin).total_seconds() / whole * WIDTH
        width = max((part.end - part.begin).total_seconds() / whole * WIDTH, LEAST)
        x = min(x, WIDTH - width)
        told = f"{part.label}, {duration((part.end - part.begin).total_seconds())}"
        shapes.append(
            Markup(
                '<rect class="t-{}" x="{:.1f}" y="{}" width="{:.1f}" height="{}">'
                "<title>{}</title></rect>"
            ).format(part.kind, x, *_place(part.kind, width), told)
        )
    summary = "; ".join(
        f"{part.label} {duration((part.end - part.begin).total_seconds())}" for part in parts[:20]
    )
    return Markup(
        '<svg class="timeline" role="img" aria-label="{}" viewBox="0 0 1000 40"'
        ' preserveAspectRatio="none">{}</svg>'
    ).format(f"Timeline: {summary}", Markup("").join(shapes))


def _place(kind: str, width: float) -> tuple[float, float, float]:
    return (16, width, 8) if kind in ("wait", "planned") else (6, width, 28)

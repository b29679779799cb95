"""How schedules are shown."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from rich.table import Table

from ..schema import cron_calls, cron_steps
from ..schema.errors import InvalidInput
from .database import Database
from .output import console, print_json, short, span, table, when

NEXT = 5
# What the top of a schedule's page says; the rest only when it is not the default.
_FIRST = (
    "cron_id", "name", "status", "reason", "cron_expression", "timezone", "task_type", "payload",
    "next_fire_time", "last_fire_time", "last_task_id", "overlap_policy", "missed_policy",
    "queued", "queue", "priority", "tenant_id", "version", "created_at",
)  # fmt: skip
_DEFAULTS: dict[str, Any] = {
    "missed_limit": 10, "jitter_seconds": 0, "max_retries": 3, "retry_backoff": "exponential",
    "retry_delay_seconds": 5, "retry_max_delay_seconds": 3600, "retry_jitter": "equal",
    "enabled": True, "cursor": None, "last_fired_at": None, "actions": None,
}  # fmt: skip


def show_schedule(db: Database, cron_id: UUID, as_json: bool) -> None:
    """Show one schedule, its next fires and its history of changes."""
    document = db.document(cron_calls.get_cron_task(cron_id))
    if as_json:
        print_json(document)
        return
    out = console()
    more = [n for n in document if n not in _FIRST and n not in ("actions", "cursor")]
    names = [*_FIRST, *(n for n in more if document[n] != _DEFAULTS.get(n))]
    rows = [(n, _value(n, document.get(n))) for n in names if document.get(n) is not None]
    out.print(table(None, ("schedule", ""), rows))
    if document["status"] == "ACTIVE":
        try:
            fires = cron_steps.take(db.run, cron_steps.preview(cron_id, NEXT))
        except InvalidInput:  # the scheduler has not looked at it yet, and will say so
            fires = []
        out.print()
        out.print(show_fires(fires, ZoneInfo(document["timezone"]) if fires else UTC))
    if document["actions"]:
        out.print()
        did = [(when(a["at"]), a["actor"], a["verb"], short(a["detail"] or {}))
                for a in document["actions"]]  # fmt: skip
        out.print(table("Changes", ("when", "who", "did", ""), did))


def _value(name: str, value: Any) -> Any:
    if name.endswith(("_at", "_time")):
        return when(value)
    return short(value, 120) if name in ("payload", "metadata") else value


def show_schedules(found: list[dict[str, Any]], as_json: bool) -> None:
    """Show a list of schedules."""
    if as_json:
        print_json(found)
        return
    rows = [
        (s["name"], s["cron_expression"], s["timezone"], s["task_type"], s["status"],
         when(s["next_fire_time"]), when(s["last_fire_time"]), s["reason"])
        for s in found
    ]  # fmt: skip
    columns = ("schedule", "expression", "zone", "type", "status", "next", "last", "reason")
    console().print(table(None, columns, rows))


def show_fires(fires: Sequence[datetime], zone: ZoneInfo | Any) -> Table:
    """Make a table of fire times, as the zone's clocks show them and in UTC."""
    rows = [
        (fire.astimezone(zone).strftime("%a %Y-%m-%d %H:%M:%S %Z"), when(fire)) for fire in fires
    ]
    return table(None, ("next fires", "UTC"), rows)


def show_history(found: list[dict[str, Any]], as_json: bool) -> None:
    """Show what a schedule did."""
    if as_json:
        print_json(found)
        return
    rows = [
        (when(f["fire_time"]), f["outcome"], span(_late(f)), f["task_id"], f["reason"])
        for f in found
    ]
    console().print(table(None, ("fire", "outcome", "late by", "task", ""), rows))


def _late(fire: dict[str, Any]) -> float:
    fired, due = (datetime.fromisoformat(fire[name]) for name in ("fired_at", "fire_time"))
    return max(0.0, (fired - due).total_seconds())

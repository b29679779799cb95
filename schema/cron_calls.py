"""The calls of those who make schedules and steer them.

Whoever creates or retimes a schedule reads the database's clock first (clock),
checks the expression and computes the first fire from that, and hands it over.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from ..firetimes import first_fire, preview
from .call import Call, Rows, as_uuid, call, id_argument, optional_instant, text
from .encode import check_text, encode_json, shown
from .errors import InvalidInput
from .options import CASTS, instant, integer, read_options, seconds
from .records import TaskRecord, decode_record
from .schedule_records import Fire, ScheduleRecord

# What a schedule has beside the options of its task: SQL type and check.
_FIELDS: dict[str, tuple[str, Any]] = {
    "cron_expression": ("text", check_text),
    "timezone": ("text", check_text),
    "overlap_policy": ("text", check_text),
    "missed_policy": ("text", check_text),
    "missed_limit": ("int", integer),
    "jitter_seconds": ("float8", seconds),
    "start_at": ("timestamptz", instant),
    "end_at": ("timestamptz", instant),
}
MOST_PREVIEWED = 1000
_TIMES = ("cron_expression", "timezone", "start_at", "end_at", "enabled")
_NOT_FOR_SCHEDULES = ("scheduled_at", "delay_seconds", "idempotency_key", "expires_at")


class Times(NamedTuple):
    """What decides when a schedule fires."""

    cron_expression: str
    timezone: str = "UTC"
    start_at: datetime | None = None
    end_at: datetime | None = None

    def first_after(self, now: datetime) -> datetime:
        """Give the first fire after a time of the database's clock.

        Raises:
            InvalidInput: There is none, or the expression or the zone is refused.
        """
        return first_fire(self.cron_expression, self.timezone, now, self.start_at, self.end_at)

    def next_after(self, now: datetime, count: int) -> list[datetime]:
        """Give the next fires after a time.

        Raises:
            InvalidInput: The expression, the zone or the number is refused.
        """
        if not 1 <= integer("count", count) <= MOST_PREVIEWED:
            raise InvalidInput(
                "count is out of range.", "count", shown(count), f"Give 1 to {MOST_PREVIEWED}."
            )
        return preview(self.cron_expression, self.timezone, now, count, self.start_at, self.end_at)


def clock() -> Call[datetime]:
    """Read the database's clock."""
    return call("clock", "clock", lambda rows: rows[0][0].astimezone(UTC), {}, repeatable=True)


def schedule_fields(given: Mapping[str, Any]) -> dict[str, Any]:
    """Check fields of a schedule and of its task; give the engine's names and values.

    Raises:
        TypeError: No field has that name.
        InvalidInput: A value is refused.
    """
    renamed = {"jitter_seconds" if name == "jitter" else name: v for name, v in given.items()}
    fields: dict[str, Any] = {}
    for name, value in renamed.items():
        if name in _FIELDS and value is not None:
            fields[name] = _FIELDS[name][1](name, value)
    if renamed.get("enabled") is not None:
        fields["enabled"] = _boolean("enabled", renamed["enabled"])
    options = {n: v for n, v in renamed.items() if n not in _FIELDS and n != "enabled"}
    read = read_options(options)
    for name in _NOT_FOR_SCHEDULES:
        if name in read:
            raise TypeError(f"{name!r} is no field of a schedule.")
    return {**fields, **read}


def times_of(fields: Mapping[str, Any], record: ScheduleRecord | None = None) -> Times:
    """Give what decides about fires: checked fields (None: the default), over a record's."""
    known = {} if record is None else {n: getattr(record, n) for n in Times._fields}
    given = {name: fields[name] for name in Times._fields if name in fields}
    return Times(**{n: value for n, value in {**known, **given}.items() if value is not None})


def changes_times(changes: Mapping[str, Any]) -> bool:
    """Tell whether an edit makes the fires be counted anew."""
    return any(name in changes for name in _TIMES)


def create_cron_task(
    name: str,
    task_type: str,
    payload: Any,
    fields: Mapping[str, Any],
    next_fire_time: datetime | None,
    actor: str | None = None,
) -> Call[ScheduleRecord]:
    """Create a schedule.

    Args:
        name: Unique per tenant.
        task_type: Of the tasks.
        payload: Of each task.
        fields: What schedule_fields gave.
        next_fire_time: What Times.first_after gave; None leaves it to the scheduler.
        actor: Who does it.
    """
    casts = {**{n: cast for n, (cast, _) in _FIELDS.items()}, **CASTS, "enabled": "bool"}
    return call(
        "create_cron_task",
        "create_cron_task::text",
        _one,
        {
            "name": ("text", check_text("name", name)),
            "task_type": ("text", check_text("task_type", task_type)),
            "payload": ("jsonb", encode_json({} if payload is None else payload).decode()),
            **{field: (casts[field], value) for field, value in fields.items()},
            "next_fire_time": optional_instant("next_fire_time", next_fire_time),
            "actor": text("actor", actor),
        },
    )


def edit_cron_task(
    cron_id: UUID | str,
    version: int,
    changes: Mapping[str, Any],
    next_fire_time: datetime | None = None,
    actor: str | None = None,
) -> Call[ScheduleRecord]:
    """Change a schedule.

    Args:
        cron_id: The schedule.
        version: The version that the caller saw.
        changes: Fields as for schedule_fields, ``task_type`` and ``payload``; None takes
            one back to its default.
        next_fire_time: As in create_cron_task, where the times change.
        actor: Who does it.
    """
    return call(
        "edit_cron_task",
        "edit_cron_task::text",
        _one,
        {
            "cron_id": id_argument(cron_id, "cron_id"),
            "version": ("int", integer("version", version)),
            "changes": ("jsonb", _document(changes).decode()),
            "next_fire_time": optional_instant("next_fire_time", next_fire_time),
            "actor": text("actor", actor),
        },
    )


def _document(changes: Mapping[str, Any]) -> bytes:
    own = ("task_type", "payload")
    given = {name: value for name, value in changes.items() if name not in own}
    fields = {
        name: msgspec.Raw(value.encode()) if CASTS.get(name) == "jsonb" else value
        for name, value in schedule_fields(given).items()
    }
    for name, value in given.items():
        if value is None:
            fields["jitter_seconds" if name == "jitter" else _engine_name(name)] = None
    if "task_type" in changes:
        fields["task_type"] = check_text("task_type", changes["task_type"])
    if "payload" in changes:
        fields["payload"] = msgspec.Raw(encode_json(changes["payload"]))
    return msgspec.json.encode(fields)


def _engine_name(name: str) -> str:
    return name if name in CASTS or f"{name}_seconds" not in CASTS else f"{name}_seconds"


def pause_cron_task(
    cron_id: UUID | str, reason: str | None = None, actor: str | None = None
) -> Call[ScheduleRecord]:
    """Stop a schedule from firing."""
    arguments = {
        "cron_id": id_argument(cron_id, "cron_id"),
        "reason": text("reason", reason),
        "actor": text("actor", actor),
    }
    return call("pause_cron_task", "pause_cron_task::text", _one, arguments)


def resume_cron_task(
    cron_id: UUID | str, next_fire_time: datetime | None = None, actor: str | None = None
) -> Call[ScheduleRecord]:
    """Let a schedule fire again, from now on."""
    arguments = {
        "cron_id": id_argument(cron_id, "cron_id"),
        "next_fire_time": optional_instant("next_fire_time", next_fire_time),
        "actor": text("actor", actor),
    }
    return call("resume_cron_task", "resume_cron_task::text", _one, arguments)


def delete_cron_task(cron_id: UUID | str, actor: str | None = None) -> Call[ScheduleRecord]:
    """Delete a schedule; give what it was."""
    arguments = {"cron_id": id_argument(cron_id, "cron_id"), "actor": text("actor", actor)}
    return call("delete_cron_task", "delete_cron_task::text", _one, arguments)


def run_cron_task(cron_id: UUID | str, actor: str | None = None) -> Call[TaskRecord]:
    """Submit the task of a schedule now."""
    arguments = {"cron_id": id_argument(cron_id, "cron_id"), "actor": text("actor", actor)}
    return call(
        "run_cron_task",
        "run_cron_task::text",
        lambda rows: decode_record(rows[0][0], TaskRecord),
        arguments,
    )


def find_cron_task(name: str, tenant: str | None = None) -> Call[UUID]:
    """Look up a schedule's id by its name."""
    arguments = {"name": ("text", check_text("name", name)), "tenant_id": text("tenant", tenant)}
    return call(
        "find_cron_task",
        "find_cron_task",
        lambda rows: as_uuid(rows[0][0]),
        arguments,
        repeatable=True,
    )


def get_cron_task(cron_id: UUID | str) -> Call[ScheduleRecord]:
    """Read one schedule with what was done to it."""
    arguments = {"cron_id": id_argument(cron_id, "cron_id")}
    return call("get_cron_task", "get_cron_task::text", _one, arguments, repeatable=True)


def list_cron_tasks(
    *,
    status: str | None = None,
    task_type: str | None = None,
    tenant: str | None = None,
    limit: int = 50,
    cursor: str | None = None,
) -> Call[list[ScheduleRecord]]:
    """Read schedules, the newest first."""
    return call(
        "list_cron_tasks",
        "list_cron_tasks::text",
        lambda rows: [decode_record(row[0], ScheduleRecord) for row in rows],
        {
            "status": text("status", status),
            "task_type": text("task_type", task_type),
            "tenant_id": text("tenant", tenant),
            "limit": ("int", integer("limit", limit)),
            "cursor": text("cursor", cursor),
        },
        repeatable=True,
    )


def list_fires(
    cron_id: UUID | str, *, before: datetime | None = None, limit: int = 50
) -> Call[list[Fire]]:
    """Read a schedule's history, the latest fire time first."""
    return call(
        "list_fires",
        "list_fires::text",
        lambda rows: [decode_record(row[0], Fire) for row in rows],
        {
            "cron_id": id_argument(cron_id, "cron_id"),
            "before": optional_instant("before", before),
            "limit": ("int", integer("limit", limit)),
        },
        repeatable=True,
    )


def _boolean(name: str, value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise InvalidInput(f"{name} is neither true nor false.", name, shown(value), "Give a bool.")


def _one(rows: Rows) -> ScheduleRecord:
    return decode_record(rows[0][0], ScheduleRecord)

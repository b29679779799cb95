"""The call that makes an app's schedules what its code declares."""

import contextlib
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from .call import Call, call, text
from .cron_calls import Times, clock, schedule_fields, times_of
from .cron_steps import Steps
from .encode import check_text, encode_json
from .errors import InvalidInput
from .options import CASTS
from .records import decode_record
from .schedule_records import ScheduleChange


class Declared(NamedTuple):
    """A schedule as an app's code declares it; ``fields`` is what schedule_fields gave."""

    name: str
    task_type: str
    payload: bytes
    fields: Mapping[str, Any]
    times: Times

    @property
    def tenant(self) -> str:
        """The tenant, which makes the name unique."""
        metadata = msgspec.json.decode(self.fields.get("metadata", "{}"))
        return str(metadata.get("tenant_id", "default"))


def declared(name: str, task_type: str, payload: Any, fields: Mapping[str, Any]) -> Declared:
    """Check what a caller declares.

    Raises:
        InvalidInput: A field is refused, or the expression never fires.
        TypeError: No field has that name.
    """
    checked = schedule_fields(fields)
    times = times_of(checked)
    # Without its end: that one may pass while the code stays as it is.
    times._replace(start_at=None, end_at=None).first_after(datetime.now().astimezone())
    document = encode_json({} if payload is None else payload)
    own = (check_text("name", name), check_text("task_type", task_type))
    return Declared(*own, document, checked, times)


def sync(
    owner: str,
    schedules: Iterable[Declared],
    *,
    dry_run: bool = False,
    adopt: bool = False,
    actor: str | None = None,
) -> Steps[list[ScheduleChange]]:
    """Make the schedules of an owner what is declared, all in one transaction.

    Raises:
        Conflict: A name belongs to somebody else.
        InvalidInput: The engine refuses a field.
    """
    now: datetime = yield clock()
    documents = [_document(schedule, now) for schedule in schedules]
    changes: list[ScheduleChange] = yield sync_cron_tasks(owner, documents, dry_run, adopt, actor)
    return changes


def sync_cron_tasks(
    owner: str, documents: list[dict[str, Any]], dry_run: bool, adopt: bool, actor: str | None
) -> Call[list[ScheduleChange]]:
    """Make the schedules of an owner what the documents say."""
    return call(
        "sync_cron_tasks",
        "sync_cron_tasks::text",
        lambda rows: [decode_record(row[0], ScheduleChange) for row in rows],
        {
            "owner": ("text", check_text("owner", owner)),
            "schedules": ("jsonb", msgspec.json.encode(documents).decode()),
            "dry_run": ("bool", dry_run),
            "adopt": ("bool", adopt),
            "actor": text("actor", actor),
        },
    )


def _document(schedule: Declared, now: datetime) -> dict[str, Any]:
    fields = {
        name: msgspec.Raw(value.encode()) if CASTS.get(name) == "jsonb" else value
        for name, value in schedule.fields.items()
    }
    first = None
    if fields.get("enabled", True):
        # One that has ended is not an error: it is in the code still.
        with contextlib.suppress(InvalidInput):
            first = schedule.times.first_after(now)
    return {
        **fields,
        "name": schedule.name,
        "task_type": schedule.task_type,
        "payload": msgspec.Raw(schedule.payload),
        "next_fire_time": first,
    }

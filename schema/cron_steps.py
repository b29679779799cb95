"""Verbs of schedules that take more than one call, for any way of running calls.

Each is a generator that yields calls, is sent their answers, and returns the last.
``take`` and ``take_async`` walk through one. They read the database's clock and
compute the first fire before they write, so that what is wrong is said at once
and a schedule fires from the moment at which it is stored.
"""

from collections.abc import Awaitable, Callable, Generator, Mapping
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

from . import cron_calls
from .call import Call
from .cron_calls import Times
from .schedule_records import ScheduleRecord

T = TypeVar("T")
Steps = Generator[Call[Any], Any, T]


def take(run: Callable[[Call[Any]], Any], steps: Steps[T]) -> T:
    """Walk through the steps with a function that runs a call."""
    try:
        call = next(steps)
        while True:
            call = steps.send(run(call))
    except StopIteration as stop:
        value: T = stop.value
        return value


async def take_async(run: Callable[[Call[Any]], Awaitable[Any]], steps: Steps[T]) -> T:
    """Walk through the steps with a coroutine function that runs a call."""
    try:
        call = next(steps)
        while True:
            call = steps.send(await run(call))
    except StopIteration as stop:
        value: T = stop.value
        return value


def create(
    name: str,
    task_type: str,
    payload: Any,
    fields: Mapping[str, Any],
    actor: str | None = None,
) -> Steps[ScheduleRecord]:
    """Create a schedule; ``fields`` is as given by a caller.

    Raises:
        InvalidInput: A field is refused, or the expression never fires.
        Conflict: The name is taken.
    """
    checked = cron_calls.schedule_fields(fields)
    times = cron_calls.times_of(checked)
    first = None
    if checked.get("enabled", True):
        first = yield from _first(times)
    else:
        times.first_after(datetime.now().astimezone())  # refused now, not when it is resumed
    made: ScheduleRecord = yield cron_calls.create_cron_task(
        name, task_type, payload, checked, first, actor
    )
    return made


def edit(
    cron_id: UUID | str, version: int, changes: Mapping[str, Any], actor: str | None = None
) -> Steps[ScheduleRecord]:
    """Change a schedule, see create and edit_cron_task.

    Raises:
        StaleVersion: Somebody changed it in between.
    """
    first = None
    if cron_calls.changes_times(changes):
        record: ScheduleRecord = yield cron_calls.get_cron_task(cron_id)
        own = ("task_type", "payload")
        given = {name: value for name, value in changes.items() if name not in own}
        checked = {**cron_calls.schedule_fields(given), **_nulls(given)}
        first = yield from _first(cron_calls.times_of(checked, record))
        if not checked.get("enabled", record.status != "PAUSED"):
            first = None
    made: ScheduleRecord = yield cron_calls.edit_cron_task(cron_id, version, changes, first, actor)
    return made


def resume(cron_id: UUID | str, actor: str | None = None) -> Steps[ScheduleRecord]:
    """Let a schedule fire again.

    Raises:
        InvalidInput: It has no fire left.
    """
    record: ScheduleRecord = yield cron_calls.get_cron_task(cron_id)
    if record.status == "ACTIVE":
        return record
    first = yield from _first(cron_calls.times_of({}, record))
    made: ScheduleRecord = yield cron_calls.resume_cron_task(cron_id, first, actor)
    return made


def preview(
    cron_id: UUID | str, count: int, after: datetime | None = None
) -> Steps[list[datetime]]:
    """Give the next fire times of a stored schedule, whether it is paused or not."""
    record: ScheduleRecord = yield cron_calls.get_cron_task(cron_id)
    now: datetime = after or (yield cron_calls.clock())
    return cron_calls.times_of({}, record).next_after(now, count)


def preview_times(times: Times, count: int, after: datetime | None = None) -> Steps[list[datetime]]:
    """Give the next fire times of what is not stored."""
    now: datetime = after or (yield cron_calls.clock())
    return times.next_after(now, count)


def _first(times: Times) -> Steps[datetime]:
    now: datetime = yield cron_calls.clock()
    return times.first_after(now)


def _nulls(given: Mapping[str, Any]) -> dict[str, None]:
    return {name: None for name, value in given.items() if value is None}

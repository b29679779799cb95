"""Making schedules, and the scheduler's turns at times of the test's choice."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from psycopg.conninfo import make_conninfo
from psycopg.types.json import Jsonb

from skiplane.scheduler.cron import Cron, Queued
from skiplane.scheduler.link import Link, Outage
from skiplane.schema.cron_loop_calls import CRON_SETTINGS
from skiplane.tests.support import set_clock
from skiplane.tests.support.engine import Document, Engine


def at(text: str) -> datetime:
    """Read a time in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def create(
    engine: Engine, expression: str, name: str = "s", task_type: str = "work", **fields: Any
) -> UUID:
    """Create a schedule through SQL; it waits for the scheduler to read its expression."""
    document = engine.value(
        "create_cron_task", name=name, cron_expression=expression, task_type=task_type, **fields
    )
    return UUID(document["cron_id"])


def get(engine: Engine, cron_id: UUID) -> Document:
    """Give a schedule's document."""
    document = engine.value("get_cron_task", cron_id=cron_id)
    assert isinstance(document, dict)
    return document


def edit(engine: Engine, cron_id: UUID, **changes: Any) -> Document:
    """Edit the version that there is."""
    version = get(engine, cron_id)["version"]
    document = engine.value(
        "edit_cron_task", cron_id=cron_id, version=version, changes=Jsonb(changes)
    )
    assert isinstance(document, dict)
    return document


async def turns(dsn: str, *times: str, loop: type[Cron] | type[Queued] = Cron) -> None:
    """Let a scheduler that was just started do what is due at each of these times."""
    for time in times:
        link = linked_at(dsn, time)
        try:
            made = Cron(link, [0], 0.025) if loop is Cron else Queued(link, [0])
            while await made.run_once() == 0:
                pass
        finally:
            link.abort()


def linked_at(dsn: str, time: str | None) -> Link:
    """Give a link on which the engine's clock stands; None lets it run."""
    if time is not None:
        dsn = make_conninfo(dsn, options=f"-c skiplane.now={time}Z")
    return Link(dsn, Outage(), "scheduler cron", CRON_SETTINGS)


def fires(engine: Engine, cron_id: UUID, outcome: str | None = None) -> list[datetime]:
    """Give the fire times in the history, the earliest first."""
    rows = engine.conn.execute(
        "select fire_time from skiplane.fire where schedule_id = %s"
        " and coalesce(outcome = %s, outcome <> 'missed') order by fire_time",
        [cron_id, outcome],
    )
    return [row[0].astimezone(UTC) for row in rows]


def tasks(engine: Engine, task_type: str = "work") -> list[tuple[str, datetime]]:
    """Give state and time of the tasks of a type, the earliest first."""
    rows = engine.conn.execute(
        "select status, scheduled_at from skiplane.tasks where task_type = %s"
        " order by scheduled_at",
        [task_type],
    )
    return [(row[0], row[1].astimezone(UTC)) for row in rows]


def stand(engine: Engine, time: str) -> None:
    """Let the engine's clock of the test stand at a time."""
    set_clock(engine.conn, f"{time}Z")

"""Schedules from an app: ``app.cron``, each verb async and sync.

Every verb takes ``connection``, as in submitting. ``actor`` is kept in the schedule's
history; without one it is the database's user.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypedDict, Unpack
from uuid import UUID

from .declare_schedules import SyncingSchedules, template
from .schedule_options import ScheduleOptions
from .schema import cron_calls, cron_steps
from .schema.call import Call
from .schema.records import TaskRecord
from .schema.schedule_records import Fire, ScheduleRecord
from .task import Task

if TYPE_CHECKING:
    from .app import Skiplane

Schedules = list[ScheduleRecord]  # inside the class, `list` is the verb
Fires = list[Fire]
Times = list[datetime]
CronId = UUID | str


class ScheduleChanges(ScheduleOptions, total=False):
    """What an edit may change: all but the name."""

    cron_expression: str
    task_type: str
    payload: Any


class ScheduleFilter(TypedDict, total=False):
    """Which schedules to list."""

    status: str | None
    task_type: str | None
    tenant: str | None
    limit: int
    cursor: str | None


class Cron(SyncingSchedules):
    """The verbs of schedules."""

    def __init__(self, app: "Skiplane") -> None:
        self._app = app

    async def create(
        self,
        name: str,
        cron_expression: str,
        task: str | Task[..., Any],
        payload: Any = None,
        *,
        actor: str | None = None,
        connection: Any = None,
        **options: Unpack[ScheduleOptions],
    ) -> ScheduleRecord:
        """Create a schedule.

        Args:
            name: Unique per tenant.
            cron_expression: 5 fields, 6 with seconds last, or ``@daily`` and the like.
            task: A task of this app, whose options and arguments count, or the name of a type.
            payload: Any JSON value; a dict becomes the keyword arguments of a Python task.
            actor: Who does it.
            connection: Create inside the transaction that is open there.
            options: See ScheduleOptions.

        Raises:
            InvalidInput: The expression or the zone is none, it never fires, or an
                option or the payload is refused.
            Conflict: The name is taken.
        """
        steps = _creating(name, cron_expression, task, payload, options, actor)
        return await cron_steps.take_async(self._runner(connection), steps)

    def create_sync(
        self,
        name: str,
        cron_expression: str,
        task: str | Task[..., Any],
        payload: Any = None,
        *,
        actor: str | None = None,
        connection: Any = None,
        **options: Unpack[ScheduleOptions],
    ) -> ScheduleRecord:
        """Do what ``create`` does, without an event loop."""
        steps = _creating(name, cron_expression, task, payload, options, actor)
        return cron_steps.take(self._runner_sync(connection), steps)

    async def get(self, cron_id: CronId, *, connection: Any = None) -> ScheduleRecord:
        """Read a schedule. Raises NotFound when there is none."""
        return await self._app.run(cron_calls.get_cron_task(cron_id), connection)

    def get_sync(self, cron_id: CronId, *, connection: Any = None) -> ScheduleRecord:
        """Do what ``get`` does, without an event loop."""
        return self._app.run_sync(cron_calls.get_cron_task(cron_id), connection)

    async def find(
        self, name: str, *, tenant: str | None = None, connection: Any = None
    ) -> ScheduleRecord:
        """Read the schedule of a name. Raises NotFound when there is none."""
        found = await self._app.run(cron_calls.find_cron_task(name, tenant), connection)
        return await self.get(found, connection=connection)

    def find_sync(
        self, name: str, *, tenant: str | None = None, connection: Any = None
    ) -> ScheduleRecord:
        """Do what ``find`` does, without an event loop."""
        found = self._app.run_sync(cron_calls.find_cron_task(name, tenant), connection)
        return self.get_sync(found, connection=connection)

    async def list(self, *, connection: Any = None, **only: Unpack[ScheduleFilter]) -> Schedules:
        """Read schedules, the newest first; pass the last one's ``cursor`` for the next page."""
        return await self._app.run(cron_calls.list_cron_tasks(**only), connection)

    def list_sync(self, *, connection: Any = None, **only: Unpack[ScheduleFilter]) -> Schedules:
        """Do what ``list`` does, without an event loop."""
        return self._app.run_sync(cron_calls.list_cron_tasks(**only), connection)

    async def edit(
        self,
        cron_id: CronId,
        version: int,
        *,
        actor: str | None = None,
        connection: Any = None,
        **changes: Unpack[ScheduleChanges],
    ) -> ScheduleRecord:
        """Change a schedule; nothing fires because of it.

        Args:
            cron_id: The schedule.
            version: The version that was read; a change in between is an error.
            actor: Who does it.
            connection: Edit inside the transaction that is open there.
            changes: What to change. New times count from now.

        Raises:
            StaleVersion: Somebody changed it in between.
            InvalidInput: A change is refused.
        """
        steps = cron_steps.edit(cron_id, version, changes, actor)
        return await cron_steps.take_async(self._runner(connection), steps)

    def edit_sync(
        self,
        cron_id: CronId,
        version: int,
        *,
        actor: str | None = None,
        connection: Any = None,
        **changes: Unpack[ScheduleChanges],
    ) -> ScheduleRecord:
        """Do what ``edit`` does, without an event loop."""
        steps = cron_steps.edit(cron_id, version, changes, actor)
        return cron_steps.take(self._runner_sync(connection), steps)

    async def pause(
        self,
        cron_id: CronId,
        reason: str | None = None,
        *,
        actor: str | None = None,
        connection: Any = None,
    ) -> ScheduleRecord:
        """Stop a schedule from firing; its tasks go on."""
        return await self._app.run(cron_calls.pause_cron_task(cron_id, reason, actor), connection)

    def pause_sync(
        self,
        cron_id: CronId,
        reason: str | None = None,
        *,
        actor: str | None = None,
        connection: Any = None,
    ) -> ScheduleRecord:
        """Do what ``pause`` does, without an event loop."""
        return self._app.run_sync(cron_calls.pause_cron_task(cron_id, reason, actor), connection)

    async def resume(
        self, cron_id: CronId, *, actor: str | None = None, connection: Any = None
    ) -> ScheduleRecord:
        """Let a schedule fire again, from now on."""
        steps = cron_steps.resume(cron_id, actor)
        return await cron_steps.take_async(self._runner(connection), steps)

    def resume_sync(
        self, cron_id: CronId, *, actor: str | None = None, connection: Any = None
    ) -> ScheduleRecord:
        """Do what ``resume`` does, without an event loop."""
        steps = cron_steps.resume(cron_id, actor)
        return cron_steps.take(self._runner_sync(connection), steps)

    async def run(
        self, cron_id: CronId, *, actor: str | None = None, connection: Any = None
    ) -> TaskRecord:
        """Submit the task of a schedule now; its times stay as they are."""
        return await self._app.run(cron_calls.run_cron_task(cron_id, actor), connection)

    def run_sync(
        self, cron_id: CronId, *, actor: str | None = None, connection: Any = None
    ) -> TaskRecord:
        """Do what ``run`` does, without an event loop."""
        return self._app.run_sync(cron_calls.run_cron_task(cron_id, actor), connection)

    async def delete(
        self, cron_id: CronId, *, actor: str | None = None, connection: Any = None
    ) -> ScheduleRecord:
        """Delete a schedule and give what it was; tasks that it has started go on."""
        return await self._app.run(cron_calls.delete_cron_task(cron_id, actor), connection)

    def delete_sync(
        self, cron_id: CronId, *, actor: str | None = None, connection: Any = None
    ) -> ScheduleRecord:
        """Do what ``delete`` does, without an event loop."""
        return self._app.run_sync(cron_calls.delete_cron_task(cron_id, actor), connection)

    async def preview(
        self,
        cron_id: CronId,
        count: int = 5,
        *,
        after: datetime | None = None,
        connection: Any = None,
    ) -> Times:
        """Give the next fire times of a schedule, from now or from ``after`` on, in UTC."""
        steps = cron_steps.preview(cron_id, count, after)
        return await cron_steps.take_async(self._runner(connection), steps)

    def preview_sync(
        self,
        cron_id: CronId,
        count: int = 5,
        *,
        after: datetime | None = None,
        connection: Any = None,
    ) -> Times:
        """Do what ``preview`` does, without an event loop."""
        steps = cron_steps.preview(cron_id, count, after)
        return cron_steps.take(self._runner_sync(connection), steps)

    async def history(
        self,
        cron_id: CronId,
        *,
        before: datetime | None = None,
        limit: int = 50,
        connection: Any = None,
    ) -> Fires:
        """Read a schedule's fires, the latest first; pass the last ``fire_time`` for more."""
        call = cron_calls.list_fires(cron_id, before=before, limit=limit)
        return await self._app.run(call, connection)

    def history_sync(
        self,
        cron_id: CronId,
        *,
        before: datetime | None = None,
        limit: int = 50,
        connection: Any = None,
    ) -> Fires:
        """Do what ``history`` does, without an event loop."""
        call = cron_calls.list_fires(cron_id, before=before, limit=limit)
        return self._app.run_sync(call, connection)

    def _runner(self, connection: Any) -> Any:
        async def run(call: Call[Any]) -> Any:
            return await self._app.run(call, connection)

        return run

    def _runner_sync(self, connection: Any) -> Any:
        return lambda call: self._app.run_sync(call, connection)


def _creating(
    name: str,
    cron_expression: str,
    task: str | Task[..., Any],
    payload: Any,
    options: Mapping[str, Any],
    actor: str | None,
) -> cron_steps.Steps[ScheduleRecord]:
    task_type, checked, fields = template(task, payload, {**options})
    fields["cron_expression"] = cron_expression
    return cron_steps.create(name, task_type, checked, fields, actor)

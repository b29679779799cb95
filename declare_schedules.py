"""Declaring schedules in code: ``app.schedule``, and the sync that stores them."""

from typing import TYPE_CHECKING, Any, Unpack

from .schedule_options import ScheduleOptions
from .schema import cron_steps, cron_sync_calls
from .schema.call import Call
from .schema.cron_sync_calls import Declared
from .schema.encode import shown
from .schema.errors import InvalidInput
from .schema.schedule_records import ScheduleChange
from .task import Task

if TYPE_CHECKING:
    from .app import Skiplane


class DeclaringSchedules:
    """The part of an app that knows the schedules of its code."""

    def __init__(self) -> None:
        self._declared: dict[tuple[str, str], Declared] = {}

    def schedule(
        self,
        name: str,
        cron_expression: str,
        task: str | Task[..., Any],
        payload: Any = None,
        **options: Unpack[ScheduleOptions],
    ) -> None:
        """Declare a schedule, which ``skiplane cron sync`` stores.

        Nothing is sent: it may stand beside the task function, at import time.

        Args:
            name: Unique per tenant.
            cron_expression: 5 fields, 6 with seconds last, or ``@daily`` and the like.
            task: A task of this app, whose options and arguments count, or the name of a type.
            payload: Any JSON value; a dict becomes the keyword arguments of a Python task.
            options: See ScheduleOptions.

        Raises:
            InvalidInput: The expression or the zone is none, it never fires, an option or
                the payload is refused, or the name is declared already.
        """
        task_type, checked, fields = template(task, payload, {**options})
        fields["cron_expression"] = cron_expression
        made = cron_sync_calls.declared(name, task_type, checked, fields)
        if (made.tenant, name) in self._declared:
            raise InvalidInput(
                f"The schedule {name!r} is declared twice.",
                "name",
                shown(name),
                "Give one another name.",
            )
        self._declared[made.tenant, name] = made

    def declared_schedules(self) -> list[Declared]:
        """Give what is declared so far."""
        return list(self._declared.values())


class SyncingSchedules:
    """The part of ``app.cron`` that stores what the code declares."""

    _app: "Skiplane"

    async def sync(
        self,
        owner: str,
        *,
        dry_run: bool = False,
        adopt: bool = False,
        actor: str | None = None,
        connection: Any = None,
    ) -> list[ScheduleChange]:
        """Make the stored schedules what ``app.schedule`` has declared, in one transaction.

        Schedules that are missing are created, those that differ are edited, and
        those of the same owner that are not declared any more are deleted.

        Args:
            owner: Whose they are, such as ``myapp``. The command's is ``module:attribute``.
            dry_run: Only tell what would change.
            adopt: Take over schedules of these names that belong to somebody else.
            actor: Who does it.
            connection: Do it inside the transaction that is open there.

        Returns:
            One answer for each schedule, with what was changed.

        Raises:
            Conflict: A name belongs to somebody else, and ``adopt`` is not given.
        """
        steps = self._steps(owner, dry_run, adopt, actor)

        async def run(call: Call[Any]) -> Any:
            return await self._app.run(call, connection)

        return await cron_steps.take_async(run, steps)

    def sync_sync(
        self,
        owner: str,
        *,
        dry_run: bool = False,
        adopt: bool = False,
        actor: str | None = None,
        connection: Any = None,
    ) -> list[ScheduleChange]:
        """Do what ``sync`` does, without an event loop."""
        steps = self._steps(owner, dry_run, adopt, actor)
        return cron_steps.take(lambda call: self._app.run_sync(call, connection), steps)

    def _steps(
        self, owner: str, dry_run: bool, adopt: bool, actor: str | None
    ) -> cron_steps.Steps[list[ScheduleChange]]:
        declared = self._app.declared_schedules()
        return cron_sync_calls.sync(owner, declared, dry_run=dry_run, adopt=adopt, actor=actor)


def template(
    task: str | Task[..., Any], payload: Any, fields: dict[str, Any]
) -> tuple[str, Any, dict[str, Any]]:
    """Give type, checked payload and fields of a schedule; a task of the app brings its own."""
    if isinstance(task, str):
        return task, payload, fields
    return task.name, task.checked_payload(payload), {**task.given_options(), **fields}

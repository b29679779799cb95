"""All pages."""

from .pages import (
    dead_letters,
    failures,
    fleet,
    live,
    overview,
    schedules,
    sign_in,
    task,
    tasks,
    workflows,
)

HANDLERS = [
    *sign_in.HANDLERS,
    *overview.HANDLERS,
    *tasks.HANDLERS,
    *task.HANDLERS,
    *workflows.HANDLERS,
    *schedules.HANDLERS,
    *dead_letters.HANDLERS,
    *fleet.HANDLERS,
    *failures.HANDLERS,
    *live.HANDLERS,
]

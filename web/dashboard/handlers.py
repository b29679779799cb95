"""All pages."""

from .pages import dead_letters, failures, fleet, live, overview, sign_in, task, tasks

HANDLERS = [
    *sign_in.HANDLERS,
    *overview.HANDLERS,
    *tasks.HANDLERS,
    *task.HANDLERS,
    *dead_letters.HANDLERS,
    *fleet.HANDLERS,
    *failures.HANDLERS,
    *live.HANDLERS,
]

"""The processes that tasks start inside their worker, so that stopping a task stops them, too.

Noted is what goes through ``subprocess.Popen`` or the event loop's own
``subprocess_exec`` and ``subprocess_shell``, in a task itself or in what inherits
its context: ``asyncio.to_thread`` and the asyncio tasks that it makes. Not noted,
and left running: what is started by ``os.fork``, ``os.posix_spawn`` or
``multiprocessing``, and in a thread that was made by hand.
"""

import subprocess
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from .leases import Item
from .processes import kill_tree

running: ContextVar[Item | None] = ContextVar("running", default=None)


def note(pid: int) -> None:
    """Note a process that the task in whose context this is called has started."""
    item = running.get()
    if item is None:
        return
    if not item.ended:
        if item.children is None:
            item.children = []
        item.children.append(pid)
    if item.ended and item.stop is not None:  # it was stopped while it started this
        kill_tree(pid)


def kill_children(item: Item) -> None:
    """Kill what a stopped task had started and what those have started."""
    pids, item.children = item.children, None
    for pid in pids or ():
        kill_tree(pid)


def watch_popen() -> None:
    """Note what ``subprocess.Popen`` starts from now on, in this whole process."""
    start: Callable[..., None] = subprocess.Popen.__init__

    def started(self: "subprocess.Popen[Any]", *arguments: Any, **keywords: Any) -> None:
        start(self, *arguments, **keywords)
        note(self.pid)

    subprocess.Popen.__init__ = started  # type: ignore[method-assign]

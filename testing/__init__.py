"""Help for testing task functions.

``run_task`` runs one function with no database at all. ``drain`` runs what is
ready in a database, in this process. ``travel`` sets a connection's clock.
"""

from .clock import travel, travel_async
from .draining import drain
from .fakes import FakeAttempt, FakeContext, FakeSyncContext, run_task, run_task_sync

__all__ = [
    "FakeAttempt",
    "FakeContext",
    "FakeSyncContext",
    "drain",
    "run_task",
    "run_task_sync",
    "travel",
    "travel_async",
]

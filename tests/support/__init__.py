"""What tests share: a server, fresh databases, waiting, the clock."""

from .clock import reset_clock, set_clock
from .databases import Databases, Role
from .waiting import (
    backend_waits_for_lock,
    wait_for_lock,
    wait_until,
    wait_until_async,
)

__all__ = [
    "Databases",
    "Role",
    "backend_waits_for_lock",
    "reset_clock",
    "set_clock",
    "wait_for_lock",
    "wait_until",
    "wait_until_async",
]

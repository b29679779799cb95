"""Which tasks a worker process had begun, told to its supervisor even by its death.

A process holds more tasks than it runs. When one of them kills it, those that
only waited must not lose an attempt, and only memory that outlives the process
can still tell which they were. A task counts as begun until its end is recorded:
one whose body has ended, but whose end was lost, has had its effects.
"""

import mmap
import os
import re
import sys
import tempfile
from collections.abc import Iterable
from typing import BinaryIO, NamedTuple

from .leases import Lease

# An id as text: it is at hand in this form, and a place cleared or half written
# is no id to the pattern. In front of it: whether it runs in the process itself.
_HERE, _APART = b"h", b"a"
_PLACE = 37
_ID = re.compile(rb"([ha])([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})")
# Far more than run at once and end between two calls. Memory is only used as far
# as it is written to.
_SIZE = 65_536 * _PLACE
# Where ids go for which there is no place. It is never cleared: what was written
# over it is unknown from then on.
_OVERFLOW = 0


def shared_file() -> BinaryIO:
    """Make the memory, as a file without a name."""
    if sys.platform == "linux":
        file: BinaryIO = os.fdopen(os.memfd_create("begun"), "w+b", buffering=0)
    else:
        file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115  it stays open
    file.truncate(_SIZE)
    return file


class Noted(NamedTuple):
    """Ids of the tasks that a process had begun, or more.

    Attributes:
        here: Those that it ran itself.
        apart: Those that its pool processes ran.
    """

    here: list[str]
    apart: list[str]


def read(file: BinaryIO) -> Noted | None:
    """Give the tasks that a process had begun when it ended.

    Returns:
        None when every task that it held must count: it had begun too many, or
        none. In that case claiming them was its end (their payloads are too large
        for its memory, say), which would otherwise go on for ever.
    """
    data = os.pread(file.fileno(), _SIZE, 0)
    if data[_OVERFLOW]:
        return None
    found = _ID.findall(data)
    noted = Noted(
        [task_id.decode() for where, task_id in found if where == _HERE],
        [task_id.decode() for where, task_id in found if where == _APART],
    )
    return noted if found else None


class Begun:
    """The process's side."""

    __slots__ = ("_free", "_memory", "_next")

    def __init__(self, descriptor: int = -1) -> None:
        """Use the memory behind a descriptor; -1 where nobody will read it."""
        self._memory = mmap.mmap(descriptor, _SIZE)
        self._free: list[int] = []
        self._next = _PLACE

    def add(self, lease: Lease, task_id: str, apart: bool = False) -> None:
        """Note that a task of a lease begins, in a pool process or here; just before it does."""
        if self._free:
            place = self._free.pop()
        else:
            place = self._next
            if place < _SIZE:
                self._next += _PLACE
            else:
                place = _OVERFLOW
        self._memory[place : place + _PLACE] = (_APART if apart else _HERE) + task_id.encode()
        lease.begun[task_id] = place

    def discard(self, lease: Lease, task_ids: Iterable[str]) -> None:
        """Note that tasks have not begun after all, or that nobody asks any more."""
        memory, free, places = self._memory, self._free, lease.begun
        for task_id in task_ids:
            place = places.pop(task_id, _OVERFLOW)
            if place != _OVERFLOW:
                memory[place] = 0
                free.append(place)

"""Reading tasks by id, gathered into few statements."""

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from ..schema.web_calls import read_tasks
from .database import Database
from .gather import Gatherer
from .problems import Problem

SLOTS = 2
MOST = 64


class Found(NamedTuple):
    """A task as the engine wrote it, and its version."""

    version: int
    document: bytes


class _Wish(NamedTuple):
    task_id: UUID
    within: str | None


class TaskReader:
    """Reads tasks for all requests of this process."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._gatherer: Gatherer[_Wish, Found] = Gatherer(self._together, SLOTS, MOST)

    async def read(self, task_id: UUID, within: str | None) -> Found:
        """Give a task.

        Raises:
            Problem: There is none with this id that the caller may see.
        """
        return await self._gatherer.ask(_Wish(task_id, within))

    async def _together(self, wishes: Sequence[_Wish]) -> Sequence[Found | Exception]:
        call = read_tasks([wish.task_id for wish in wishes], [wish.within for wish in wishes])
        found = await self._database.run(call)
        return [
            Found(found[index][0], found[index][1].encode())
            if index in found
            else unknown(wish.task_id)
            for index, wish in enumerate(wishes)
        ]


def unknown(task_id: UUID) -> Problem:
    """Give the problem of an id that is unknown, or another tenant's."""
    return Problem(
        "not_found",
        "No task has this id.",
        "task_id",
        str(task_id),
        "Look the id up with GET /api/v1/tasks; history is dropped after the retention.",
    )

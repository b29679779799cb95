"""Decoding what a claim gives: one JSON text with many tasks.

The engine stores JSON that no parser reads: arrays nested thousands deep, say.
Such a payload must cost its own task alone, so that a document that cannot be
decoded whole is cut apart without recursion and decoded piece by piece.
"""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import msgspec

# msgspec cannot decode into a union with Raw; absent values keep the default.
if TYPE_CHECKING:
    OptionalRaw: TypeAlias = msgspec.Raw | None
else:
    OptionalRaw = msgspec.Raw

RAW_OBJECT = msgspec.Raw(b"{}")


class ClaimedTask(msgspec.Struct, gc=False):
    """One task as claimed. The JSON values in it are decoded when they are asked for.

    ``lost`` says that its last attempt ended with the process that ran it; ``due`` is
    the time that it was submitted for, where that was later than its submission.
    """

    task_id: str
    task_type: str
    attempt: int
    fence: int
    queue: str = "default"
    payload: msgspec.Raw = RAW_OBJECT
    timeout_seconds: float | None = None
    tenant_id: str = "default"
    metadata: OptionalRaw = None
    checkpoint: OptionalRaw = None
    workflow_id: str | None = None
    lost: bool = False
    due: float | None = None

    @property
    def due_at(self) -> float | None:
        """When its first attempt could begin, by the database's clock, in seconds since 1970.

        None for later attempts, and in workflows, where tasks wait for each other.
        """
        if self.fence != 1 or self.workflow_id is not None:
            return None
        if self.due is not None:
            return self.due
        # The first 48 bits of a UUIDv7 are the milliseconds of its making.
        return int(self.task_id[:8] + self.task_id[9:13], 16) / 1000


class BrokenTask(NamedTuple):
    """A task that was claimed and cannot be read."""

    task_id: str
    reason: str


_decode_all = msgspec.json.Decoder(list[ClaimedTask]).decode
_decode_one = msgspec.json.Decoder(ClaimedTask).decode
_MARKS = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{},]', re.DOTALL)
_TASK_ID = re.compile(r'"task_id"\s*:\s*"([0-9a-fA-F-]{36})"')


def decode_tasks(text: str) -> tuple[list[ClaimedTask], list[BrokenTask]]:
    """Decode a claim's document.

    Returns:
        The tasks, and those that cannot be read (ids that are not to be found
        even by looking are left out: their lease runs out).
    """
    try:
        return _decode_all(text), []
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return _decode_pieces(text)


def _decode_pieces(text: str) -> tuple[list[ClaimedTask], list[BrokenTask]]:
    good: list[ClaimedTask] = []
    broken: list[BrokenTask] = []
    for piece in _pieces(text):
        try:
            good.append(_decode_one(piece))
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            # The engine writes the id first, so the payload cannot pose as one.
            if found := _TASK_ID.search(piece):
                broken.append(BrokenTask(found[1], f"The task cannot be decoded: {error}."))
    return good, broken


def _pieces(text: str) -> Iterator[str]:
    """Cut the text of an array into the texts of its objects."""
    depth, start = 0, 0
    for mark in _MARKS.finditer(text):
        character = mark[0]
        if character in "[{":
            depth += 1
            if depth == 2:
                start = mark.start()
        elif character in "]}":
            depth -= 1
            if depth == 1:
                yield text[start : mark.end()]

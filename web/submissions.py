"""Single submissions, gathered into one transaction; each answer waits for its commit."""

import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

from ..schema.call import Call, JsonTexts
from ..schema.errors import SkiplaneError, Unavailable
from ..schema.web_calls import Accepted, submit_group
from .database import BATCH_SECONDS, Database, Refused
from .gather import Gatherer

# One transaction at a time gathers most; waiting for other people's keys must not stop all.
SLOTS = 1
KEYED_SLOTS = 4
MOST = 128
_PAYLOAD = re.compile(r"payloads\[(\d+)\]")


class Submission(NamedTuple):
    """One task, checked.

    Attributes:
        options: JSON of everything but payload, metadata and key: what is alike goes in together.
        tenant: Its tenant.
        payload: JSON.
        metadata: JSON, None for none.
        key: Idempotency key.
    """

    options: bytes
    tenant: str
    payload: bytes
    metadata: bytes | None
    key: str | None


class Submitter:
    """Submits for all requests of this process."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._plain: Gatherer[Submission, Accepted] = Gatherer(self._together, SLOTS, MOST)
        # Apart: they may have to wait for somebody else's open transaction.
        self._keyed: Gatherer[Submission, Accepted] = Gatherer(self._together, KEYED_SLOTS, MOST)

    async def submit(self, one: Submission) -> Accepted:
        """Submit one task; it is committed when this returns."""
        return await (self._plain if one.key is None else self._keyed).ask(one)

    async def submit_all(self, many: Sequence[Submission]) -> list[Accepted]:
        """Submit tasks in one transaction, all or none.

        Raises:
            SkiplaneError: One was refused; the field begins with its place, ``tasks[3].``.
        """
        groups = _groups(many)
        try:
            answers = await self._database.run_all([_call(many, g) for g in groups], BATCH_SECONDS)
        except Refused as refused:
            raise _placed(refused.error, many, groups[refused.number]) from refused
        return _in_order(len(many), groups, answers)

    async def _together(self, many: Sequence[Submission]) -> Sequence[Accepted | Exception]:
        groups = _groups(many)
        try:
            answers = await self._database.run_all([_call(many, group) for group in groups])
        except Unavailable as error:
            return [error] * len(many)
        except Exception as error:
            # One of them is refused; the others must not suffer for it.
            if len(many) == 1:
                return [error.error if isinstance(error, Refused) else error]
            return [await self._alone(one) for one in many]
        return _in_order(len(many), groups, answers)

    async def _alone(self, one: Submission) -> Accepted | Exception:
        try:
            [accepted] = await self._database.run(_call([one], [0]))
        except Exception as error:
            return error
        return accepted


def _placed(
    error: SkiplaneError, many: Sequence[Submission], group: Sequence[int]
) -> SkiplaneError:
    """Name the task that the engine refused: it was told of one group, without the others."""
    field = error.field or ""
    index = group[0]  # what a group shares, the first one has
    if found := _PAYLOAD.match(field):
        index = group[int(found[1])]
        field = f"payload{field[found.end() :]}"
    elif field == "idempotency_key":
        index = next((i for i in group if _begins(many[i].key, error.value)), index)
    elif field == "metadata":
        index = max(group, key=lambda i: len(many[i].metadata or b""))
    place = f"tasks[{index}].{field}" if field else f"tasks[{index}]"
    return type(error)(error.message, place, error.value, error.remedy)


def _begins(key: str | None, shown: str | None) -> bool:
    return key is not None and shown is not None and key.startswith(shown)


def _groups(many: Sequence[Submission]) -> list[list[int]]:
    groups: dict[Any, list[int]] = defaultdict(list)
    for index, one in enumerate(many):
        groups[one.tenant, one.options, one.key is None].append(index)
    # In one order everywhere: two callers with the same keys must not wait in a circle.
    return [groups[name] for name in sorted(groups)]


def _call(many: Sequence[Submission], group: Sequence[int]) -> Call[list[Accepted]]:
    tasks = [many[index] for index in group]
    first = tasks[0]
    return submit_group(
        first.options,
        JsonTexts(task.payload for task in tasks),
        first.tenant,
        [task.metadata for task in tasks],
        None if first.key is None else [task.key for task in tasks],
    )


def _in_order(
    count: int, groups: Sequence[Sequence[int]], answers: Sequence[Sequence[Accepted]]
) -> list[Accepted]:
    found: dict[int, Accepted] = {}
    for group, accepted in zip(groups, answers, strict=True):
        found.update(zip(group, accepted, strict=True))
    return [found[index] for index in range(count)]

"""A producer of the kill tests: submits all kinds of tasks until SIGTERM.

Whatever the database has acknowledged is written to a file before anything
else is done, so that a later loss shows. Arguments: its name, its seed.
"""

import asyncio
import contextlib
import random
import signal
import sys
import uuid
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from skiplane.schema.errors import Conflict, Unavailable
from skiplane.tests.chaos.kills.tasks import app, mark

T = TypeVar("T")
MONTH = 30 * 86400

WEIGHTS = {
    "quick": 40, "slow": 25, "pooled": 8, "once": 10, "once_pooled": 6, "flaky": 8,
    "steps": 4, "hopeless": 3, "doomed": 3, "late": 1, "late_pooled": 1,
}  # fmt: skip


def payload(task_type: str, chance: random.Random) -> dict[str, Any]:
    """Make arguments for a task."""
    match task_type:
        case "quick":
            return {"n": chance.randrange(1000)}
        case "slow":
            return {"seconds": round(chance.uniform(0.5, 4.0), 3)}
        case "pooled" | "once_pooled":
            return {"seconds": round(chance.uniform(0.0, 0.15), 3)}
        case "once":
            return {"seconds": round(chance.uniform(0.0, 0.3), 3), "failures": chance.randrange(2)}
        case "flaky":
            return {"failures": chance.randint(1, 3)}
        case _:
            return {}


def options_of(task_type: str) -> dict[str, Any]:
    """Give the options with which a task was declared."""
    definition = app.registry.get(task_type)
    assert definition is not None
    return dict(definition.options)


async def answered(call: Callable[[], Awaitable[T]]) -> T:
    """Call until the database answers."""
    while True:
        try:
            return await call()
        except Unavailable:
            await asyncio.sleep(0.1)


class Producer:
    """One of them."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        # New with every start, or the one that follows a killed one would repeat its keys.
        self.name = uuid.uuid4().hex
        self.number = 0
        self.cancellable: list[str] = []
        self.flows: list[uuid.UUID] = []

    async def run(self, stop: asyncio.Event) -> None:
        """Submit until stopped."""
        doings = [self.one, self.delayed, self.many, self.shared, self.far, self.cancel]
        doings += [self.graph, self.graphs, self.again]
        weights = [30, 10, 6, 10, 1, 4, 8, 2, 12]
        while not stop.is_set():
            await self.chance.choices(doings, weights)[0]()
            # The pace of the load: nothing is waited for.
            await asyncio.sleep(self.chance.uniform(0.0, 0.04))

    def key(self) -> str:
        """Give a new idempotency key."""
        self.number += 1
        return f"{self.name}-{self.number}"

    def pick(self) -> tuple[str, dict[str, Any]]:
        """Choose a type of task; give its options, too."""
        task_type = self.chance.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        return task_type, options_of(task_type)

    async def one(self, **options: Any) -> None:
        """Submit one task; with a key it is tried until it is acknowledged."""
        task_type, defaults = self.pick()
        document = payload(task_type, self.chance)
        key = self.key() if self.chance.random() < 0.6 else None
        given = {**defaults, **options, "idempotency_key": key}
        try:
            if key:
                handle = await answered(lambda: app.submit(task_type, document, **given))
            else:
                handle = await app.submit(task_type, document, **given)
        except Unavailable:
            return  # without a key nobody can tell whether it was stored
        mark("acknowledged", handle.id, task_type, key or "-")
        if task_type == "slow":
            self.cancellable.append(str(handle.id))

    async def delayed(self) -> None:
        """Submit one task for soon."""
        await self.one(delay=round(self.chance.uniform(0.05, 3.0), 3))

    async def many(self) -> None:
        """Submit some tasks of one type, all with keys."""
        task_type, defaults = self.pick()
        count = self.chance.randint(2, 60 if task_type == "quick" else 5)
        documents = [payload(task_type, self.chance) for _ in range(count)]
        keys: list[str | None] = [self.key() for _ in documents]
        ids = await answered(
            lambda: app.submit_many(task_type, documents, idempotency_keys=keys, **defaults)
        )
        for task_id, key in zip(ids, keys, strict=True):
            mark("acknowledged", task_id, task_type, key)

    async def shared(self) -> None:
        """Submit what the other producer also submits, under the same key."""
        n = self.chance.randrange(300)
        given = {**options_of("quick"), "idempotency_key": f"shared-{n}"}
        handle = await answered(lambda: app.submit("quick", {"n": n}, **given))
        mark("acknowledged", handle.id, "quick", f"shared-{n}")

    async def far(self) -> None:
        """Submit for a day that has no partition yet, and think better of it."""
        given = {**options_of("slow"), "delay": MONTH, "idempotency_key": self.key()}
        handle = await answered(lambda: app.submit("slow", {"seconds": 0}, **given))
        mark("acknowledged", handle.id, "slow", given["idempotency_key"])
        # Before it is tried: the producer may be killed in between.
        mark("cancel_wanted", handle.id)
        self.cancellable.append(str(handle.id))
        await self.cancel()

    async def graph(self) -> None:
        """Submit a workflow of any shape, and sometimes think better of it."""
        count = self.chance.randint(2, 12)
        tasks = [self.node(number) for number in range(count)]
        key = self.key()
        handle = await answered(lambda: app.submit_workflow("graph", tasks, idempotency_key=key))
        mark("workflow_acknowledged", handle.id, key)
        self.flows.append(handle.id)
        if self.chance.random() < 0.1:
            for task in handle.tasks.values():
                mark("cancel_wanted", task.id)
            with contextlib.suppress(Conflict):
                await answered(lambda: app.cancel_workflow(handle.id))

    async def graphs(self) -> None:
        """Submit some workflows in one call, all with keys."""
        flows = []
        for _ in range(self.chance.randint(2, 20)):
            flow = app.workflow("one of many")
            for number in range(self.chance.randint(1, 5)):
                one = self.node(number)
                after = one.pop("dependencies")
                flow.task(one.pop("task_type"), one.pop("payload"), after=after, **one)
            flows.append(flow)
        keys: list[str | None] = [self.key() for _ in flows]
        handles = await answered(lambda: app.submit_workflows(flows, idempotency_keys=keys))
        for handle, key in zip(handles, keys, strict=True):
            mark("workflow_acknowledged", handle.id, key)
            self.flows.append(handle.id)

    async def again(self) -> None:
        """Run again what has failed in a workflow, whatever it does at the moment."""
        if not self.flows:
            return
        chosen = self.flows.pop(self.chance.randrange(len(self.flows)))
        # Before it is tried: the producer may be killed in between.
        mark("retry_wanted", chosen)
        try:
            await answered(lambda: app.retry_workflow(chosen))
        except Conflict:
            self.flows.append(chosen)  # nothing has failed, at least not yet

    def node(self, number: int) -> dict[str, Any]:
        """Make a task that waits for up to three of those before it."""
        task_type = self.chance.choice(["quick", "quick", "once", "flaky", "hopeless", "pooled"])
        before = [str(n) for n in range(number)]
        after = self.chance.sample(before, min(number, self.chance.randint(0, 3)))
        triggers = ["all_success", "all_success", "all_done", "any_failed"]
        trigger = {"trigger": self.chance.choice(triggers)} if after else {}
        return {
            "name": str(number), "task_type": task_type, "dependencies": after, **trigger,
            "payload": payload(task_type, self.chance), **options_of(task_type),
        }  # fmt: skip

    async def cancel(self) -> None:
        """Cancel one of the last tasks, whatever it does at the moment."""
        if not self.cancellable:
            return
        task_id = self.cancellable.pop()
        mark("cancel_wanted", task_id)
        try:
            await answered(lambda: app.cancel(task_id))
        except Conflict:
            return  # it had ended, or an earlier try got through
        mark("cancelled", task_id)


async def main() -> None:
    """Run until SIGTERM."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    await Producer(int(sys.argv[2])).run(stop)
    await app.close()


if __name__ == "__main__":
    asyncio.run(main())

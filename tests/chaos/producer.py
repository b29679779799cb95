"""A producer: submits all kinds of tasks, and writes down what was acknowledged.

Run as a program with the DSN, the file and a seed; it ends when its standard
input closes.
"""

import json
import os
import random
import select
import sys
import threading
from collections.abc import Callable
from typing import Any, TypeVar
from uuid import UUID

from skiplane.schema.errors import Conflict, SkiplaneError
from skiplane.tests.chaos import app as tasks

T = TypeVar("T")
PAUSE = 0.03


class Producer:
    """See this module."""

    def __init__(self, acknowledged: int, seed: int) -> None:
        self._file = acknowledged
        self._random = random.Random(seed)
        self._numbers = iter(range(seed * 10_000_000, (seed + 1) * 10_000_000))
        self._endless: list[UUID] = []

    def turn(self) -> None:
        """Submit something."""
        self._random.choice(
            [self.single, self.single, self.single, self.many, self.later, self.keyed, self.keyed]
            + [self.keyed_many, self.endless, self.cancel]
        )()

    def single(self) -> None:
        """Submit one task of any kind."""
        n = next(self._numbers)
        kinds: list[Callable[[], Any]] = [
            lambda: tasks.slow.submit_sync(n=n, seconds=self._random.uniform(0.2, 2)),
            lambda: tasks.flaky.submit_sync(n=n, failures=self._random.randint(1, 3)),
            lambda: tasks.doomed.submit_sync(n=n),
            lambda: tasks.refused.submit_sync(n=n),
            lambda: tasks.pooled.submit_sync(n=n),
            lambda: tasks.exact.submit_sync(n=n),
            lambda: tasks.exact_pooled.submit_sync(n=n),
            lambda: tasks.steps.submit_sync(n=n),
            lambda: tasks.overdue.submit_sync(n=n),
            lambda: tasks.overdue_pooled.submit_sync(n=n),
        ]
        # Those that hold a place for long are rarer.
        weights = [4, 6, 2, 2, 6, 8, 8, 4, 1, 1]
        handle = self._try(self._random.choices(kinds, weights)[0])
        if handle is not None:
            self._note(id=handle.task_id)

    def many(self) -> None:
        """Submit many at once."""
        items = [{"n": next(self._numbers)} for _ in range(self._random.choice([2, 20, 100]))]
        kind = self._random.choice([tasks.quick, tasks.quick, tasks.exact])
        for task_id in self._try(lambda: kind.submit_many_sync(items)) or ():
            self._note(id=task_id)

    def later(self) -> None:
        """Submit for a later time."""
        kind = tasks.quick.options(delay_seconds=self._random.uniform(0.1, 4))
        handle = self._try(lambda: kind.submit_sync(n=next(self._numbers)))
        if handle is not None:
            self._note(id=handle.task_id)

    def keyed(self) -> None:
        """Submit until it is acknowledged; every key is used by both producers."""
        self._keyed(1)

    def keyed_many(self) -> None:
        """Do the same with many in one call."""
        self._keyed(10)

    def _keyed(self, count: int) -> None:
        # The number is part of the body, and is the key's: the same key, the same body.
        numbers = [self._random.randrange(2000) for _ in range(count)]
        keys = [f"key-{n}" for n in numbers]
        items = [{"n": n} for n in numbers]
        for _ in range(600):
            ids = self._try(lambda: tasks.quick.submit_many_sync(items, idempotency_keys=keys))
            if ids is not None:
                for task_id, key in zip(ids, keys, strict=True):
                    self._note(id=task_id, key=key)
                return
            pause(0.1)

    def endless(self) -> None:
        """Submit what only a cancel ends."""
        if len(self._endless) > 10:
            return
        handle = self._try(lambda: tasks.endless.submit_sync(n=next(self._numbers)))
        if handle is not None:
            self._note(id=handle.task_id)
            self._endless.append(handle.task_id)

    def cancel(self) -> None:
        """Cancel one of those."""
        if not self._endless:
            return
        task_id = self._endless.pop(0)
        if self._try(lambda: tasks.app.cancel_sync(task_id)) is not None:
            self._note(id=task_id, cancelled=True)

    def _try(self, call: Callable[[], T]) -> T | None:
        try:
            return call()
        except Conflict:
            return None  # a cancel whose answer was lost had worked
        except SkiplaneError as error:
            print(f"{type(error).__name__}: {error}", flush=True)
            return None

    def _note(self, **fields: Any) -> None:
        os.write(self._file, json.dumps(fields, default=str).encode() + b"\n")


def pause(seconds: float) -> None:
    """Let time pass, without more of it once the standard input has closed."""
    select.select([sys.stdin], [], [], seconds)


def main() -> None:
    """Produce until the standard input closes."""
    file, seed = sys.argv[1:]
    acknowledged = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    producer = Producer(acknowledged, int(seed))
    over = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
    while not over.is_set():
        producer.turn()
        over.wait(PAUSE)


if __name__ == "__main__":
    main()

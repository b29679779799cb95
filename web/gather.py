"""Concurrent requests for the same thing become one statement.

Whoever comes while all slots are busy waits for the next one together with all
others who came meanwhile: under load the batches grow by themselves, and a lone
request waits for nobody.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

Q = TypeVar("Q")
A = TypeVar("A")


class Gatherer(Generic[Q, A]):
    """Answers questions in batches.

    Args:
        answer: Gives, for each question in order, the answer or the exception.
        slots: Batches that may be under way at once.
        most: Questions of one batch.
    """

    def __init__(
        self,
        answer: Callable[[Sequence[Q]], Awaitable[Sequence[A | Exception]]],
        slots: int,
        most: int,
    ) -> None:
        self._answer = answer
        self._free = slots
        self._most = most
        self._waiting: deque[tuple[Q, asyncio.Future[A]]] = deque()
        self._running: set[asyncio.Task[None]] = set()

    async def ask(self, question: Q) -> A:
        """Give the answer; it comes when its batch is done."""
        future: asyncio.Future[A] = asyncio.get_running_loop().create_future()
        self._waiting.append((question, future))
        self._start()
        return await future

    def _start(self) -> None:
        while self._free and self._waiting:
            size = min(len(self._waiting), self._most)
            batch = [self._waiting.popleft() for _ in range(size)]
            self._free -= 1
            task = asyncio.create_task(self._flush(batch))
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    async def _flush(self, batch: list[tuple[Q, "asyncio.Future[A]"]]) -> None:
        try:
            answers = await self._answer([question for question, _ in batch])
        except Exception as error:
            answers = [error] * len(batch)
        finally:
            self._free += 1
            self._start()
        for (_, future), answer in zip(batch, answers, strict=True):
            if future.done():
                continue  # the client has gone
            if isinstance(answer, Exception):
                future.set_exception(answer)
            else:
                future.set_result(answer)

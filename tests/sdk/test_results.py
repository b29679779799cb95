"""Waiting for results through a handle."""

import asyncio
from collections import Counter
from datetime import date
from typing import Any
from uuid import UUID, uuid4

import msgspec
import pytest

from skiplane import NotFound, Skiplane, Status, TaskCancelled, TaskFailed, Unavailable
from skiplane.handle import ResultWaiter
from skiplane.schema.call import Call
from skiplane.schema.errors import SkiplaneError
from skiplane.schema.records import Result
from skiplane.testing import drain
from skiplane.tests.support import wait_until_async


class Invoice(msgspec.Struct):
    number: int
    day: date


async def test_a_result_has_the_declared_type(app: Skiplane) -> None:
    @app.task("bill")
    async def bill(number: int) -> Invoice:
        return Invoice(number, date(2026, 7, 1))

    handle = await bill.submit(7)
    waiting = asyncio.create_task(handle.result(timeout=30))
    await drain(app)
    assert await waiting == Invoice(7, date(2026, 7, 1))
    assert await handle.status() is Status.SUCCEEDED


async def test_a_result_without_a_type_comes_as_json(app: Skiplane) -> None:
    @app.task("pair")
    async def pair():
        return 1, {"a": 2}

    handle = await pair.submit()
    await drain(app)
    assert await app.handle(handle.id).result(timeout=30) == [1, {"a": 2}]


async def test_the_sync_face_waits_too(app: Skiplane) -> None:
    @app.task("double")
    async def double(n: int) -> int:
        return 2 * n

    handle = await double.submit(4)
    waiting = asyncio.create_task(asyncio.to_thread(handle.result_sync, 10))
    await drain(app)
    assert await waiting == 8


async def test_a_failed_task_raises_its_error(app: Skiplane) -> None:
    @app.task("fail", permanent_errors=(ValueError,))
    async def fail() -> None:
        raise ValueError("no such address")

    handle = await fail.submit()
    await drain(app)
    with pytest.raises(TaskFailed) as failure:
        await handle.result(timeout=30)
    assert failure.value.status == "FAILED"
    assert failure.value.error_type == "ValueError"
    assert failure.value.error_message == "no such address"
    with pytest.raises(TaskFailed):
        await asyncio.to_thread(handle.result_sync, 10)


async def test_a_task_out_of_retries_raises_its_last_error(app: Skiplane) -> None:
    @app.task("fail", max_retries=0)
    async def fail() -> None:
        raise RuntimeError("again")

    handle = await fail.submit()
    await drain(app)
    with pytest.raises(TaskFailed) as failure:
        await handle.result(timeout=30)
    assert (failure.value.status, failure.value.error_type) == ("DEAD", "RuntimeError")


async def test_a_cancelled_task_says_so(app: Skiplane) -> None:
    handle = await app.submit("anything")
    waiting = asyncio.create_task(handle.result(timeout=30))
    await handle.cancel("not needed")
    with pytest.raises(TaskCancelled):
        await waiting


async def test_a_wait_ends_in_time_and_the_task_goes_on(app: Skiplane) -> None:
    handle = await app.submit("anything")
    with pytest.raises(TimeoutError, match=str(handle.id)):
        await handle.result(timeout=0.05)
    with pytest.raises(TimeoutError, match=str(handle.id)):
        await asyncio.to_thread(handle.result_sync, 0.05)
    assert await handle.status() is Status.PENDING


async def test_an_unknown_task_is_not_waited_for(app: Skiplane) -> None:
    with pytest.raises(NotFound):
        await app.handle(uuid4()).result()
    with pytest.raises(NotFound):
        await asyncio.to_thread(app.handle(uuid4()).result_sync)
    with pytest.raises(NotFound):
        await app.handle(uuid4()).status()


class CountingApp:
    """Answers for the database and counts the questions."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.times: Counter[str] = Counter()
        self.refused = 0
        self.done: set[str] = set()
        self.error: Exception | None = None

    async def run(self, call: Call[Any]) -> list[Result]:
        if self.error is not None:
            self.refused += 1
            raise self.error
        ids = call.parameters[0]
        self.asked.append(len(ids))
        self.times.update(map(str, ids))
        return [
            Result(task_id=handle_id, status=Status.SUCCEEDED, done=True)
            if str(handle_id) in self.done
            else Result(task_id=handle_id, status=Status.RUNNING, done=False)
            for handle_id in [UUID(one) for one in ids]
        ]


async def test_all_who_wait_share_the_questions() -> None:
    database = CountingApp()
    waiter = ResultWaiter(database)  # type: ignore[arg-type]
    ids = [uuid4() for _ in range(500)]
    waits = [asyncio.create_task(waiter.wait(one, unknown_is_error=True)) for one in ids]
    rounds = 8
    await wait_until_async(lambda: all(database.times[str(one)] >= rounds for one in ids))
    questions = len(database.asked)
    database.done = {str(one) for one in ids}
    results = await asyncio.gather(*waits)
    assert [result.task_id for result in results] == ids
    assert questions < 4 * rounds  # for 500 who were told so often
    assert max(database.asked) == 500


async def test_nobody_is_asked_when_nobody_waits() -> None:
    database = CountingApp()
    waiter = ResultWaiter(database)  # type: ignore[arg-type]
    wait = asyncio.create_task(waiter.wait(uuid4(), unknown_is_error=True))
    await wait_until_async(lambda: database.asked)
    wait.cancel()
    await asyncio.wait([wait])
    questions = len(database.asked)
    # Nothing else runs any more that could ask.
    await wait_until_async(lambda: asyncio.all_tasks() == {asyncio.current_task()})
    assert len(database.asked) <= questions + 1


async def test_an_outage_is_sat_out_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    database = CountingApp()
    waiter = ResultWaiter(database)  # type: ignore[arg-type]
    task_id = uuid4()
    database.error = Unavailable("away")
    wait = asyncio.create_task(waiter.wait(task_id, unknown_is_error=True))
    await wait_until_async(lambda: database.refused >= 3)
    assert not wait.done()
    database.error, database.done = None, {str(task_id)}
    assert (await wait).done

    database.error = Unavailable("away")
    monkeypatch.setattr(ResultWaiter, "PATIENCE", 0.05)
    with pytest.raises(Unavailable):
        await waiter.wait(task_id, unknown_is_error=True)


async def test_any_other_error_reaches_all_who_wait() -> None:
    database = CountingApp()
    waiter = ResultWaiter(database)  # type: ignore[arg-type]
    database.error = SkiplaneError("no")
    with pytest.raises(SkiplaneError, match="no"):
        await waiter.wait(uuid4(), unknown_is_error=True)

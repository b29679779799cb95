"""A loop goes on whatever happens, says so without flooding, and ends when told."""

import asyncio
import time
from typing import Any, ClassVar, cast

import pytest
from structlog.testing import capture_logs

from skiplane.scheduler import loop as loop_module
from skiplane.scheduler.link import Link, LinkLost
from skiplane.scheduler.loop import Loop
from skiplane.tests.support import wait_until_async


class FakeLink:
    away = False
    back_at = 0.0
    aborted = False

    def abort(self) -> None:
        self.aborted = True


class Sample(Loop):
    name: ClassVar[str] = "sample"

    def __init__(self, *errors: BaseException | None, link: Any = None) -> None:
        super().__init__(cast(Link, link or FakeLink()))
        self.errors = list(errors)
        self.turns = 0
        self.went_well = asyncio.Event()

    async def run_once(self) -> float:
        self.turns += 1
        if self.errors and (error := self.errors.pop(0)):
            raise error
        if not self.errors:
            self.went_well.set()
        return 0.001


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_module, "LONGEST_PAUSE", 0.002)


async def test_failing_loop_goes_on_and_complains_once():
    sample = Sample(*[RuntimeError("no such table\nHINT: look")] * 100)
    with capture_logs() as logs:
        sample.start()
        await asyncio.wait_for(sample.went_well.wait(), 10)
        await sample.stop(1)
    complaints = [line for line in logs if line["log_level"] == "error"]
    assert len(complaints) == 1
    assert complaints[0]["cause"] == "RuntimeError: no such table"
    assert complaints[0]["loop"] == "sample"


async def test_recovery_is_said_with_the_number_of_failures():
    sample = Sample(*[ValueError("x")] * 3)
    with capture_logs() as logs:
        sample.start()
        await asyncio.wait_for(sample.went_well.wait(), 10)
        await sample.stop(1)
    assert [line["failures"] for line in logs if line["event"] == "a loop works again"] == [3]


async def test_lost_link_is_not_complained_of_again():
    sample = Sample(LinkLost("gone"), LinkLost("gone"))
    with capture_logs() as logs:
        sample.start()
        await asyncio.wait_for(sample.went_well.wait(), 10)
        await sample.stop(1)
    assert logs == []
    assert sample.turns >= 3


async def test_stop_ends_a_pause_at_once():
    class Sleepy(Sample):
        async def run_once(self) -> float:
            await super().run_once()
            return 3600

    sample = Sleepy()
    sample.start()
    await asyncio.wait_for(sample.went_well.wait(), 10)
    began = time.monotonic()
    await sample.stop(30)
    assert time.monotonic() - began < 20


async def test_stop_cuts_off_a_turn_that_does_not_end():
    class Stuck(Sample):
        async def run_once(self) -> float:
            self.went_well.set()
            await asyncio.sleep(3600)
            return 0

    link = FakeLink()
    sample = Stuck(link=link)
    task = sample.start()
    await asyncio.wait_for(sample.went_well.wait(), 10)
    await sample.stop(0.05)
    assert task.done()
    assert link.aborted


async def test_stuck_turn_makes_the_loop_overdue():
    class Stuck(Sample):
        async def run_once(self) -> float:
            self.went_well.set()
            await asyncio.sleep(3600)
            return 0

    sample = Stuck()
    sample.start()
    await asyncio.wait_for(sample.went_well.wait(), 10)
    await wait_until_async(lambda: sample.overdue_seconds() >= 0.05)
    await sample.stop(0)


async def test_pause_asked_for_is_not_overdue():
    class Sleepy(Sample):
        async def run_once(self) -> float:
            await super().run_once()
            return 600

    sample = Sleepy()
    sample.start()
    await asyncio.wait_for(sample.went_well.wait(), 10)
    await wait_until_async(lambda: sample.overdue_seconds() < 0)
    await sample.stop(1)


async def test_waiting_for_a_database_that_is_away_is_not_overdue():
    link = FakeLink()
    sample = Sample(link=link)
    await wait_until_async(lambda: sample.overdue_seconds() >= 0.05)
    link.away = True
    assert sample.overdue_seconds() == 0
    # When it is back the clock starts anew.
    link.away, link.back_at = False, time.monotonic()
    assert sample.overdue_seconds() < 0.05

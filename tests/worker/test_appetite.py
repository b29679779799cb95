"""When an idle worker looks for work by itself."""

import asyncio
from collections.abc import Callable

from skiplane.worker.appetite import Appetite


def appetite(on_wake: Callable[[], None]) -> Appetite:
    """An idle worker's, which polls once an hour."""
    return Appetite(3600, shards=1, on_wake=on_wake)


async def test_work_that_comes_while_a_worker_falls_asleep_is_not_left_to_the_poll():
    woken = asyncio.Event()
    idle = appetite(woken.set)
    assert idle.found_nothing(idle.wakes, armed=False), "it asks for notifications"
    assert not idle.found_nothing(idle.wakes, armed=True)
    assert not idle.more, "it sleeps"
    await asyncio.wait_for(woken.wait(), 10)
    assert idle.more, "it looks a second time"
    idle.close()


async def test_after_the_second_look_a_worker_sleeps_until_it_is_notified():
    woken = asyncio.Event()
    idle = appetite(woken.set)
    idle.found_nothing(idle.wakes, armed=False)
    idle.found_nothing(idle.wakes, armed=True)
    await asyncio.wait_for(woken.wait(), 10)
    woken.clear()
    assert not idle.found_nothing(idle.wakes, armed=True)
    assert not idle.more
    await asyncio.sleep(0.2)
    assert not woken.is_set()
    idle.wake()
    assert idle.more
    idle.close()

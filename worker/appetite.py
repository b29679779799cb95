"""When a claim is worth its round trip.

A worker claims while there is more. When a claim finds nothing it asks to be
notified (``wait_for_work``), claims once more, since work may have come in
between, and then sleeps until a notification, the end of the poll pause, or a
new listener connection. A busy worker takes its wish for notifications back.
"""

import asyncio
import math
import random
from collections.abc import Callable
from time import monotonic

# After a claim that brought less than it could, the next one usually comes with
# the finish of what it brought; alone it waits this long.
PARTIAL_SECONDS = 0.005
UNHEARD_POLL_SECONDS = 1.0
SECOND_LOOK_SECONDS = 0.05
# A limit that opens so soon is waited for without notifications.
_NEAR_SECONDS = 0.1
_FULL_CLAIMS = 2
_FULL_TASKS = 20


class Appetite:
    """Whether to claim. It belongs to one event loop.

    Attributes:
        more: Whether there may be work.
    """

    def __init__(self, poll_seconds: float, shards: int, on_wake: Callable[[], None]) -> None:
        """Start hungry.

        Args:
            poll_seconds: The longest sleep; jittered.
            shards: How many places there are to look in.
            on_wake: Called when a claim may be worth it again.
        """
        self.more = True
        self._poll_seconds = poll_seconds
        self._shards = shards
        self._on_wake = on_wake
        self._wakes = 0
        self._empty = 0
        self._full_claims = 0
        self._full_tasks = 0
        self._plenty = False
        self._not_before = 0.0
        self._again = math.inf
        self._second_look = False
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()

    @property
    def wakes(self) -> int:
        """A count of wake-ups: a claim that began before one does not speak for after it."""
        return self._wakes

    @property
    def busy(self) -> bool:
        """Whether claims keep coming back full."""
        return self._full_claims >= _FULL_CLAIMS and self._full_tasks >= _FULL_TASKS

    def hungry(self, claims_out: int, with_finish: bool) -> bool:
        """Tell whether to claim.

        Args:
            claims_out: Claims that are on their way already.
            with_finish: Whether it would ride on a call that is made anyway.
        """
        if not self.more or (claims_out and not self._plenty):
            return False
        return with_finish or monotonic() >= self._not_before

    def wake(self) -> None:
        """Note that there may be work."""
        self._wakes += 1
        self._empty = 0
        self.more = True
        self._not_before = 0.0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._on_wake()

    def found(self, count: int, limit: int) -> None:
        """Note a claim that brought tasks."""
        self._empty = 0
        self._plenty = count >= limit
        if self._plenty:
            self._full_claims += 1
            self._full_tasks += count
        else:
            self._full_claims = self._full_tasks = 0
            self._not_before = monotonic() + PARTIAL_SECONDS
            self._loop.call_later(PARTIAL_SECONDS, self._on_wake)

    def found_nothing(self, wakes: int, armed: bool, again: float | None = None) -> bool:
        """Note a claim that brought none.

        Args:
            wakes: The count when it was sent.
            armed: Whether notifications were on when it was sent.
            again: Seconds after which a limit lets more pass, None when none is known.

        Returns:
            Whether to switch notifications on, and then claim once more.
        """
        self._plenty = False
        self._full_claims = self._full_tasks = 0
        if wakes != self._wakes:
            return False
        self._empty += 1
        if again is not None:
            self._again = min(again, self._again)
        if self._empty < self._shards:
            return False
        if not armed and self._again < _NEAR_SECONDS:
            # Notifications are not worth their switching on for so short a time.
            self.sleep(heard=False)
            return False
        if not armed:
            self._empty = 0
            self._second_look = True
            return True
        self.sleep(heard=True)
        return False

    def sleep(self, heard: bool) -> None:
        """Claim no more until woken.

        Args:
            heard: Whether a notification will do that.
        """
        self.more = False
        self._empty = 0
        pause = self._poll_seconds
        if not heard:
            pause = min(pause, UNHEARD_POLL_SECONDS)
        pause *= random.uniform(0.7, 1.0)
        if self._second_look:
            self._second_look = False
            pause = min(pause, SECOND_LOOK_SECONDS)
        again, self._again = self._again, math.inf
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(min(pause, again), self.wake)

    def close(self) -> None:
        """Forget the next poll."""
        self.more = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

"""How many tasks a process runs at once, and how many more it claims ahead.

For short tasks a round trip per task would be most of the work, so a process
claims ahead what it will run within AHEAD_SECONDS. Long tasks are never claimed
ahead: a worker must not sit on what another could run. When the guess was wrong
(a long task where short ones were seen), what waits is handed back.
"""

from collections import deque
from time import monotonic

from .leases import Item

AHEAD_SECONDS = 0.010
AHEAD_TASKS = 600
LONG_SECONDS = 0.050
# A task that waits longer than this, while none starts, is handed back.
STUCK_SECONDS = 0.100
BATCH = 300
_WEIGHT = 0.05
_CAP = 1.0


class Slots:
    """The places for running tasks, and the queue before them.

    Attributes:
        size: The number of places.
        running: How many are taken.
        waiting: Claimed tasks without a place, first come first served.
        reserved: Tasks that claims on their way may bring.
        average: Seconds that a task keeps its place, smoothed; None when unknown.
        stuck: How many places long tasks have, as last counted.
        last_start: When a task last took a place.
    """

    __slots__ = ("average", "last_start", "reserved", "running", "size", "stuck", "waiting")

    def __init__(self, size: int) -> None:
        self.size = size
        self.running = 0
        self.waiting: deque[Item] = deque()
        self.reserved = 0
        self.average: float | None = None
        self.stuck = 0
        self.last_start = 0.0

    @property
    def held(self) -> int:
        """Claimed tasks that have not ended."""
        return self.running + len(self.waiting)

    def room(self) -> int:
        """The number of tasks to claim now; 0 when a claim would not be worth it."""
        ahead = self._ahead()
        room = self.size + ahead - self.held - self.reserved
        if room <= 0 or (ahead and self.waiting and room < (self.size + ahead) // 4):
            return 0
        return min(room, BATCH)

    def _ahead(self) -> int:
        if self.average is None or self.average >= LONG_SECONDS:
            return 0
        free = self.size - self.stuck
        return min(AHEAD_TASKS, int(free * AHEAD_SECONDS / max(self.average, 1e-6)))

    def learn(self, seconds: float) -> None:
        """Note how long a task kept its place."""
        seconds = min(seconds, _CAP)
        if self.average is None:
            self.average = seconds
        else:
            self.average += _WEIGHT * (seconds - self.average)

    def look(self, running: list[Item]) -> bool:
        """Count the long tasks; True when what waits should be handed back."""
        now = monotonic()
        self.stuck = sum(1 for item in running if now - item.placed > LONG_SECONDS)
        return (
            bool(self.waiting)
            and now - self.waiting[0].claimed > STUCK_SECONDS
            and now - self.last_start > STUCK_SECONDS
        )

"""What one scheduler process tells Prometheus: how its loops are doing."""

from collections.abc import Callable, Iterator, Sequence
from time import monotonic

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from ..metrics import gauge
from .cron import Cron
from .loop import Loop


class SchedulerMetrics:
    """Reads the loops when somebody asks. A Collector."""

    def __init__(self, loops: Callable[[], Sequence[Loop]]) -> None:
        self._loops = loops

    def collect(self) -> Iterator[Metric]:
        """See Collector; in the thread of whoever asks."""
        turns = CounterMetricFamily(
            "skiplane_loop_turns", "Turns of a loop, by how they ended", labels=("loop", "outcome")
        )
        busy = CounterMetricFamily(
            "skiplane_loop_busy_seconds", "Time that a loop's turns took", labels=("loop",)
        )
        ages = GaugeMetricFamily(
            "skiplane_loop_progress_age_seconds",
            "Time since a loop of this process last made progress",
            labels=("loop",),
        )
        overdue = GaugeMetricFamily(
            "skiplane_loop_overdue_seconds",
            "Time by which a loop's next good turn is late; 0 while the database is away",
            labels=("loop",),
        )
        now = monotonic()
        loops = self._loops()
        for loop in loops:
            turns.add_metric((loop.name, "good"), loop.good_turns)
            turns.add_metric((loop.name, "failed"), loop.failed_turns)
            busy.add_metric((loop.name,), loop.busy_seconds)
            ages.add_metric((loop.name,), max(0.0, now - loop.progress_at))
            overdue.add_metric((loop.name,), max(0.0, loop.overdue_seconds()))
        yield from (turns, busy, ages, overdue)
        drift = max((loop.drift_seconds() for loop in loops if isinstance(loop, Cron)), default=0.0)
        yield gauge(
            "skiplane_cron_drift_seconds", "Largest lateness of a fire in the last minute", drift
        )

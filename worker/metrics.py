"""What one worker process tells Prometheus.

Everything counts from the start of the process, which is told apart by
Prometheus's own label ``instance``: no label names a worker, so that dead ones
leave nothing behind. Task types are those of the app, and so bounded.
"""

from collections.abc import Iterator
from time import monotonic
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric

from ..metrics import Names, gauge
from .leases import Item
from .outcome import Failure

if TYPE_CHECKING:
    from .worker import Worker

_SECONDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800)


class WorkerMetrics:
    """Counts what becomes of tasks. A Collector.

    Attributes:
        database_ahead: The database's clock minus this process's monotonic one, in
            seconds; None until it was asked.
    """

    def __init__(self) -> None:
        self.database_ahead: float | None = None
        self._worker: Worker | None = None
        self._names = Names()
        self._registry = registry = CollectorRegistry()
        self._executions = Counter(
            "skiplane_task_executions",
            "Attempts that ended here, by how",
            ("task_type", "outcome"),
            registry=registry,
        )
        self._seconds = Histogram(
            "skiplane_task_execution_seconds",
            "Time from the start of an attempt to its end",
            ("task_type",),
            buckets=_SECONDS,
            registry=registry,
        )
        self._delays = Histogram(
            "skiplane_task_start_delay_seconds",
            "Time from when a task was due to the start of its first attempt",
            ("task_type",),
            buckets=_SECONDS,
            registry=registry,
        )
        self._retries = Counter(
            "skiplane_task_retries",
            "Attempts after the first that began here",
            ("task_type",),
            registry=registry,
        )
        self._lost = Counter(
            "skiplane_leases_lost",
            "Tasks that were taken from this worker: cancelled, or their lease was lost",
            registry=registry,
        )
        self._busy = Counter(
            "skiplane_worker_busy_seconds",
            "Time that tasks which have ended kept their places",
            registry=registry,
        )

    def watch(self, worker: "Worker") -> None:
        """Tell of a worker's places and loops from now on."""
        self._worker = worker

    def began(self, item: Item) -> None:
        """Count the start of an attempt."""
        name = self._names(item.task.task_type)
        if item.task.attempt > 1:
            self._retries.labels(name).inc()
        due = item.task.due_at
        if due is not None and self.database_ahead is not None:
            delay = item.started + self.database_ahead - due
            self._delays.labels(name).observe(max(0.0, delay))

    def ended(self, item: Item, failure: Failure | None) -> None:
        """Count the end of an attempt."""
        if item.placed:
            self._busy.inc(monotonic() - item.placed)
        if not item.started:
            return
        name = self._names(item.task.task_type)
        outcome: str = "succeeded"
        if failure is not None:
            outcome = failure.kind
        elif item.stop == "cancelled" and not item.recorded:
            outcome = "cancelled"
        self._executions.labels(name, outcome).inc()
        self._seconds.labels(name).observe(monotonic() - item.started)

    def lost(self, count: int) -> None:
        """Count tasks that were taken away."""
        self._lost.inc(count)

    def collect(self) -> Iterator[Metric]:
        """See Collector; in the thread of whoever asks."""
        yield from self._registry.collect()
        worker = self._worker
        if worker is None:
            return
        slots, settings = worker.slots, worker.settings
        yield gauge("skiplane_worker_info", "Always 1", 1, {"name": settings.name})
        yield gauge("skiplane_worker_slots", "Tasks that may run at once", slots.size)
        yield gauge("skiplane_worker_running", "Tasks that have a place", slots.running)
        yield gauge("skiplane_worker_waiting", "Claimed tasks without a place", len(slots.waiting))
        share = slots.running / slots.size
        yield gauge("skiplane_worker_utilisation", "Share of the places that is taken", share)
        claimer = worker.claimer
        unrecorded = claimer.unrecorded() if claimer is not None else 0
        yield gauge("skiplane_worker_unrecorded", "Ends that are not recorded yet", unrecorded)
        ages = GaugeMetricFamily(
            "skiplane_loop_progress_age_seconds",
            "Time since a loop of this process last made progress",
            labels=("loop",),
        )
        now = monotonic()
        for loop, at in dict(worker.outage.progress).items():
            ages.add_metric((loop,), max(0.0, now - at))
        yield ages

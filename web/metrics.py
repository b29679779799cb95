"""What is measured: this process's requests, and the whole database.

Label values are bounded: routes are patterns of ours, never paths; of queues the
deepest are named and the rest are one.
"""

from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

MOST_QUEUES = 100
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_BUCKETS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_METHODS = ("GET", "POST", "PUT", "DELETE")


class Metrics:
    """Counts requests."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        names = ("method", "route", "status")
        self._requests = Counter(
            "skiplane_http_requests", "Requests of this process", names, registry=self._registry
        )
        self._seconds = Histogram(
            "skiplane_http_request_seconds",
            "Time to answer",
            ("method", "route"),
            buckets=_BUCKETS,
            registry=self._registry,
        )

    def count(self, method: str, route: str | None, status: int, seconds: float) -> None:
        """Count one request; ``status`` 0: the client went away before the answer."""
        method = method if method in _METHODS else "other"
        name = route or "none"
        self._requests.labels(method, name, str(status)).inc()
        self._seconds.labels(method, name).observe(seconds)

    def render(self, measured: dict[str, Any], needs: list[dict[str, Any]]) -> bytes:
        """Give everything as Prometheus reads it.

        Args:
            measured: What is measured of the database.
            needs: What each queue needs.
        """
        database = CollectorRegistry()
        database.register(_Measured(measured, needs))
        return generate_latest(self._registry) + generate_latest(database)


class _Measured:
    def __init__(self, measured: dict[str, Any], needs: list[dict[str, Any]]) -> None:
        self._measured = measured
        self._needs = needs

    def collect(self) -> list[Metric]:
        m = self._measured
        return [
            *_queues(m["queues"]),
            _needed(self._needs),
            *_workers(m["workers"]),
            *_totals(m),
            *_health(m),
        ]


def _queues(rows: list[dict[str, Any]]) -> list[Metric]:
    depth = GaugeMetricFamily(
        "skiplane_queue_depth", "Waiting tasks, as last counted", labels=("queue", "priority")
    )
    oldest = GaugeMetricFamily(
        "skiplane_queue_oldest_seconds",
        "Age of the task that waits longest",
        labels=("queue", "priority"),
    )
    named: dict[str, None] = {}
    rest: dict[str, tuple[float, float]] = {}
    for row in rows:
        age = max(0.0, row["oldest_seconds"] or 0.0)
        if row["queue"] in named or len(named) < MOST_QUEUES:
            named[row["queue"]] = None
            depth.add_metric([row["queue"], row["priority"]], row["depth"])
            oldest.add_metric([row["queue"], row["priority"]], age)
        else:
            was = rest.get(row["priority"], (0, 0.0))
            rest[row["priority"]] = (was[0] + row["depth"], max(was[1], age))
    for priority, (number, age) in rest.items():
        depth.add_metric(["(others)", priority], number)
        oldest.add_metric(["(others)", priority], age)
    return [depth, oldest]


def _needed(needs: list[dict[str, Any]]) -> Metric:
    family = GaugeMetricFamily(
        "skiplane_queue_slots_needed",
        "Tasks of the queue that should run at once for what waits to start within a minute",
        labels=("queue",),
    )
    # The neediest: an autoscaler asks for nobody who needs nothing.
    for one in sorted(needs, key=lambda need: -need["slots"])[:MOST_QUEUES]:
        family.add_metric([one["queue"]], one["slots"])
    return family


def _workers(by_status: dict[str, dict[str, float]]) -> list[Metric]:
    made: list[Metric] = []
    for name, text, field in (
        ("skiplane_workers", "Worker processes", "count"),
        ("skiplane_worker_concurrency", "Tasks that they may run at once", "concurrency"),
        ("skiplane_worker_holding", "Tasks that they hold", "holding"),
    ):
        family = GaugeMetricFamily(name, text, labels=("status",))
        for status in ("RUNNING", "DRAINING", "LOST"):
            family.add_metric([status], by_status.get(status, {}).get(field, 0))
        made.append(family)
    return made


def _totals(m: dict[str, Any]) -> list[Metric]:
    counters = m["counters"] or {}
    made: list[Metric] = []
    for name, text, key in (
        ("skiplane_tasks_activated", "Tasks that became ready, as the server counts", "task"),
        ("skiplane_tasks_ended", "Tasks that ended, as the server counts", "outcome"),
        ("skiplane_attempts_failed", "Attempts that failed, as the server counts", "attempt"),
    ):
        made.append(CounterMetricFamily(name, text, value=float(counters.get(key, 0))))
    return made


def _health(m: dict[str, Any]) -> list[Metric]:
    dead = GaugeMetricFamily(
        "skiplane_dead_rows", "Dead rows of hot tables, not yet vacuumed", labels=("table",)
    )
    for table, number in m["dead_rows"].items():
        dead.add_metric([table], number)
    return [
        dead,
        *(
            GaugeMetricFamily(name, text, value=float(m[key]))
            for name, text, key in (
                ("skiplane_dead_letters", "Dead letters, counted up to 100000", "dead_letters"),
                (
                    "skiplane_oldest_snapshot_seconds",
                    "Age of the oldest snapshot",
                    "oldest_snapshot_seconds",
                ),
                (
                    "skiplane_timer_days_ahead",
                    "Timer partitions that are ready",
                    "timer_days_ahead",
                ),
                (
                    "skiplane_notification_queue_usage",
                    "Share of the notification queue in use",
                    "notification_queue_usage",
                ),
            )
        ),
    ]

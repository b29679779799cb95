"""Telling Prometheus about a process: what its registries hold, over HTTP."""

from collections.abc import Iterator
from typing import Protocol

from prometheus_client import CollectorRegistry, disable_created_metrics, start_http_server
from prometheus_client.core import GaugeMetricFamily, Metric

# Whatever a process meets, it has no more series than this for a label.
MOST_VALUES = 200
OTHERS = "(others)"


class PortTaken(Exception):
    """The metrics cannot be served; the message says why."""


class Collector(Protocol):
    """Gives metrics when somebody asks."""

    def collect(self) -> Iterator[Metric]: ...


class Names:
    """Keeps a label within bounds: the first values by name, the rest as one."""

    def __init__(self) -> None:
        self._known: set[str] = set()

    def __call__(self, value: str) -> str:
        if value in self._known:
            return value
        if len(self._known) >= MOST_VALUES:
            return OTHERS
        self._known.add(value)
        return value


def serve_metrics(port: int, *collectors: Collector) -> CollectorRegistry:
    """Serve metrics in a thread until the process ends.

    Raises:
        PortTaken: The port cannot be listened on.
    """
    # A series more for each counter, which nothing here reads.
    disable_created_metrics()  # type: ignore[no-untyped-call]
    registry = CollectorRegistry()
    for collector in collectors:
        registry.register(collector)
    try:
        start_http_server(port, registry=registry)
    except OSError as error:
        raise PortTaken(
            f"metrics_port = {port} cannot be listened on: {error.strerror}. Give a free port, or 0"
            " for no metrics."
        ) from error
    return registry


def gauge(
    name: str, text: str, value: float, labels: dict[str, str] | None = None
) -> GaugeMetricFamily:
    """Give a gauge with one value."""
    family = GaugeMetricFamily(name, text, labels=tuple(labels or ()))
    family.add_metric(tuple((labels or {}).values()), value)
    return family

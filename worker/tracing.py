"""The spans of a worker: queue wait, pick-up, execute, store result.

They belong to the trace that the task's metadata names, beside the spans of its
submission; without one the execution begins a trace of its own. Times are taken
from the clock of this host, but the beginning of the wait, which is the
database's.
"""

import importlib.util
import time
from contextvars import Token
from time import monotonic
from typing import TYPE_CHECKING, Any

import msgspec

from .leases import Item
from .outcome import Failure

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span

_MOST_WAITING = 10_000


class TracesUnusable(Exception):
    """Traces cannot be sent; the message says why."""


def set_up_traces(name: str) -> "WorkerTracing":
    """Send spans to where the app's own set-up or the OTEL_ variables say.

    Raises:
        TracesUnusable: OpenTelemetry is not installed.
    """
    if importlib.util.find_spec("opentelemetry") is None:
        raise TracesUnusable(
            "--traces is given, but OpenTelemetry is not installed. Install skiplane[otel]."
        )
    from opentelemetry import trace
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        named = {"service.name": "skiplane-worker", "service.instance.id": name}
        provider = TracerProvider(resource=Resource.create(named))
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        trace.set_tracer_provider(provider)
    return WorkerTracing()


class _Open:
    """The spans of one attempt."""

    __slots__ = ("ended", "execute", "parent")

    def __init__(self, parent: "Context", execute: "Span") -> None:
        self.parent = parent
        self.execute = execute
        self.ended = 0


class WorkerTracing:
    """Makes the spans of tasks; in the event loop's thread."""

    def __init__(self) -> None:
        from opentelemetry import context, trace
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._trace = trace
        self._context = context
        self._propagator = TraceContextTextMapPropagator()
        self._tracer = trace.get_tracer("skiplane")
        self._open: dict[Item, _Open] = {}
        self._to_store: dict[str, _Open] = {}

    def began(self, item: Item) -> None:
        """Note the start of an attempt, with what lies before it."""
        parent, attributes = self._parent(item), _attributes(item)
        started = _nanoseconds(item.started)
        execute = self._tracer.start_span(
            "skiplane.execute",
            parent,
            self._trace.SpanKind.CONSUMER,
            attributes,
            start_time=started,
        )
        if not self._trace.get_current_span(parent).get_span_context().is_valid:
            parent = self._trace.set_span_in_context(execute, parent)
        claimed = _nanoseconds(item.claimed)
        if (due := item.task.due_at) is not None:
            wait = self._tracer.start_span(
                "skiplane.queue", parent, attributes=attributes, start_time=int(due * 1e9)
            )
            wait.end(max(claimed, int(due * 1e9)))
        pick_up = self._tracer.start_span(
            "skiplane.pick_up", parent, attributes=attributes, start_time=claimed
        )
        pick_up.end(started)
        self._open[item] = _Open(parent, execute)

    def enter(self, item: Item) -> "Token[Context] | None":
        """Make the execution the current span of the context in which this is called."""
        found = self._open.get(item)
        if found is None:
            return None
        return self._context.attach(self._trace.set_span_in_context(found.execute))

    def ended(self, item: Item, failure: Failure | None) -> None:
        """Note the end of an attempt."""
        found = self._open.pop(item, None)
        if found is None:
            return
        if failure is not None and failure.kind not in ("release", "postpone"):
            text = f"{failure.error_type}: {failure.error_message}"
            found.execute.set_status(self._trace.StatusCode.ERROR, text[:500])
        found.ended = time.time_ns()
        found.execute.end(found.ended)
        if not item.recorded and len(self._to_store) < _MOST_WAITING:
            self._to_store[item.task.task_id] = found

    def stored(self, task_ids: list[str]) -> None:
        """Note that ends of tasks are recorded."""
        for task_id in task_ids:
            found = self._to_store.pop(task_id, None)
            if found is not None:
                store = self._tracer.start_span(
                    "skiplane.store",
                    found.parent,
                    attributes={"skiplane.task_id": task_id},
                    start_time=found.ended,
                )
                store.end()

    def _parent(self, item: Item) -> "Context":
        carrier: dict[str, Any] = {}
        if item.task.metadata is not None and b"traceparent" in bytes(item.task.metadata):
            metadata = msgspec.json.decode(item.task.metadata)
            carrier = {
                key: value
                for key in ("traceparent", "tracestate")
                if isinstance(value := metadata.get(key), str)
            }
        return self._propagator.extract(carrier, self._context.Context())


def _attributes(item: Item) -> dict[str, str | int]:
    task = item.task
    return {
        "skiplane.task_id": task.task_id,
        "skiplane.task_type": task.task_type,
        "skiplane.queue": task.queue,
        "skiplane.tenant_id": task.tenant_id,
        "skiplane.attempt": task.attempt,
    }


def _nanoseconds(at: float) -> int:
    return time.time_ns() - int((monotonic() - at) * 1e9)

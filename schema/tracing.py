"""Spans of those who submit, and the caller's trace in a task's metadata (W3C Trace Context).

Nothing is imported here: a process that has not loaded OpenTelemetry has no
traces, and pays one look into a dict.
"""

import contextlib
import sys
from collections.abc import Mapping
from typing import Any

import msgspec

_NOTHING: contextlib.AbstractContextManager[Any] = contextlib.nullcontext()


def span(name: str, **attributes: str) -> contextlib.AbstractContextManager[Any]:
    """Give a span to work in; it does nothing without OpenTelemetry."""
    api: Any = sys.modules.get("opentelemetry.trace")
    if api is None:
        return _NOTHING
    made: contextlib.AbstractContextManager[Any] = api.get_tracer("skiplane").start_as_current_span(
        name, attributes=attributes
    )
    return made


def carry(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Give the options of a submission with the current trace in their metadata.

    A ``traceparent`` that the caller has set stays.
    """
    if sys.modules.get("opentelemetry.trace") is None:
        return options
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier)
    if "traceparent" not in carrier:
        return options
    metadata: dict[str, Any] = msgspec.json.decode(options.get("metadata") or "{}")
    if "traceparent" in metadata:
        return options
    return {**options, "metadata": msgspec.json.encode({**metadata, **carrier}).decode()}

"""The trace of a task, from its caller to its stored result."""

import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from skiplane import Skiplane
from skiplane.worker.inline import run_until_idle

# One for the process: OpenTelemetry takes no second.
EXPORTER = InMemorySpanExporter()


@pytest.fixture(scope="module", autouse=True)
def provider() -> None:
    made = TracerProvider()
    made.add_span_processor(SimpleSpanProcessor(EXPORTER))
    trace.set_tracer_provider(made)


@pytest_asyncio.fixture
async def app(dsn: str) -> AsyncIterator[Skiplane]:
    EXPORTER.clear()
    made = Skiplane(dsn)

    @made.task("work")
    async def work(fails: bool = False) -> None:
        with trace.get_tracer("mine").start_as_current_span("inner"):
            if fails:
                raise ValueError("no luck")

    @made.task("threaded", mode="thread")
    def threaded() -> None:
        with trace.get_tracer("mine").start_as_current_span("inner"):
            pass

    yield made
    await made.close()
    made.close_sync()


def spans() -> dict[str, ReadableSpan]:
    found = {span.name: span for span in EXPORTER.get_finished_spans()}
    assert len(found) == len(EXPORTER.get_finished_spans())
    return found


def parent(found: dict[str, ReadableSpan], name: str) -> str | None:
    above = found[name].parent
    if above is None:
        return None
    return next(n for n, s in found.items() if s.context and s.context.span_id == above.span_id)


TREE = {
    "caller": None,
    "skiplane.receive": "caller",
    "skiplane.persist": "skiplane.receive",
    "skiplane.queue": "skiplane.receive",
    "skiplane.pick_up": "skiplane.receive",
    "skiplane.execute": "skiplane.receive",
    "inner": "skiplane.execute",
    "skiplane.store": "skiplane.receive",
}


@pytest.mark.parametrize("task_type", ["work", "threaded"])
async def test_one_tree_from_the_caller_to_the_stored_result(
    app: Skiplane, dsn: str, task_type: str
):
    with trace.get_tracer("mine").start_as_current_span("caller"):
        handle = await app.submit(task_type)
    await run_until_idle(app, dsn, traces=True)
    found = spans()
    assert {name: parent(found, name) for name in found} == TREE
    assert len({span.context.trace_id for span in found.values() if span.context}) == 1
    execute = found["skiplane.execute"]
    assert execute.attributes is not None
    assert execute.attributes["skiplane.task_id"] == str(handle.id)
    assert execute.attributes["skiplane.attempt"] == 1
    times: list[Any] = [
        (found[f"skiplane.{name}"].start_time, found[f"skiplane.{name}"].end_time)
        for name in ("pick_up", "execute", "store")
    ]
    flat = [moment for pair in times for moment in pair]
    assert flat == sorted(flat)


async def test_a_task_without_a_caller_begins_a_trace(app: Skiplane, dsn: str):
    with app.pool_sync().connection() as conn:
        conn.execute("select skiplane.submit_task('work')")
    await run_until_idle(app, dsn, traces=True)
    found = spans()
    assert parent(found, "skiplane.execute") is None
    assert parent(found, "skiplane.queue") == "skiplane.execute"
    assert parent(found, "skiplane.store") == "skiplane.execute"


async def test_a_failure_is_an_error_of_its_span(app: Skiplane, dsn: str):
    await app.submit("work", {"fails": True}, max_retries=0)
    await run_until_idle(app, dsn, traces=True)
    execute = spans()["skiplane.execute"]
    assert execute.status.status_code is trace.StatusCode.ERROR
    assert execute.status.description == "ValueError: no luck"


async def test_the_callers_own_context_stays(app: Skiplane, dsn: str):
    mine = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    await app.submit("work", metadata={"traceparent": mine, "tenant_id": "t"})
    await run_until_idle(app, dsn, traces=True)
    execute = spans()["skiplane.execute"]
    assert execute.context is not None
    assert execute.parent is not None
    assert f"{execute.context.trace_id:032x}" == mine.split("-")[1]
    assert f"{execute.parent.span_id:016x}" == mine.split("-")[2]


async def test_a_worker_without_traces_makes_no_span(app: Skiplane, dsn: str):
    await app.submit("work")
    EXPORTER.clear()
    await run_until_idle(app, dsn)
    assert set(spans()) == {"inner"}


def test_nothing_of_opentelemetry_is_loaded_unless_asked_for():
    program = (
        "import sys, skiplane.app, skiplane.worker.child, skiplane.scheduler.process;"
        "sys.exit(any(name.startswith('opentelemetry') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0

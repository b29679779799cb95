"""Workflows from Python: building, submitting, waiting, dependency results."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest
import pytest_asyncio

from skiplane import (
    Context,
    IdempotencyConflict,
    InvalidInput,
    NotFound,
    Skiplane,
    SyncContext,
    Task,
    WorkflowFailed,
    chain,
    group,
    step,
    workflow,
)
from skiplane.schema.workflow_calls import submit_documents
from skiplane.testing import FakeAttempt, drain, run_task, run_task_sync

plain = Skiplane()


@plain.task("add", max_retries=0)
async def add(ctx: Context, number: int = 0) -> int:
    """Add to what the dependencies gave."""
    total: int = number + sum((await ctx.dependency_results()).values())
    return total


@plain.task("boom", max_retries=0)
async def boom() -> None:
    """Fail."""
    raise ValueError("no luck")


@plain.task("look", mode="thread")
def look(ctx: SyncContext) -> list[list[str | None]]:
    """Tell how the dependencies ended."""
    return [[name, str(d.status), d.error_type] for name, d in ctx.dependencies().items()]


Tasks = tuple[Skiplane, Task[..., Any], Task[..., Any], Task[..., Any]]


@pytest_asyncio.fixture
async def tasks(dsn: str) -> AsyncIterator[Tasks]:
    """An app on the fresh database, with the three tasks."""
    app = Skiplane(dsn)
    made = (
        app,
        app.task("add", max_retries=0)(add.definition.function),
        app.task("boom", max_retries=0)(boom.definition.function),
        app.task("look", mode="thread")(look.definition.function),
    )
    yield made
    await app.close()
    app.close_sync()


async def test_results_flow_from_task_to_task(tasks: Tasks):
    app, add, _, _ = tasks
    flow = workflow("sum")
    one = flow.task(add.step(1))
    flow.task(add, {"number": 2}, name="two", priority="high")
    flow.task(add, after=[one, "two"], name="three")
    handle = await flow.submit()
    assert set(handle.tasks) == {"add", "two", "three"}
    assert await handle.status() == "RUNNING"
    await drain(app)
    assert await handle.results(timeout=30) == {"add": 1, "two": 2, "three": 3}
    assert await handle.tasks["three"].result(timeout=30) == 3
    assert (await handle.tasks["two"].get()).priority == "high"
    assert (await handle.tasks["two"].get()).task_name == "two"


async def test_failure_is_told_with_its_cause(tasks: Tasks):
    app, add, boom, look = tasks
    flow = workflow("bad")
    flow.add(chain(boom, add))
    flow.task(look, after=["boom", "add"], trigger="all_done")
    handle = await flow.submit()
    await drain(app)
    with pytest.raises(WorkflowFailed, match="no luck") as caught:
        await handle.results(timeout=30)
    assert (caught.value.status, caught.value.task_name) == ("FAILED", "boom")
    assert await handle.tasks["look"].result(timeout=30) == [
        ["boom", "DEAD", "ValueError"],
        ["add", "FAILED", "UpstreamFailed"],
    ]
    record = await handle.wait(timeout=30)
    assert record.tasks == {"DEAD": 1, "FAILED": 1, "SUCCEEDED": 1}
    assert (await handle.retry("again")).status == "RUNNING"
    assert (await handle.cancel()).status == "CANCELLED"
    with pytest.raises(WorkflowFailed, match="CANCELLED"):
        await handle.results(timeout=30)


async def test_chains_and_groups_nest(tasks: Tasks):
    app, add, _, _ = tasks
    flow = workflow("shape")
    first = flow.task(add.step(100), name="first")
    last = flow.add(
        chain(add.step(1), group(chain(add.step(2), add.step(3)), add.step(4)), group(), add),
        after=first,
    )
    assert [node.name for node in last] == ["add-5"]
    assert {name: node.after for name, node in flow.nodes.items()} == {
        "first": [],
        "add": ["first"],
        "add-2": ["add"],
        "add-3": ["add-2"],
        "add-4": ["add"],
        "add-5": ["add-3", "add-4"],
    }
    handle = await flow.submit()
    await drain(app)
    assert (await handle.results(timeout=30))["add-5"] == 101 + 2 + 3 + 101 + 4


async def test_workflow_is_part_of_the_callers_transaction(tasks: Tasks, dsn: str):
    app, add, _, _ = tasks
    flow = workflow("mine")
    flow.add(chain(add, add))
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        lost = await flow.submit(connection=connection)
        await connection.rollback()
        kept = await flow.submit(connection=connection)
        waiting = asyncio.create_task(kept.wait(timeout=30))
        await connection.commit()
    await drain(app)
    assert (await waiting).status == "SUCCEEDED"
    with pytest.raises(NotFound):
        await lost.get()
    with psycopg.connect(dsn) as sync:
        handle = flow.submit_sync(connection=sync)
        sync.commit()
    assert handle.status_sync() == "RUNNING"


async def test_sync_faces_do_the_same(tasks: Tasks):
    app, add, _, _ = tasks
    flow = app.workflow("sync")
    flow.add(chain(add.step(1), add))
    handle = await asyncio.to_thread(flow.submit_sync)
    with pytest.raises(TimeoutError):
        await asyncio.to_thread(handle.wait_sync, 0.05)
    await drain(app)
    assert await asyncio.to_thread(handle.results_sync, 10) == {"add": 1, "add-2": 1}
    assert len((await asyncio.to_thread(handle.graph_sync)).edges) == 1
    assert (await asyncio.to_thread(handle.get_sync)).workflow_name == "sync"
    [listed] = await asyncio.to_thread(app.list_workflows_sync)
    assert listed.workflow_id == handle.id


async def test_key_gives_the_first_workflow(tasks: Tasks):
    app, add, _, _ = tasks
    flow = app.workflow("once")
    flow.task(add.step(1))
    first = await flow.submit(idempotency_key="k", tenant="t", metadata={"trace": "1"})
    again = await flow.submit(idempotency_key="k", tenant="t", metadata={"trace": "2"})
    assert (again, first.duplicate, again.duplicate) == (first, False, True)
    assert (await app.get_workflow(first.id)).tenant_id == "t"
    flow.task(add.step(2))
    with pytest.raises(IdempotencyConflict):
        await flow.submit(idempotency_key="k", tenant="t")


async def test_workflow_as_dicts_is_submitted_and_steered_by_id(tasks: Tasks):
    app = tasks[0]
    handle = await app.submit_workflow(
        "dicts",
        [
            {"name": "a", "task_type": "add", "payload": {"number": 1}},
            {"name": "b", "task_type": "add", "dependencies": ["a"], "timeout": 5},
        ],
    )
    assert app.workflow_handle(str(handle.id)) == handle
    assert [n.name for n in (await app.workflow_graph(handle.id)).nodes] == ["a", "b"]
    assert (await app.get(handle.tasks["b"].id)).timeout_seconds == 5
    await app.cancel_workflow(handle.id, "no", actor="ann")
    assert [w.status for w in await app.list_workflows(status="CANCELLED")] == ["CANCELLED"]
    record = await app.retry_workflow(handle.id)
    assert [action.verb for action in record.actions] == ["cancel", "retry"]


async def test_what_cannot_be_built_is_told(tasks: Tasks):
    app, add, _, _ = tasks
    flow = app.workflow("bad")
    node = flow.task(add)
    bad: list[tuple[Any, str]] = [
        (lambda: flow.task(add, name="add"), "already"),
        (lambda: flow.task(add, {"number": "x"}), "number"),
        (lambda: flow.task(add, 7), "payload"),
        (lambda: flow.task(add.step(), {"number": 1}), "step"),
        (lambda: flow.task(add.step(), priority="high"), "step"),
        (lambda: flow.task(7), "no task"),
        (lambda: flow.task(add, after=7), "after"),
        (lambda: app.workflow("other").task(add, after=[node]), "another workflow"),
        (lambda: chain(add, 7), "no step"),
        (lambda: group(7), "no step"),
        (lambda: add.step(1, 2), "positional"),
        (lambda: step("a\0b"), "task_type"),
    ]
    for build, says in bad:
        with pytest.raises(InvalidInput, match=says):
            build()
    nameless = workflow("nameless")
    nameless.task("add")
    with pytest.raises(InvalidInput, match="app"):
        await nameless.submit()
    assert (await nameless.on(app).submit()).tasks.keys() == {"add"}
    with pytest.raises(InvalidInput, match="no task"):
        await app.workflow("empty").submit()
    flow.task(add, name="x", after="nope")
    with pytest.raises(InvalidInput, match="nope") as caught:
        await flow.submit()
    assert caught.value.field == "tasks[1].dependencies"
    with pytest.raises(InvalidInput, match="workflow_id"):
        await app.get_workflow("x")
    with pytest.raises(TypeError, match="delay_seconds"):
        submit_documents("z", [b"{}"], {"delay": 5})


async def test_a_test_may_play_the_dependencies():
    fake = FakeAttempt(dependencies={"a": 1, "b": 2})
    assert await run_task(add, 3, ctx=fake) == 6
    assert await run_task(add, 3) == 3
    assert await asyncio.to_thread(run_task_sync, look, ctx=fake) == [
        ["a", "SUCCEEDED", None],
        ["b", "SUCCEEDED", None],
    ]


async def test_unknown_workflow_is_not_waited_for(tasks: Tasks):
    with pytest.raises(NotFound):
        await tasks[0].workflow_handle(uuid.uuid4()).wait(timeout=30)

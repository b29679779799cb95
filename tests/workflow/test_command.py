"""skiplane workflow"""

import json
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from skiplane.commands.workflow_picture import layers, picture
from skiplane.schema.records import Status
from skiplane.schema.workflow_records import GraphEdge, GraphNode, WorkflowGraph, WorkflowStatus
from skiplane.tests.cli.conftest import Run, bare, skiplane
from skiplane.tests.support.engine import Engine

from .flows import Flow, tasks

__all__ = ["bare", "skiplane"]


@pytest.fixture
def live(conn: Any) -> Engine:
    """The verbs on the database that the command sees."""
    return Engine(conn)


def graph(count: int, edges: list[tuple[int, int]]) -> WorkflowGraph:
    nodes = [
        GraphNode(
            name=f"n{n}", task_id=uuid.UUID(int=n), task_type="t", queue="q", status=Status.BLOCKED
        )
        for n in range(count)
    ]
    return WorkflowGraph(
        workflow_id=uuid.UUID(int=99), workflow_name="w", status=WorkflowStatus.RUNNING,
        task_count=count, pending=count, created_at=datetime(2026, 1, 1, tzinfo=UTC), nodes=nodes,
        edges=[GraphEdge(f"n{a}", f"n{b}") for a, b in edges],
    )  # fmt: skip


def test_file_is_submitted_shown_waited_for_and_cancelled(
    skiplane: Run, live: Engine, tmp_path: Path
):
    file = tmp_path / "nightly.json"
    file.write_text(json.dumps({"workflow_name": "nightly", "tasks": tasks("a b<a")}))
    said = skiplane("workflow", "submit", str(file), "--json")
    assert said.code == 0, said.err
    workflow_id = said.document["workflow_id"]
    assert [(t["name"], t["status"]) for t in said.document["tasks"]] == [
        ("a", "PENDING"),
        ("b", "BLOCKED"),
    ]
    shown = skiplane("workflow", "show", workflow_id)
    assert "nightly" in shown.out
    assert "← a" in shown.out
    assert skiplane("workflow", "show", workflow_id, "--json").document["edges"] == [
        {"source": "a", "target": "b"}
    ]
    waited = skiplane("workflow", "wait", workflow_id, "0.1")
    assert (waited.code, "still RUNNING" in waited.err) == (1, True)
    [listed] = skiplane("workflow", "list", "--name", "nightly", "--json").document
    assert listed["workflow_id"] == workflow_id
    done = skiplane("workflow", "cancel", workflow_id, "--reason", "enough", "--json")
    assert done.document["status"] == "CANCELLED"
    assert skiplane("workflow", "wait", workflow_id).code == 1
    assert "RUNNING" in skiplane("workflow", "retry", workflow_id).out
    for name in "ab":
        live.finish(live.claim(1, task_types=[name]))
    assert skiplane("workflow", "wait", workflow_id, "--json").code == 0


def test_list_of_tasks_needs_a_name_and_times_are_read(skiplane: Run, live: Engine):
    spec = [{"name": "a", "task_type": "t", "scheduled_at": "2035-01-01T00:00:00Z"}]
    refused = skiplane("workflow", "submit", "-", stdin=json.dumps(spec))
    assert (refused.code, "--name" in refused.err) == (2, True)
    said = skiplane(
        "workflow", "submit", "-", "--name", "w", "--tenant", "t", "--idempotency-key", "k",
        "--json", stdin=json.dumps(spec),
    )  # fmt: skip
    assert said.document["tasks"][0]["status"] == "SCHEDULED"
    assert live.value("get_workflow", workflow_id=said.document["workflow_id"])["tenant_id"] == "t"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("7", "no workflow"),
        ("{", "not JSON"),
        ('{"workflow_name": "w", "task": []}', "unknown field task"),
        ('{"workflow_name": "w", "tasks": 7}', "tasks is no list"),
        ('{"workflow_name": "w", "tasks": []}', "has no task"),
        ('{"workflow_name": "w", "tasks": [7]}', "tasks[0] is no mapping"),
        ('{"workflow_name": "w", "tasks": [{"name": "a", "task_type": "t", "x": 1}]}', "'x'"),
        (
            '{"workflow_name": "w", "tasks": [{"name": "a", "task_type": "t",'
            ' "dependencies": ["a"]}]}',
            "depends on itself",
        ),
        (
            '{"workflow_name": "w", "tasks": [{"name": "a", "task_type": "t",'
            ' "scheduled_at": "soon"}]}',
            "tasks[0].scheduled_at is no time",
        ),
    ],
)
def test_bad_file_is_told_in_a_sentence(skiplane: Run, text: str, says: str):
    said = skiplane("workflow", "submit", "-", stdin=text)
    assert said.code == 2
    assert says in said.err


def test_missing_file_and_unknown_workflow_are_told(skiplane: Run):
    said = skiplane("workflow", "submit", "no.json")
    assert (said.code, "no.json cannot be read" in said.err) == (2, True)
    for verb in ("show", "wait", "cancel", "retry"):
        said = skiplane("workflow", verb, str(uuid.uuid4()))
        assert said.code == 1
        assert "No workflow has this id" in said.err


def test_each_task_stands_below_all_that_it_waits_for():
    drawn = layers(graph(6, [(0, 1), (1, 2), (0, 2), (2, 4), (3, 4)]))
    assert [[node.name for node in layer] for layer in drawn] == [
        ["n0", "n3", "n5"],
        ["n1"],
        ["n2"],
        ["n4"],
    ]


@pytest.mark.parametrize("width", [40, 80, 200])
def test_picture_of_thousands_fits_the_width_and_a_screen(width: int):
    count = 5000
    wide = graph(
        count + 2,
        [(0, n) for n in range(1, count + 1)] + [(n, count + 1) for n in range(1, count + 1)],
    )
    lines = list(picture(wide, width))
    assert len(lines) < 10
    assert all(cell_len(line.plain) <= width for line in lines)
    assert f"{count:,} × n1 … n{count}" in "\n".join(line.plain for line in lines) or width == 40
    everything = list(picture(wide, width, everything=True))
    assert len(everything) == count + 2 + 3
    assert all(cell_len(line.plain) <= width for line in everything)


def test_picture_names_parents_as_far_as_there_is_room():
    lines = [line.plain for line in picture(graph(40, [(n, 39) for n in range(39)]), 80)]
    assert "and " in lines[-1]
    assert lines[-1].endswith(" more")
    short = [line.plain for line in picture(graph(3, [(0, 2), (1, 2)]), 80)]
    assert short[-1].endswith("← n0, n1")


def test_picture_shows_text_of_others_as_text(skiplane: Run, live: Engine):
    flow = Flow(live, [{"name": "[red]a[/red]", "task_type": "t", "max_retries": 0}])
    live.fail(live.claim(), error_type="E", error_message="[bold]no[/bold]")
    shown = skiplane("workflow", "show", str(flow.id)).out
    assert "[red]a[/red]" in shown
    assert "[bold]no[/bold]" in shown

"""The picture of a workflow: layers, order, folding."""

import time
import uuid
from datetime import UTC, datetime
from itertools import pairwise

from skiplane.schema.records import Status
from skiplane.schema.workflow_records import GraphEdge, GraphNode, WorkflowGraph, WorkflowStatus
from skiplane.web.dashboard.graph import HEIGHT, MOST, WIDTH, draw
from skiplane.web.dashboard.picture import render


def graph(edges: dict[str, list[str]], types: int = 1) -> WorkflowGraph:
    """Make a workflow out of what each task depends on."""
    nodes = [
        GraphNode(name=name, task_id=uuid.uuid4(), task_type=f"t{place % types}", queue="q",
                  status=Status.PENDING)
        for place, name in enumerate(edges)
    ]  # fmt: skip
    return WorkflowGraph(
        workflow_id=uuid.uuid4(), workflow_name="w", status=WorkflowStatus.RUNNING,
        task_count=len(nodes), pending=len(nodes), created_at=datetime.now(UTC),
        nodes=nodes, edges=[GraphEdge(a, b) for b, many in edges.items() for a in many],
    )  # fmt: skip


def test_a_task_stands_right_of_all_that_it_needs():
    edges = {"a": [], "b": ["a"], "c": ["b"], "d": ["a", "c"], "e": []}
    drawing = draw(graph(edges))
    x = {node.box.tasks[0].name: node.x for node in drawing.nodes}
    assert all(x[a] < x[b] for b, many in edges.items() for a in many)
    assert x["e"] == x["a"]
    assert len(drawing.arrows) == 4
    assert not drawing.folded


def test_nothing_lies_on_anything_else():
    edges = {f"{layer}-{n}": [f"{layer - 1}-{(n * 3 + k) % 9}" for k in range(2)] if layer else []
             for layer in range(9) for n in range(9)}  # fmt: skip
    drawing = draw(graph(edges))
    for one, other in pairwise(sorted(drawing.nodes, key=lambda node: (node.x, node.y))):
        assert one.x != other.x or other.y - one.y >= HEIGHT
    assert all(0 <= node.x <= drawing.width - WIDTH + 1 for node in drawing.nodes)
    assert all(0 <= node.y <= drawing.height - HEIGHT + 1 for node in drawing.nodes)


def test_an_arrow_over_layers_passes_between_nodes():
    edges = {"a": [], "b": ["a"], "c": ["b"], "d": ["c", "a"]}
    drawing = draw(graph(edges))
    long = max(drawing.arrows, key=len)
    for x, y in long[1:-1]:
        for node in drawing.nodes:
            inside = node.x < x < node.x + WIDTH and node.y < y < node.y + HEIGHT
            assert not inside


def test_thousands_are_folded_and_none_is_lost():
    wide = {"start": [], **{f"n{i}": ["start"] for i in range(5000)}}
    long = {f"n{i}": [f"n{i - 1}"] if i else [] for i in range(5000)}
    both = {f"n{i}": [f"n{i // 2}"] if i else [] for i in range(9999)}
    for edges in (wide, long, both):
        begun = time.monotonic()
        drawing = draw(graph(edges, types=700))
        assert time.monotonic() - begun < 5
        assert drawing.folded
        assert len(drawing.nodes) <= MOST
        assert sum(len(node.box.tasks) for node in drawing.nodes) == len(edges)
        assert len(str(render(drawing, "x"))) < 400_000


def test_names_in_a_picture_are_text():
    made = graph({"<script>": [], '"><b>': ["<script>"]})
    shown = str(render(draw(made), "x"))
    assert "<script>" not in shown
    assert "&lt;script&gt;" in shown
    assert '"><b>' not in shown

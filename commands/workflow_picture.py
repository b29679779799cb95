"""Drawing a workflow in a terminal: layer below layer, each task below all that it waits for."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from ..schema.records import Status
from ..schema.workflow_records import GraphNode, WorkflowGraph
from .output import STATUS_STYLES, span

MARKS = {
    "SCHEDULED": "◷",
    "BLOCKED": "○",
    "PENDING": "◌",
    "RUNNING": "▶",
    "RETRYING": "↻",
    "SUCCEEDED": "✔",
    "FAILED": "✘",
    "CANCELLED": "⊘",
    "DEAD": "✘",
}
# So many of a layer that are alike have lines of their own.
ALIKE = 3
LEAST_WIDTH = 40


class Line(NamedTuple):
    """A task, or several that are alike."""

    nodes: Sequence[GraphNode]
    parents: Sequence[str]

    @property
    def name(self) -> str:
        """What stands for them."""
        first, last = self.nodes[0].name, self.nodes[-1].name
        return first if len(self.nodes) == 1 else f"{len(self.nodes):,} × {first} … {last}"


def layers(graph: WorkflowGraph) -> list[list[GraphNode]]:
    """Give the tasks by layer: one more than the deepest of those that each waits for."""
    children: dict[str, list[str]] = defaultdict(list)
    waiting = Counter[str]()
    for edge in graph.edges:
        children[edge.source].append(edge.target)
        waiting[edge.target] += 1
    depth = {node.name: 0 for node in graph.nodes}
    free = [node.name for node in graph.nodes if not waiting[node.name]]
    for name in free:  # it grows while it is walked
        for child in children[name]:
            depth[child] = max(depth[child], depth[name] + 1)
            waiting[child] -= 1
            if not waiting[child]:
                free.append(child)
    made: list[list[GraphNode]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for node in graph.nodes:
        made[depth[node.name]].append(node)
    return made


def picture(graph: WorkflowGraph, width: int = 80, everything: bool = False) -> Iterator[Text]:
    """Give the lines of the picture, none wider than ``width``.

    Args:
        graph: The workflow.
        width: Columns of the terminal.
        everything: Give every task a line, however many are alike.
    """
    width = max(width, LEAST_WIDTH)
    yield from _head(graph, width)
    parents: dict[str, list[str]] = defaultdict(list)
    for edge in graph.edges:
        parents[edge.target].append(edge.source)
    made = [_lines(layer, parents, everything) for layer in layers(graph)]
    digits = len(str(len(made)))
    names = min(width // 2, max(cell_len(line.name) for layer in made for line in layer))
    for number, layer in enumerate(made, 1):
        for place, line in enumerate(layer):
            label = str(number) if place == 0 else ""
            yield _row(label.rjust(digits), _branch(place, len(layer)), line, names, width)


def _head(graph: WorkflowGraph, width: int) -> Iterator[Text]:
    title = Text(no_wrap=True).append(graph.workflow_name, "bold").append("  ")
    title.append(graph.status, STATUS_STYLES.get(graph.status, ""))
    title.append(f"  {span(_seconds(graph.created_at, graph.completed_at))}", "dim")
    yield _cut(title, width)
    counts = Counter(node.status for node in graph.nodes)
    states = Text(no_wrap=True).append(f"{graph.workflow_id}  ", "dim")
    states.append(f"{graph.task_count - graph.pending:,} of {graph.task_count:,} done")
    yield _cut(states, width)
    parts = Text("  ").join(
        Text(f"{MARKS[status]} {counts[status]:,} {status}", STATUS_STYLES[status])
        for status in Status
        if counts[status]
    )
    yield _cut(parts, width)


def _lines(
    layer: Iterable[GraphNode], parents: dict[str, list[str]], everything: bool
) -> list[Line]:
    alike: dict[tuple[str, ...], list[GraphNode]] = defaultdict(list)
    for node in layer:
        key = (node.name,) if everything else (node.task_type, node.status, node.trigger)
        alike[key].append(node)
    made: list[Line] = []
    for nodes in alike.values():
        groups = [nodes] if len(nodes) > ALIKE else [[node] for node in nodes]
        for some in groups:
            wanted = dict.fromkeys(name for node in some for name in parents[node.name])
            made.append(Line(some, list(wanted)))
    return made


def _branch(place: int, count: int) -> str:
    if count == 1:
        return "─"
    return "┬" if place == 0 else "└" if place == count - 1 else "├"


def _row(label: str, branch: str, line: Line, names: int, width: int) -> Text:
    node = line.nodes[0]
    style = STATUS_STYLES.get(node.status, "")
    row = Text(no_wrap=True).append(f"{label} {branch} ", "dim")
    row.append(f"{MARKS[node.status]} ", style)
    row.append(_fit(line.name, names), "bold" if node.status == "RUNNING" else "")
    row.append(f"  {node.status:<9}", style)
    row.append(f" {_time(line.nodes):>8}", "dim")
    if line.parents:
        trigger = "" if node.trigger == "all_success" else f"{node.trigger} "
        row.append(f"  ← {trigger}", "dim")
        row.append(_some(line.parents, width - row.cell_len), "dim")
    elif node.error_message and node.status in ("FAILED", "DEAD"):
        row.append(f"  {node.error_message}", style)
    return _cut(row, width)


def _time(nodes: Sequence[GraphNode]) -> str:
    taken = [_seconds(n.started_at, n.completed_at) for n in nodes if n.started_at is not None]
    return (span(max(taken)) or "").removeprefix("under ") if taken else ""


def _seconds(start: datetime, end: datetime | None) -> float:
    return max(0.0, ((end or datetime.now(UTC)) - start).total_seconds())


def _some(names: Sequence[str], room: int) -> str:
    """Give as many names as there is room for, and the number of the others."""
    text = ", ".join(names)
    if cell_len(text) <= room:
        return text
    for count in range(min(len(names) - 1, max(1, room // 3)), 0, -1):
        text = f"{', '.join(names[:count])} and {len(names) - count:,} more"
        if cell_len(text) <= room:
            return text
    return f"{len(names):,} tasks"


def _fit(text: str, size: int) -> str:
    text = " ".join(text.split())
    cut = text if cell_len(text) <= size else f"{set_cell_size(text, size - 1)}…"
    return set_cell_size(cut, size)


def _cut(line: Text, width: int) -> Text:
    if line.cell_len > width:
        line.truncate(width, overflow="ellipsis")
    return line

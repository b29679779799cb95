"""The picture of a workflow: layers from left to right, few crossings, folded when it is large.

A node's layer is the longest way to it. Within a layer nodes stand where their
neighbours do (barycentres, some sweeps), and an arrow over several layers has a place
of its own in each, so that it passes between nodes and not behind them. What would be
more than MOST nodes is folded: tasks of one layer and type become one node, then
neighbouring layers one.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from ...schema.workflow_records import GraphNode, WorkflowGraph

MOST = 160
MOST_BENDS = 1200
SWEEPS = 6
WIDTH, HEIGHT = 190.0, 46.0
ACROSS, BETWEEN, BEND = 80.0, 18.0, 10.0


class Box(NamedTuple):
    """A node of the picture: one task, or several that are folded into one."""

    key: str
    layer: int
    tasks: list[GraphNode]

    @property
    def states(self) -> Counter[str]:
        """How many of its tasks are in which state."""
        return Counter(str(task.status) for task in self.tasks)


class Placed(NamedTuple):
    """A node with its place: the left upper corner."""

    box: Box
    x: float
    y: float


class Drawing(NamedTuple):
    """Everything with its place. An arrow is the points that it goes through."""

    nodes: list[Placed]
    arrows: list[list[tuple[float, float]]]
    width: float
    height: float
    folded: bool


def layers_of(names: Sequence[str], edges: Iterable[tuple[str, str]]) -> dict[str, int]:
    """Give each node's layer: one more than the highest of what it depends on."""
    children: dict[str, list[str]] = defaultdict(list)
    waiting = dict.fromkeys(names, 0)
    for source, target in edges:
        children[source].append(target)
        waiting[target] += 1
    layer = dict.fromkeys(names, 0)
    free = [name for name in names if not waiting[name]]
    for name in free:  # grows while it is walked
        for child in children[name]:
            layer[child] = max(layer[child], layer[name] + 1)
            waiting[child] -= 1
            if not waiting[child]:
                free.append(child)
    return layer


def draw(graph: WorkflowGraph) -> Drawing:
    """Lay a workflow out."""
    names = [node.name for node in graph.nodes]
    pairs = [(edge.source, edge.target) for edge in graph.edges]
    layer = layers_of(names, pairs)
    boxes, where = _fold(graph.nodes, layer)
    arrows = sorted({(where[a], where[b]) for a, b in pairs if where[a] != where[b]})
    # Folding may turn an arrow round; those within a layer say nothing any more.
    at = {box.key: box.layer for box in boxes}
    arrows = [(a, b) for a, b in arrows if at[a] < at[b]]
    return _place(boxes, arrows, folded=len(boxes) < len(names))


def _fold(nodes: Sequence[GraphNode], layer: dict[str, int]) -> tuple[list[Box], dict[str, str]]:
    def grouped(keys: dict[str, tuple[int, str]]) -> tuple[list[Box], dict[str, str]]:
        found: dict[tuple[int, str], list[GraphNode]] = defaultdict(list)
        for node in nodes:
            found[keys[node.name]].append(node)
        names = {key: f"{key[0]}/{key[1]}" for key in found}
        boxes = [Box(names[key], key[0], tasks) for key, tasks in found.items()]
        return boxes, {name: names[key] for name, key in keys.items()}

    keys = {node.name: (layer[node.name], node.name) for node in nodes}
    if len(nodes) > MOST:
        keys = {node.name: (layer[node.name], node.task_type) for node in nodes}
    if len(set(keys.values())) > MOST:
        deepest = max(layer.values()) + 1
        few = min(deepest, MOST // 4)
        squeezed = {name: place * few // deepest for name, place in layer.items()}
        keys = {node.name: (squeezed[node.name], node.task_type) for node in nodes}
        if len(set(keys.values())) > MOST:
            keys = {node.name: (squeezed[node.name], "") for node in nodes}
    return grouped(keys)


class _Grid:
    """Nodes and bends of arrows, column by column."""

    def __init__(self, boxes: Sequence[Box], arrows: Sequence[tuple[str, str]]) -> None:
        self.columns: list[list[str]] = [
            [] for _ in range(max((b.layer for b in boxes), default=0) + 1)
        ]
        self.size = {box.key: HEIGHT for box in boxes}
        self.links: dict[str, list[str]] = defaultdict(list)
        self.ways: list[list[str]] = []
        at = {box.key: box.layer for box in boxes}
        for box in boxes:
            self.columns[box.layer].append(box.key)
        bends = sum(at[b] - at[a] - 1 for a, b in arrows)
        for number, (source, target) in enumerate(arrows):
            way = [source]
            if bends <= MOST_BENDS:
                for column in range(at[source] + 1, at[target]):
                    bend = f"\0{number}/{column}"
                    self.columns[column].append(bend)
                    self.size[bend] = BEND
                    way.append(bend)
            way.append(target)
            self.ways.append(way)
            for a, b in pairwise(way):
                self.links[a].append(b)
                self.links[b].append(a)

    def order(self) -> None:
        """Bring each column into the order of its neighbours' places."""
        place = {key: index for column in self.columns for index, key in enumerate(column)}
        for sweep in range(SWEEPS):
            columns = self.columns if sweep % 2 == 0 else self.columns[::-1]
            for column in columns:
                middle = {
                    key: sum(place[other] for other in self.links[key]) / len(self.links[key])
                    if self.links[key]
                    else float(place[key])
                    for key in column
                }
                column.sort(key=middle.__getitem__)
                place.update({key: index for index, key in enumerate(column)})

    def heights(self) -> dict[str, float]:
        """Give each its upper edge: near its neighbours, in order, with room between."""
        top: dict[str, float] = {}
        for column in self.columns:
            y = -sum(self.size[key] + BETWEEN for key in column) / 2
            for key in column:
                top[key] = y
                y += self.size[key] + BETWEEN
        for sweep in range(SWEEPS):
            for column in self.columns if sweep % 2 == 0 else self.columns[::-1]:
                self._settle(column, top)
        return top

    def _settle(self, column: list[str], top: dict[str, float]) -> None:
        wanted = []
        for key in column:
            near = self.links[key]
            middles = [top[other] + self.size[other] / 2 for other in near]
            middle = sum(middles) / len(near) if near else None
            wanted.append(top[key] if middle is None else middle - self.size[key] / 2)
        placed: list[float] = []
        for y in wanted:
            least = placed[-1] + self.size[column[len(placed) - 1]] + BETWEEN if placed else y
            placed.append(max(y, least))
        # Pushing went downwards only: take half of it back.
        shift = sum(a - b for a, b in zip(placed, wanted, strict=True)) / max(1, len(placed))
        top.update({key: y - shift for key, y in zip(column, placed, strict=True)})


def _place(boxes: list[Box], arrows: list[tuple[str, str]], *, folded: bool) -> Drawing:
    grid = _Grid(boxes, arrows)
    grid.order()
    top = grid.heights()
    lowest = min(top.values(), default=0.0)
    at = {key: index for index, column in enumerate(grid.columns) for key in column}
    nodes = [Placed(box, box.layer * (WIDTH + ACROSS), top[box.key] - lowest) for box in boxes]
    ways = []
    for way in grid.ways:
        points = []
        for place, key in enumerate(way):
            x = at[key] * (WIDTH + ACROSS)
            y = top[key] - lowest + grid.size[key] / 2
            if place:
                points.append((x, y))
            if place < len(way) - 1:
                points.append((x + WIDTH, y))
        ways.append(points)
    height = max((node.y + HEIGHT for node in nodes), default=0.0)
    return Drawing(nodes, ways, len(grid.columns) * (WIDTH + ACROSS) - ACROSS, height, folded)

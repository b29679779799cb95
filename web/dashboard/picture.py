"""A laid-out workflow as SVG."""

from itertools import pairwise

from markupsafe import Markup

from .graph import HEIGHT, WIDTH, Drawing, Placed
from .states import STATES, css, shape
from .words import clean, duration, query

EDGE = 24.0
_LONGEST = 22
_RECT = Markup('<rect class="box" x="{}" y="{}" width="{}" height="{}" rx="8"/>')
# Of a folded node the state that somebody should know first.
_WORST = ("DEAD", "FAILED", "RUNNING", "RETRYING", "CANCELLED", "PENDING", "SCHEDULED", "BLOCKED")


def _short(text: str) -> str:
    shown = str(clean(text))
    return shown if len(shown) <= _LONGEST else f"{shown[: _LONGEST - 1]}…"


def render(drawing: Drawing, workflow_id: str) -> Markup:
    """Give the picture."""
    arrows = Markup("").join(
        Markup('<path class="arrow" d="{}" marker-end="url(#tip)"/>').format(_path(way))
        for way in drawing.arrows
    )
    nodes = Markup("").join(_node(node, workflow_id) for node in drawing.nodes)
    width, height = drawing.width + 2 * EDGE, drawing.height + 2 * EDGE
    return Markup(
        '<svg id="picture" class="picture" role="group"'
        ' aria-label="Tasks of the workflow, left to right"'
        ' viewBox="{x} {y} {w:.0f} {h:.0f}" width="{w:.0f}" height="{h:.0f}">'
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7"'
        ' markerHeight="7" orient="auto-start-reverse"><path class="tip" d="M0 0L8 4L0 8z"/>'
        "</marker></defs>"
        "{arrows}{nodes}</svg>"
    ).format(x=-EDGE, y=-EDGE, w=width, h=height, arrows=arrows, nodes=nodes)


def _path(points: list[tuple[float, float]]) -> str:
    """Curve between columns, run straight through them."""
    parts = [f"M{points[0][0]:.0f} {points[0][1]:.1f}"]
    for place, ((left, above), (right, below)) in enumerate(pairwise(points)):
        if place % 2:
            parts.append(f"H{right:.0f}")
        else:
            half = (left + right) / 2
            parts.append(f"C{half:.0f} {above:.1f} {half:.0f} {below:.1f} {right:.0f} {below:.1f}")
    return "".join(parts)


def _node(node: Placed, workflow_id: str) -> Markup:
    tasks = node.box.tasks
    return _one(node) if len(tasks) == 1 else _many(node, workflow_id)


def _one(node: Placed) -> Markup:
    task = node.box.tasks[0]
    state = str(task.status)
    took = ""
    if task.started_at and task.completed_at:
        took = f" · {duration((task.completed_at - task.started_at).total_seconds())}"
    told = f"{task.name} ({task.task_type}): {state}{took}"
    if task.trigger != "all_success":
        told += f", runs on {task.trigger}"
    if task.error_type or task.error_message:
        told += f"\n{task.error_type or 'Error'}: {(task.error_message or '')[:300]}"
    dashed = " special" if task.trigger != "all_success" else ""
    return _box(
        node, f"/ui/tasks/{task.task_id}", state, dashed, told, task.name, f"{state.lower()}{took}"
    )


def _many(node: Placed, workflow_id: str) -> Markup:
    states = node.box.states
    state = next((name for name in _WORST if states[name]), "SUCCEEDED")
    types = sorted({task.task_type for task in node.box.tasks})
    told = ", ".join(f"{states[name]} {name.lower()}" for name in STATES if states[name])
    only = types[0] if len(types) == 1 else None
    name = f"{len(node.box.tasks)} × {only}" if only else f"{len(node.box.tasks)} tasks"
    where = "/ui/tasks" + query(workflow_id=workflow_id, task_type=only)
    return _box(node, where, state, " many", f"{name}: {told}", name, told)


def _box(
    node: Placed, where: str, state: str, more: str, told: str, name: str, below: str
) -> Markup:
    behind = _RECT.format(4, 4, WIDTH, HEIGHT) if more == " many" else ""
    return Markup(
        '<a href="{}" class="node {}{}" transform="translate({:.0f} {:.1f})" data-row>'
        "<title>{}</title>{}{}"
        '<svg class="shape" x="10" y="14" width="18" height="18" viewBox="0 0 16 16">{}</svg>'
        '<text x="38" y="20" class="who">{}</text><text x="38" y="36" class="how">{}</text></a>'
    ).format(
        where, css(state), more, node.x, node.y, clean(told), behind,
        _RECT.format(0, 0, WIDTH, HEIGHT), shape(state), _short(name), _short(below),
    )  # fmt: skip

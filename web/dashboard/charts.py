"""Charts as SVG, drawn here. Shapes stretch with the page, words stay words: labels are HTML.

Colours are classes, so that they follow the theme; each line has its own dashes, each
point its value for the mouse, and the whole a sentence for who cannot see it.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup, escape

from .words import clean, clock, compact, duration

HEIGHT = 100.0
Value = float | None


class Series(NamedTuple):
    """Values over time, the class of their colour, and their name."""

    name: str
    css: str
    values: Sequence[Value]


def _top(largest: float) -> float:
    if largest <= 0:
        return 1.0
    size = 10.0 ** math.floor(math.log10(largest))
    return next(step * size for step in (1, 2, 2.5, 5, 10) if largest <= step * size * 1.0000001)


def _shown(value: Value, unit: str) -> str:
    if value is None:
        return "–"
    if unit == "s":
        return duration(value)
    return f"{compact(round(value, 2))}{unit}"


def _mark(value: float, unit: str) -> str:
    if unit != "s":
        return compact(round(value, 2)) + unit
    if value < 1:
        return f"{value * 1000:g} ms"
    return f"{value:g} s" if value < 600 else f"{value / 60:g} min"


def _title(at: float, series: Sequence[Series], index: int, unit: str) -> str:
    found = clock(at).striptags()
    told = ", ".join(f"{one.name} {_shown(one.values[index], unit)}" for one in series)
    return f"{found} UTC: {told}"


def _figure(
    title: str,
    times: Sequence[float],
    series: Sequence[Series],
    top: float,
    unit: str,
    inner: Markup,
) -> Markup:
    known = [[v for v in one.values if v is not None] for one in series]
    summary = "; ".join(
        f"{one.name}: now {_shown(values[-1], unit)}, highest {_shown(max(values), unit)}"
        for one, values in zip(series, known, strict=True)
        if values
    )
    places = [0, len(times) // 3, 2 * len(times) // 3, len(times) - 1] if len(times) > 3 else []
    axis = Markup("").join(clock(times[place]) for place in places)
    legend = Markup("").join(
        Markup('<li><svg class="key" viewBox="0 0 20 8" aria-hidden="true">{}</svg>{}</li>').format(
            Markup('<rect class="{}" width="20" height="8"/>').format(one.css)
            if one.css.startswith("b-")
            else Markup('<path class="line {}" d="M0 4H20"/>').format(one.css),
            clean(one.name),
        )
        for one in series
    )
    return Markup(
        '<figure class="chart"><figcaption>{}</figcaption><div class="plot">'
        '<div class="y" aria-hidden="true"><span>{}</span><span>{}</span><span>0</span></div>'
        '<svg role="img" aria-label="{}" viewBox="0 0 {} 100" preserveAspectRatio="none">'
        '<path class="grid" d="M0 0.5H{}M0 50H{}M0 99.5H{}"/>{}</svg></div>'
        '<div class="x" aria-hidden="true">{}</div><ul class="legend" aria-hidden="true">{}</ul>'
        "</figure>"
    ).format(
        title, _mark(top, unit), _mark(top / 2, unit), f"{title}. {summary or 'No data'}.",
        *[_width(len(times))] * 4, inner, axis, legend,
    )  # fmt: skip


def hour(points: Sequence[dict[str, float]], now: float) -> list[dict[str, float | None]]:
    """Put points onto the minutes of the last hour; each holds until the next one."""
    last = int(now) // 60 * 60
    known = {int(one["at"]) // 60 * 60: one for one in points}
    found: list[dict[str, float | None]] = []
    held: dict[str, float] = {}
    for at in range(last - 3540, last + 1, 60):
        held = known.get(at, held)
        found.append({**held, "at": at})
    return found


def _width(count: int) -> int:
    return max(1, count) * 10


def bars(title: str, times: Sequence[float], series: Sequence[Series], unit: str = "") -> Markup:
    """Draw values on top of each other."""
    if not times:
        return empty(title)
    sums = [sum(one.values[i] or 0 for one in series) for i in range(len(times))]
    top = _top(max(sums))
    parts = []
    for index, at in enumerate(times):
        y, drawn = HEIGHT, []
        for one in series:
            height = (one.values[index] or 0) / top * HEIGHT
            if height > 0:
                y -= height
                shape = '<rect class="{}" x="{}" y="{:.2f}" width="8" height="{:.2f}"/>'
                drawn.append(Markup(shape).format(one.css, index * 10 + 1, y, height))
        parts.append(_hover(at, series, index, unit, Markup("").join(drawn)))
    return _figure(title, times, series, top, unit, Markup("").join(parts))


def _hover(
    at: float, series: Sequence[Series], index: int, unit: str, inner: Markup | str = ""
) -> Markup:
    return Markup(
        '<g class="point"><rect class="back" x="{}" width="10" height="100"/>{}'
        "<title>{}</title></g>"
    ).format(index * 10, inner, _title(at, series, index, unit))


def lines(
    title: str,
    times: Sequence[float],
    series: Sequence[Series],
    unit: str = "",
    *,
    area: bool = False,
) -> Markup:
    """Draw values as lines; gaps where there is none."""
    known = [v for one in series for v in one.values if v is not None]
    if not times or not known:
        return empty(title)
    top = _top(max(known))
    parts = [_hover(at, series, index, unit) for index, at in enumerate(times)]
    for one in series:
        path = _path(one.values, top)
        if area and path:
            filled = Markup('<path class="area {}" d="{}"/>').format(
                one.css, _filled(one.values, top)
            )
            parts.append(filled)
        parts.append(Markup('<path class="line {}" d="{}"/>').format(one.css, path))
    return _figure(title, times, series, top, unit, Markup("").join(parts))


def _path(values: Sequence[Value], top: float) -> str:
    parts, pen = [], "M"
    for index, value in enumerate(values):
        if value is None:
            pen = "M"
            continue
        parts.append(f"{pen}{index * 10 + 5} {HEIGHT - value / top * HEIGHT:.2f}")
        # A point between two gaps would be a line of no length.
        if pen == "M" and (index + 1 >= len(values) or values[index + 1] is None):
            parts.append("h2")
        pen = "L"
    return "".join(parts)


def _filled(values: Sequence[Value], top: float) -> str:
    points = [(i, v) for i, v in enumerate(values) if v is not None]
    inside = "".join(f"L{i * 10 + 5} {HEIGHT - v / top * HEIGHT:.2f}" for i, v in points)
    return f"M{points[0][0] * 10 + 5} {HEIGHT}{inside}L{points[-1][0] * 10 + 5} {HEIGHT}Z"


def empty(title: str) -> Markup:
    """Draw that there is nothing yet."""
    return Markup(
        '<figure class="chart"><figcaption>{}</figcaption><p class="none">No data yet</p></figure>'
    ).format(title)


def progress(share: float, label: str) -> Markup:
    """Draw how far something is: to be full is good."""
    return _meter(share, label, "b-ok" if share >= 1 else "b-accent")


def meter(share: float, label: str) -> Markup:
    """Draw how full something is: to be full is a warning."""
    return _meter(share, label, "b-bad" if share >= 1 else "b-warn" if share >= 0.8 else "b-accent")


def _meter(share: float, label: str, css: str) -> Markup:
    width = max(0.0, min(1.0, share)) * 100
    return Markup(
        '<svg class="meter" role="img" aria-label="{}" viewBox="0 0 100 8"'
        ' preserveAspectRatio="none">'
        '<rect class="track" width="100" height="8" rx="2"/>'
        '<rect class="{}" width="{:.1f}" height="8" rx="2"/></svg>'
    ).format(escape(clean(label)), css, width)


def quantile(histogram: Sequence[int], share: float) -> float | None:
    """Give a quantile, in seconds, of a histogram whose element i reaches to 2^(i/2) ms."""
    total = sum(histogram)
    if not total:
        return None
    wanted, seen = share * total, 0
    for index, count in enumerate(histogram):
        if count and seen + count >= wanted:
            low = 0.0 if index == 0 else 2.0 ** ((index - 1) / 2)
            high = 2.0 ** (index / 2)
            return float(low + (high - low) * (wanted - seen) / count) / 1000
        seen += count
    return float(2.0 ** ((len(histogram) - 1) / 2)) / 1000

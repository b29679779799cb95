"""How values are shown: times, durations, numbers, names of strangers."""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

import msgspec
from markupsafe import Markup, escape

NOTHING = "–"
LONGEST = 65_536
# What would turn text around or hide in it: shown by its number.
_ODD = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")


def clean(value: Any) -> Any:
    """Make control characters visible; what is None is shown as a dash."""
    if value is None:
        return NOTHING
    if isinstance(value, str) and not isinstance(value, Markup):
        return _ODD.sub(lambda found: f"[U+{ord(found[0]):04X}]", value)
    return value


def as_time(value: Any) -> datetime | None:
    """Read a time: text, seconds since 1970, or a datetime."""
    if value is None or isinstance(value, datetime):
        return value
    try:
        if isinstance(value, int | float):
            return datetime.fromtimestamp(value, UTC)
        return datetime.fromisoformat(str(value)).astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        return None


def iso(value: Any) -> str:
    """Write a time for programs."""
    at = as_time(value)
    return "" if at is None else at.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _utc(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def when(value: Any) -> Markup:
    """Show a time; the browser turns it into the viewer's zone and keeps UTC for the hover."""
    at = as_time(value)
    if at is None:
        return escape(clean(value))
    return Markup('<time datetime="{}" title="{}" data-when>{}</time>').format(
        iso(at), _utc(at), _utc(at)
    )


def clock(value: Any) -> Markup:
    """Show a time of day."""
    at = as_time(value)
    if at is None:
        return escape(clean(value))
    text = at.strftime("%H:%M")
    return Markup('<time datetime="{}" title="{}" data-when="clock">{}</time>').format(
        iso(at), _utc(at), text
    )


def ago(value: Any) -> Markup:
    """Show how long ago, or in how long, a time is."""
    at = as_time(value)
    if at is None:
        return escape(clean(value))
    seconds = (datetime.now(UTC) - at).total_seconds()
    text = f"{_long(seconds)} ago" if seconds > 0 else f"in {_long(-seconds)}"
    if abs(seconds) < 1:
        text = "now"
    return Markup('<time datetime="{}" title="{}" data-when="ago">{}</time>').format(
        iso(at), _utc(at), text
    )


def _long(seconds: float) -> str:
    # As the browser counts on: whole seconds.
    return f"{int(seconds)} s" if seconds < 60 else duration(seconds)


def duration(seconds: float | None) -> str:
    """Write a length of time in its two largest units."""
    if seconds is None:
        return NOTHING
    if seconds < 1:
        ms = seconds * 1000
        if 0 < ms < 0.1:
            return "<0.1 ms"
        return f"{ms:.0f} ms" if ms >= 10 or ms == 0 else f"{ms:.1f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    whole = int(seconds)
    for size, name, small_size, small_name in (
        (86400, "d", 3600, "h"),
        (3600, "h", 60, "min"),
        (60, "min", 1, "s"),
    ):
        if whole >= size:
            rest = whole % size // small_size
            return f"{whole // size} {name}" + (f" {rest} {small_name}" if rest else "")
    return NOTHING


def milliseconds(value: float | None) -> str:
    """Write a length given in milliseconds."""
    return NOTHING if value is None else duration(value / 1000)


def number(value: Any) -> str:
    """Write a number in groups of three."""
    if value is None:
        return NOTHING
    if isinstance(value, float) and not value.is_integer():
        return f"{value:,.1f}".replace(",", "\u202f")
    return f"{int(value):,}".replace(",", "\u202f")


def compact(value: float) -> str:
    """Write a number for an axis."""
    for size, name in ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")):
        if value >= size:
            return f"{value / size:g}{name}"
    return f"{value:g}"


def percent(share: float | None) -> str:
    """Write a share."""
    if share is None:
        return NOTHING
    return f"{share * 100:.1f} %" if 0 < share < 0.1 else f"{share * 100:.0f} %"


def short_id(value: Any) -> str:
    """Write the part of an id by which people tell it from others."""
    text = str(value)
    return f"{text[:8]}…{text[-6:]}" if len(text) == 36 else text


def pretty(raw: Any) -> str:
    """Write JSON on several lines, numbers as they are."""
    text = bytes(raw) if isinstance(raw, msgspec.Raw) else msgspec.json.encode(raw)
    shown = msgspec.json.format(text, indent=2).decode()
    if len(shown) > LONGEST:
        return f"{shown[:LONGEST]}\n… ({len(shown):,} characters in all; the API gives them)"
    return shown


def query(**values: Any) -> str:
    """Write the query of a link; what is None is left out."""
    given = {name: value for name, value in values.items() if value not in (None, "")}
    return "?" + urlencode(given, doseq=True) if given else ""


FILTERS: dict[str, Callable[..., Any]] = {
    "when": when,
    "clock": clock,
    "ago": ago,
    "iso": iso,
    "duration": duration,
    "milliseconds": milliseconds,
    "number": number,
    "percent": percent,
    "short_id": short_id,
    "pretty": pretty,
    "query": lambda values: query(**values),
}

"""When schedules fire: the one calendar, for previews, for creation and for firing alike.

The rules:

- An expression has 5 fields (minute, hour, day of month, month, day of week), or a sixth
  with seconds at its end; or is ``@hourly``, ``@daily``, ``@weekly``, ``@monthly``, ``@yearly``.
- Both day fields restricted: either may match (POSIX crontab). One that begins with ``*``
  restricts without that choice: ``*/2`` with ``MON`` is Mondays on odd dates (Vixie cron).
- A time of day that clocks skip runs at the first instant after the gap.
- One that comes twice runs once, the first time.
- A minute or an hour that begins with ``*`` follows real time: all matching times of a
  repeated hour run. With an hour that begins with ``*``, skipped times are left out.
"""

import re
import threading
from bisect import bisect_left
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from importlib import resources
from itertools import islice
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from croniter import croniter
from croniter.croniter import CroniterBadDateError, CroniterError

from .schema.encode import check_text, shown
from .schema.errors import InvalidInput

MOST_CHARACTERS = 200
NICKNAMES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_EPOCH = datetime(1970, 1, 1)
# No zone changes its clocks twice within this.
_WEEK = 7 * 86400


class _Field(NamedTuple):
    name: str
    least: int
    most: int
    words: tuple[str, ...] = ()


_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_FIELDS = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of month", 1, 31),
    _Field("month", 1, 12, _MONTHS),
    _Field("day of week", 0, 7, _DAYS),
    _Field("second", 0, 59),
)
_PART = re.compile(r"(?:(\*)|([0-9]{1,3}|[a-z]{3})(?:-([0-9]{1,3}|[a-z]{3}))?)(?:/([0-9]{1,3}))?")
_LAST_WEEKDAY = re.compile(r"l([0-7]|[a-z]{3})|([0-7]|[a-z]{3})#([1-5])")


class FireTimes:
    """The fire times of one expression in one zone. Safe in any number of threads.

    Attributes:
        expression: As it was given.
        zone: Name of the zone.
    """

    def __init__(self, expression: str, zone: str) -> None:
        """Check both.

        Raises:
            InvalidInput: The expression is none, or never fires; the zone is not known.
        """
        self.expression, self.zone = expression, zone
        self._tz = _zone(zone)
        fields = _read_expression(expression)
        stars = [field.startswith("*") for field in _split(expression)]
        self._hour_star, self._real_time = stars[1], stars[0] or stars[1]
        self._lock = threading.Lock()
        try:
            self._walls = croniter(
                " ".join(fields), 0.0, ret_type=float, day_or=not (stars[2] or stars[4])
            )
            self._next_wall(0)
        except CroniterBadDateError:
            raise _refused(
                "never fires", expression, "Name a day that one of its months has."
            ) from None
        except CroniterError as error:  # what our own look at the fields did not know of
            raise _refused("is not understood", expression, str(error)) from error

    def after(self, base: datetime) -> datetime:
        """Give the first fire time strictly after an instant, in UTC."""
        base = base.astimezone(UTC)
        second = _seconds(base)
        found = self._real_after(second) if self._real_time else self._fixed_after(second)
        fire = _instant(found)
        if fire <= base:
            raise AssertionError(f"{self.expression} {self.zone}: {fire} is not after {base}")
        return fire

    def upcoming(
        self, base: datetime, start_at: datetime | None = None, end_at: datetime | None = None
    ) -> Iterator[datetime]:
        """Give the fire times after ``base``, none before ``start_at`` or after ``end_at``."""
        if start_at is not None:
            base = max(base, start_at - timedelta(microseconds=1))
        while end_at is None or base < end_at:
            base = self.after(base)
            if end_at is not None and base > end_at:
                return
            yield base

    def latest(self, count: int, after: datetime, until: datetime) -> list[datetime]:
        """Give the last ``count`` fire times in (``after``, ``until``], the earliest first.

        The cost does not grow with the time in between: the right place to
        begin is searched, not walked to.
        """
        first = list(islice(self.upcoming(after, end_at=until), 2))
        if len(first) < 2 or count < 1:
            return first[:count]
        lowest, few = after, until
        start = max(after, until - 2 * count * (first[1] - first[0]))
        while True:
            found = list(islice(self.upcoming(start, end_at=until), 4 * count + 1))
            if len(found) > 4 * count and found[-1] < few:
                lowest = found[-count - 1]  # that many follow it
                start = lowest + (few - lowest) / 2
                if start - lowest < timedelta(seconds=1):
                    found = list(self.upcoming(start, end_at=until))
                    return found[-count:]
            elif len(found) < count and start > lowest:
                few = start
                start = (
                    max(lowest, until - 4 * (until - start))
                    if lowest == after
                    else (lowest + (few - lowest) / 2)
                )
            else:
                return found[-count:]

    # Below, instants are whole seconds since 1970 UTC, walls the same of a local clock.

    def _offset(self, second: int) -> int:
        moment = datetime.fromtimestamp(second, self._tz)
        return int(moment.utcoffset().total_seconds())  # type: ignore[union-attr]

    def _next_wall(self, wall: int) -> int:
        with self._lock:
            self._walls.set_current(float(wall), force=True)
            return int(self._walls.get_next(float))

    def _fixed_after(self, base: int) -> int:
        wall = self._next_wall(base + self._offset(base))
        while True:
            naive = _EPOCH + timedelta(seconds=wall)
            offset = int(naive.replace(tzinfo=self._tz).utcoffset().total_seconds())  # type: ignore[union-attr]
            found = wall - offset
            there = self._offset(found)
            if there != offset:  # skipped by the clocks
                found = self._change(wall - there, found)
            if found > base:
                return found
            # The second time of a repeated hour: what it repeats has run. On to its end.
            change = self._change(found, base)
            wall = self._next_wall(max(wall, change + self._offset(change - 1) - 1))

    def _real_after(self, base: int) -> int:
        offset, seen, start = self._offset(base), base, base + self._offset(base)
        wall = self._next_wall(start)  # none between start and it
        while True:
            change = self._first_change(seen, wall - offset)
            if change is None:
                return wall - offset
            before, offset, seen = offset, self._offset(change), change
            if offset < before and change + offset <= start:
                start = change + offset - 1  # what was before comes again
                wall = self._next_wall(start)
            elif wall < change + offset:
                if not self._hour_star:
                    return change  # a time of day that the clocks skip
                start = change + offset - 1
                wall = self._next_wall(start)

    def _first_change(self, after: int, until: int) -> int | None:
        """Give the first instant in (after, until] at which the offset changes."""
        while after < until:
            step = min(until, after + _WEEK)
            if self._offset(step) != self._offset(after):
                return self._change(after, step)
            after = step
        return None

    def _change(self, after: int, until: int) -> int:
        """Give the second in (after, until] from which on the offset is another than at after."""
        before = self._offset(after)
        return (
            after
            + 1
            + bisect_left(
                range(after + 1, until + 1), True, key=lambda second: self._offset(second) != before
            )
        )


@lru_cache(maxsize=20_000)
def fire_times(expression: str, zone: str) -> FireTimes:
    """Give the fire times of an expression in a zone; see FireTimes for what is refused."""
    return FireTimes(expression, zone)


def preview(
    expression: str,
    zone: str,
    base: datetime,
    count: int,
    start_at: datetime | None = None,
    end_at: datetime | None = None,
) -> list[datetime]:
    """Give the next ``count`` fire times after ``base``, in UTC.

    Raises:
        InvalidInput: The expression is none, or never fires; the zone is not known.
    """
    times = fire_times(expression, zone).upcoming(base, start_at, end_at)
    return list(islice(times, count))


def first_fire(
    expression: str,
    zone: str,
    base: datetime,
    start_at: datetime | None = None,
    end_at: datetime | None = None,
) -> datetime:
    """Give the first fire time after ``base``.

    Raises:
        InvalidInput: There is none, or the expression or the zone is refused.
    """
    found = preview(expression, zone, base, 1, start_at, end_at)
    if not found:
        raise _refused("never fires before end_at", expression, "Give a later end_at, or none.")
    return found[0]


@lru_cache(maxsize=1)
def zone_names() -> frozenset[str]:
    """Give the zones that schedules may name: those of IANA's database."""
    text = resources.files("tzdata").joinpath("zones").read_text(encoding="utf-8")
    return frozenset(text.split()) - {"Factory", "localtime", "posixrules"}


def _zone(name: str) -> tzinfo:
    check_text("timezone", name)
    try:
        if name in zone_names():
            return ZoneInfo(name)
    except (ZoneInfoNotFoundError, OSError):
        pass
    same = next((known for known in zone_names() if known.lower() == name.lower()), None)
    raise InvalidInput(
        "timezone is not known.",
        "timezone",
        shown(name),
        f"It is written {same}." if same else "Give an IANA name such as Europe/Berlin or UTC.",
    )


def _split(expression: str) -> list[str]:
    text = check_text("cron_expression", expression)
    if len(text) > MOST_CHARACTERS:
        raise _refused("is too long", text, f"Give at most {MOST_CHARACTERS} characters.")
    fields = NICKNAMES.get(text.strip().lower(), text).lower().split()
    if len(fields) not in (5, 6):
        raise _refused(
            f"has {len(fields)} fields",
            text,
            "Give 5 (minute, hour, day of month, month, day of week), 6 with seconds last, "
            f"or one of {', '.join(NICKNAMES)}.",
        )
    return fields


def _read_expression(expression: str) -> list[str]:
    fields = zip(_FIELDS, _split(expression), strict=False)
    read = [_read_field(field, value, expression) for field, value in fields]
    if re.search("[#l]", read[4]) and read[2] != "*":
        raise _refused(
            "has both a day of month and a numbered day of week",
            expression,
            "Write * for the day of month, or make two schedules.",
        )
    return read


def _read_field(field: _Field, value: str, expression: str) -> str:
    parts = [_read_part(field, part, expression) for part in value.split(",")]
    numbered = [bool(re.search("[#l]", part)) for part in parts]
    if field.name == "day of week" and len(set(numbered)) > 1:
        raise _refused(
            "mixes numbered and plain days of week", expression, "Make two schedules of it."
        )
    return ",".join(parts)


def _read_part(field: _Field, part: str, expression: str) -> str:
    if field.name == "day of month" and part == "l":
        return part
    if field.name == "day of week" and (special := _LAST_WEEKDAY.fullmatch(part)):
        last, day, number = special.groups()
        which = _number(field, last or day, expression)
        return f"l{which}" if last else f"{which}#{number}"
    found = _PART.fullmatch(part)
    if found is None:
        raise _refused(
            f"has a part for the {field.name} that is not understood: {part[:40] or 'nothing'}",
            expression,
            "Give numbers, ranges such as 1-5, steps such as */10, with commas between them.",
        )
    star, first, last, step = found.groups()
    low, high = (field.least, field.most) if star else (_number(field, first, expression), None)
    if last:
        high = _number(field, last, expression)
        if high == 0 < low and field.name == "day of week":
            high = 7  # FRI-SUN
        if high < low:
            raise _refused(
                f"has a range for the {field.name} that ends before it begins: {part}",
                expression,
                f"Write it as two, such as {low}-{field.most},{field.least}-{high}.",
            )
    width = field.most - field.least
    if step is not None and not 1 <= int(step) <= width:
        raise _refused(
            f"has the {field.name} step {step}", expression, f"Give a step from 1 to {width}."
        )
    if star and step is None:
        return "*"
    # Value by value: croniter takes 5-5 for everything.
    high = high if high is not None else low if step is None else field.most
    days = field.name == "day of week"
    values = sorted({n % 7 if days else n for n in range(low, high + 1, int(step or 1))})
    return ",".join(map(str, values))


def _number(field: _Field, text: str, expression: str) -> int:
    if text in field.words:
        return field.words.index(text) + field.least
    if text.isdecimal() and field.least <= int(text) <= field.most:
        return int(text)
    raise _refused(
        f"has the {field.name} {text}",
        expression,
        f"Give {field.least} to {field.most}"
        + (f", or {field.words[0].upper()} and so on." if field.words else "."),
    )


def _refused(what: str, expression: str, remedy: str) -> InvalidInput:
    return InvalidInput(f"cron_expression {what}.", "cron_expression", shown(expression), remedy)


def _seconds(moment: datetime) -> int:
    return (moment.replace(tzinfo=None) - _EPOCH) // timedelta(seconds=1)


def _instant(second: int) -> datetime:
    return (_EPOCH + timedelta(seconds=second)).replace(tzinfo=UTC)

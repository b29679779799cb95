"""Fire times agree with a model that looks at every minute."""

from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from hypothesis import given, settings
from hypothesis import strategies as st

from skiplane import InvalidInput
from skiplane.firetimes import FireTimes, zone_names

MINUTE = timedelta(minutes=1)
WINDOW = timedelta(days=1)
# Around these instants clocks change: by one hour, by half of one, by two, at midnight,
# by a day, twice within a month; and not at all.
CHANGES = [
    ("America/New_York", "2026-03-08T07:00"), ("America/New_York", "2026-11-01T06:00"),
    ("Europe/Berlin", "2026-03-29T01:00"), ("Europe/Berlin", "2026-10-25T01:00"),
    ("Australia/Lord_Howe", "2026-04-04T15:00"), ("Australia/Lord_Howe", "2026-10-03T15:30"),
    ("Antarctica/Troll", "2026-03-29T01:00"), ("Antarctica/Troll", "2026-10-25T01:00"),
    ("Asia/Beirut", "2026-03-28T22:00"), ("Asia/Beirut", "2026-10-24T21:00"),
    ("America/Sao_Paulo", "2018-11-04T03:00"), ("America/Sao_Paulo", "2018-02-18T02:00"),
    ("Pacific/Apia", "2011-12-30T10:00"), ("Africa/Casablanca", "2026-02-15T02:00"),
    ("Africa/Casablanca", "2026-03-22T02:00"), ("Asia/Kathmandu", "2026-01-01T00:00"),
    ("America/St_Johns", "2010-03-14T03:31"), ("America/St_Johns", "2010-11-07T02:31"),
    ("UTC", "2026-02-28T12:00"),
]  # fmt: skip


class Field(NamedTuple):
    text: str
    values: frozenset[int]


def fields(least: int, most: int) -> st.SearchStrategy[Field]:
    number = st.integers(least, most)
    step = st.integers(1, most - least)
    everything = frozenset(range(least, most + 1))

    def ranged(ends: tuple[int, int], by: int | None) -> Field:
        low, high = sorted(ends)
        text = f"{low}-{high}" + (f"/{by}" if by else "")
        return Field(text, frozenset(range(low, high + 1, by or 1)))

    some = st.lists(number, min_size=1, max_size=4).map(
        lambda ns: Field(",".join(map(str, ns)), frozenset(ns))
    )
    return st.one_of(
        st.just(Field("*", everything)),
        step.map(lambda by: Field(f"*/{by}", frozenset(range(least, most + 1, by)))),
        some,
        st.builds(ranged, st.tuples(number, number), st.none() | step),
    )


class Model(NamedTuple):
    minute: Field
    hour: Field
    day: Field
    month: Field
    weekday: Field

    @property
    def expression(self) -> str:
        return " ".join(field.text for field in self)

    def matches(self, wall: datetime) -> bool:
        by_day = wall.day in self.day.values
        by_weekday = bool({wall.isoweekday() % 7, wall.isoweekday()} & self.weekday.values)
        either = not (self.day.text.startswith("*") or self.weekday.text.startswith("*"))
        return (
            wall.minute in self.minute.values
            and wall.hour in self.hour.values
            and wall.month in self.month.values
            and ((by_day or by_weekday) if either else (by_day and by_weekday))
        )

    def fires(self, instant: datetime, zone: ZoneInfo) -> bool:
        local = instant.astimezone(zone)
        wall = local.replace(tzinfo=None, fold=0)
        hour_star = self.hour.text.startswith("*")
        if self.matches(wall) and (
            local.fold == 0 or hour_star or self.minute.text.startswith("*")
        ):
            return True
        before = (instant - MINUTE).astimezone(zone).replace(tzinfo=None, fold=0) + MINUTE
        if hour_star or before >= wall:
            return False
        skipped = (wall - before) // MINUTE
        return any(self.matches(before + n * MINUTE) for n in range(skipped))


def fire_times_or_none(expression: str, zone: str) -> FireTimes | None:
    try:
        return FireTimes(expression, zone)
    except InvalidInput as error:
        if "never fires" in error.message:
            return None
        raise


models = st.builds(Model, fields(0, 59), fields(0, 23), fields(1, 31), fields(1, 12), fields(0, 7))
starts = st.tuples(st.sampled_from(CHANGES), st.integers(-86400, 3600))


@settings(max_examples=200, deadline=None)
@given(model=models, start=starts)
def test_fires_are_those_of_a_model_that_looks_at_every_minute(
    model: Model, start: tuple[tuple[str, str], int]
):
    (zone, change), seconds = start
    base = datetime.fromisoformat(change).replace(tzinfo=UTC) + timedelta(seconds=seconds)
    tz = ZoneInfo(zone)
    first = base.replace(second=0) + MINUTE
    expected = [
        first + n * MINUTE for n in range(WINDOW // MINUTE) if model.fires(first + n * MINUTE, tz)
    ]
    times = fire_times_or_none(model.expression, zone)
    if times is None:
        assert expected == []
        return
    end = first + WINDOW - MINUTE
    assert list(times.upcoming(base, end_at=end)) == expected


@settings(max_examples=300, deadline=None)
@given(
    model=models,
    seconds=st.none() | fields(0, 59),
    zone=st.sampled_from(sorted(zone_names())),
    base=st.datetimes(datetime(1970, 1, 2), datetime(2100, 1, 1), timezones=st.just(UTC)),
)
def test_next_fire_is_strictly_later(
    model: Model, seconds: Field | None, zone: str, base: datetime
):
    times = fire_times_or_none(f"{model.expression} {seconds.text if seconds else ''}", zone)
    if times is None:
        return
    for _ in range(3):
        following = times.after(base)
        assert following > base
        base = following

"""When schedules fire: tables of expected times."""
# ruff: noqa: E501 - tables

import os
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from skiplane import InvalidInput
from skiplane.firetimes import FireTimes, first_fire, preview, zone_names

NEW_YORK = "America/New_York"
BERLIN = "Europe/Berlin"


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


# expression, zone, base, the fires after it
GAPS = [
    ("30 2 * * *", NEW_YORK, "2026-03-07T06:59", "2026-03-07T07:30 2026-03-08T07:00 2026-03-09T06:30"),
    ("0 2 * * *", NEW_YORK, "2026-03-07T06:59", "2026-03-07T07:00 2026-03-08T07:00 2026-03-09T06:00"),
    ("30 2 * * *", NEW_YORK, "2026-03-08T06:30", "2026-03-08T07:00 2026-03-09T06:30"),
    ("30 2 * * *", NEW_YORK, "2026-03-08T07:00", "2026-03-09T06:30 2026-03-10T06:30"),
    ("30 2 * * *", BERLIN, "2026-03-28T00:00", "2026-03-28T01:30 2026-03-29T01:00 2026-03-30T00:30"),
    ("0,30 2,3 * * *", BERLIN, "2026-03-28T22:00", "2026-03-29T01:00 2026-03-29T01:30 2026-03-30T00:00"),
    # Half an hour of gap, and a gap at midnight.
    ("15 2 * * *", "Australia/Lord_Howe", "2026-10-02T16:00", "2026-10-03T15:30 2026-10-04T15:15"),
    ("0 0 * * *", "Asia/Beirut", "2026-03-27T23:00", "2026-03-28T22:00 2026-03-29T21:00"),
    ("0 0 * * *", "America/Sao_Paulo", "2018-11-03T12:00", "2018-11-04T03:00 2018-11-05T02:00"),
    # A whole day was left out.
    ("0 12 * * *", "Pacific/Apia", "2011-12-29T12:00", "2011-12-29T22:00 2011-12-30T10:00 2011-12-30T22:00"),
    # The hour is fixed, so the time of day does not exist; the hour is free, so nothing is missing.
    ("*/15 2 * * *", NEW_YORK, "2026-03-08T05:00", "2026-03-08T07:00 2026-03-09T06:00"),
    ("30 * * * *", NEW_YORK, "2026-03-08T06:00", "2026-03-08T06:30 2026-03-08T07:30"),
]  # fmt: skip
REPEATED = [
    ("0 2 * * *", BERLIN, "2026-10-23T12:00", "2026-10-24T00:00 2026-10-25T00:00 2026-10-26T01:00"),
    ("30 1 * * *", NEW_YORK, "2026-10-31T05:00", "2026-10-31T05:30 2026-11-01T05:30 2026-11-02T06:30"),
    ("30 1 * * *", NEW_YORK, "2026-11-01T05:45", "2026-11-02T06:30"),
    ("30 1 * * *", NEW_YORK, "2026-11-01T06:15", "2026-11-02T06:30"),
    ("0-59 1 * * * */30", NEW_YORK, "2026-11-01T06:15", "2026-11-02T06:00:00 2026-11-02T06:00:30"),
    ("0 * * * *", NEW_YORK, "2026-11-01T04:30", "2026-11-01T05:00 2026-11-01T06:00 2026-11-01T07:00"),
    ("*/30 1 * * *", NEW_YORK, "2026-11-01T05:15", "2026-11-01T05:30 2026-11-01T06:00 2026-11-01T06:30"),
    ("30 1 * * *", "UTC", "2026-10-25T00:00", "2026-10-25T01:30 2026-10-26T01:30"),
    ("45 1 * * *", "Australia/Lord_Howe", "2026-04-03T16:00", "2026-04-04T14:45 2026-04-05T15:15"),
]  # fmt: skip
GRAMMAR = [
    ("0 0 * * 7", "UTC", "2026-01-01", "2026-01-04 2026-01-11"),
    ("0 0 * * SUN", "UTC", "2026-01-01", "2026-01-04 2026-01-11"),
    ("0 0 * * fri-sun", "UTC", "2026-01-01", "2026-01-02 2026-01-03 2026-01-04 2026-01-09"),
    (" 0  0\t* * * ", "UTC", "2026-01-01", "2026-01-02 2026-01-03"),
    ("@daily", "UTC", "2026-01-01", "2026-01-02 2026-01-03"),
    ("@Hourly", "UTC", "2026-01-01", "2026-01-01T01:00 2026-01-01T02:00"),
    ("@weekly", "UTC", "2026-01-01", "2026-01-04 2026-01-11"),
    ("@yearly", "UTC", "2026-01-01", "2027-01-01 2028-01-01"),
    ("0 0 L * *", "UTC", "2026-01-01", "2026-01-31 2026-02-28 2026-03-31"),
    ("0 0 * * L5", "UTC", "2026-01-01", "2026-01-30 2026-02-27"),
    ("0 0 * * MON#1,TUE#2", "UTC", "2026-01-01", "2026-01-05 2026-01-13 2026-02-02"),
    ("0 0 29 2 *", "UTC", "2026-01-01", "2028-02-29 2032-02-29"),
    ("0 0 29 2 */7", "UTC", "2026-01-01", "2032-02-29 2060-02-29"),
    ("0 0 30 2 1", "UTC", "2026-01-01", "2026-02-02 2026-02-09 2026-02-16 2026-02-23 2027-02-01"),
    ("0 0 1 JAN-MAR *", "UTC", "2026-01-15", "2026-02-01 2026-03-01 2027-01-01"),
    ("0 22 * * 1-5", BERLIN, "2026-01-02T21:00", "2026-01-05T21:00"),
    ("59 23 31 12 * 58", "UTC", "2026-01-01", "2026-12-31T23:59:58"),
    ("* * * * * */20", "UTC", "2026-01-01", "2026-01-01T00:00:20 2026-01-01T00:00:40 2026-01-01T00:01"),
    ("0 0 * * *", "Asia/Kathmandu", "2026-01-01", "2026-01-01T18:15"),
    ("0 0 * * *", "Etc/GMT+3", "2026-01-01", "2026-01-01T03:00"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("expression", "zone", "base", "expected"), [*GAPS, *REPEATED, *GRAMMAR], ids=lambda x: x[:24]
)
def test_fires_are_those_of_the_table(expression: str, zone: str, base: str, expected: str):
    times = [at(text) for text in expected.split()]
    assert preview(expression, zone, at(base), len(times)) == times


def test_frequent_schedule_follows_real_time_through_the_repeated_hour():
    base, end = at("2026-11-01T03:59"), at("2026-11-01T08:00")
    times = list(FireTimes("*/15 * * * *", NEW_YORK).upcoming(base, end_at=end))
    assert len(times) == 17
    assert {b - a for a, b in pairwise(times)} == {timedelta(minutes=15)}


# expression, how many fires 2026 has, the first days
YEARS = [
    ("0 0 13 * 5", 61, "01-02 01-09 01-13"),
    ("0 0 1 * 1", 63, "01-01 01-05 01-12 01-19 01-26 02-01"),
    ("0 9 1-31 * 1", 365, "01-01 01-02"),
    ("0 9 */2 * 1", 26, "01-05 01-19"),
    ("0 0 * * 5", 52, "01-02 01-09"),
    ("0 0 13 * *", 12, "01-13 02-13"),
]


@pytest.mark.parametrize(("expression", "count", "days"), YEARS)
def test_days_of_month_and_week_are_either_unless_one_begins_with_a_star(
    expression: str, count: int, days: str
):
    base, end = at("2025-12-31T23:59:59"), at("2026-12-31T23:59:59")
    times = list(FireTimes(expression, "UTC").upcoming(base, end_at=end))
    assert len(times) == count
    assert [f"{fire:%m-%d}" for fire in times][: len(days.split())] == days.split()


@pytest.mark.parametrize(
    "expression", ["0 0 30 2 *", "0 0 31 4 *", "0 0 31 2,4,6,9,11 *", "0 0 30 2 */2"]
)
def test_expression_that_never_fires_is_refused_at_once(expression: str):
    began = time.perf_counter()
    with pytest.raises(InvalidInput, match="never fires"):
        FireTimes(expression, "UTC")
    assert time.perf_counter() - began < 1


def test_end_before_the_first_fire_is_never():
    with pytest.raises(InvalidInput, match="never fires before end_at"):
        first_fire("0 0 1 1 *", "UTC", at("2026-02-01"), end_at=at("2026-12-31"))


BAD = [
    "*/0 * * * *", "5-5/0 * * * *", "5-3/2 * * * *", "0 12 * * 1,5-3/2", "60 * * * *", "* 24 * * *",
    "* * 0 * *", "* * 32 * *", "* * * 13 *", "* * * 0 *", "* * * * 8", "*/60 * * * *", "1,,2 * * * *",
    "", "   ", "* * * *", "* * * * * * *", "* * * * * 60", "* * * * *; drop table x", "１ * * * *",
    "٣ * * * *", "1," * 5000 + "1 * * * *", "R * * * *", "H * * * *", "@reboot", "@every 5m",
    "0 0 13 * 5#2", "0 0 13 * L5", "0 0 * * 1,5#3", "0 0 * * 5#6", "0 0 1W * *", "0 0 * * MON-",
    "-1 * * * *", "1.5 * * * *", "+1 * * * *", "0 0 * * \x00", "0 0 * * \ud800", "0 0 ? * 1",
    "0 0 * * FEB", "*-5 * * * *", "1--5 * * * *", "0 0 * * L", "0 0 L-3 * *",
]  # fmt: skip


@pytest.mark.parametrize("expression", BAD, ids=lambda text: ascii(text[:20]))
def test_bad_expression_is_refused_with_its_field_and_a_remedy(expression: str):
    began = time.perf_counter()
    with pytest.raises(InvalidInput) as refused:
        FireTimes(expression, "UTC")
    assert time.perf_counter() - began < 0.1
    assert refused.value.field == "cron_expression"
    assert refused.value.remedy


def test_refusal_names_the_part_at_fault():
    with pytest.raises(InvalidInput, match="the hour 24"):
        FireTimes("0 24 * * *", "UTC")


@pytest.mark.parametrize(
    "zone",
    ["UTC+3", "+03:00", "FOO+3", "GMT-5", "CST", "IST", "america/new_york", "Americas/New_York",
     "", "localtime", "posixrules", "Factory", "../../etc/passwd", "Europe/Berlin\x00", "/etc/passwd"],
)  # fmt: skip
def test_zone_that_is_no_iana_name_is_refused(zone: str):
    with pytest.raises(InvalidInput) as refused:
        FireTimes("0 0 * * *", zone)
    assert refused.value.field == "timezone"


def test_zone_in_the_wrong_case_is_refused_with_the_right_one():
    with pytest.raises(InvalidInput, match="America/New_York"):
        FireTimes("0 0 * * *", "america/new_york")


def test_zones_are_known_where_the_system_has_none():
    code = (
        "from datetime import UTC, datetime; from skiplane.firetimes import preview;"
        f"print(*preview('30 2 * * *', '{BERLIN}', datetime(2026, 3, 28, tzinfo=UTC), 2))"
    )
    said = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONTZPATH": ""},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert said.stdout == "2026-03-28 01:30:00+00:00 2026-03-29 01:00:00+00:00\n"


def test_every_iana_zone_is_accepted():
    assert len(zone_names()) > 400
    for zone in zone_names():
        assert first_fire("0 12 * * *", zone, at("2026-06-15")) > at("2026-06-15")


def test_start_is_a_fire_and_so_is_the_end():
    start, end = at("2026-01-01T10:00"), at("2026-01-01T12:00")
    times = preview("0 * * * *", "UTC", at("2025-01-01"), 10, start, end)
    assert times == [start, at("2026-01-01T11:00"), end]


def test_fraction_of_a_second_is_before_the_next_second():
    assert first_fire("* * * * * *", "UTC", at("2026-01-01T00:00:00.999999")) == at(
        "2026-01-01T00:00:01"
    )


@pytest.mark.parametrize("count", [1, 3, 100])
@pytest.mark.parametrize(
    ("expression", "zone"),
    [("* * * * *", "UTC"), ("*/7 3 * * *", BERLIN), ("* * 1 1 *", "UTC"), ("0 0 29 2 *", "UTC")],
)
def test_latest_are_the_last_that_a_walk_finds(expression: str, zone: str, count: int):
    times = FireTimes(expression, zone)
    after, until = at("2025-12-30T00:00"), at("2026-01-03T12:00:30")
    walked = list(times.upcoming(after, end_at=until))
    assert times.latest(count, after, until) == walked[-count:]


def test_latest_of_a_one_second_schedule_after_three_days_costs_next_to_nothing():
    times = FireTimes("* * * * * *", "UTC")
    until = at("2026-01-04T00:00:00.5")
    began = time.perf_counter()
    assert times.latest(3, at("2026-01-01"), until) == [
        at("2026-01-03T23:59:58"),
        at("2026-01-03T23:59:59"),
        at("2026-01-04T00:00:00"),
    ]
    assert time.perf_counter() - began < 0.1

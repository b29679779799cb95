"""Options: their names, values and refusals."""

import json
import math
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from skiplane import InvalidInput
from skiplane.schema.options import read_options


def test_python_names_become_the_engines() -> None:
    given = {"delay": 60, "timeout": timedelta(minutes=5), "retry_delay": 1.5, "max_retries": 0}
    assert read_options(given) == {
        "delay_seconds": 60.0,
        "timeout_seconds": 300.0,
        "retry_delay_seconds": 1.5,
        "max_retries": 0,
    }


def test_the_engines_names_are_understood_too() -> None:
    assert read_options({"timeout_seconds": 5}) == {"timeout_seconds": 5.0}


def test_one_option_under_two_names_is_refused() -> None:
    with pytest.raises(InvalidInput, match="timeout_seconds and timeout are one option"):
        read_options({"timeout": 5, "timeout_seconds": 5})


def test_a_stronger_layer_wins_and_none_takes_back() -> None:
    assert read_options({"timeout": 5, "queue": "a"}, {"timeout_seconds": None, "queue": "b"}) == {
        "queue": "b"
    }


def test_an_unknown_option_is_a_type_error_that_names_the_known() -> None:
    with pytest.raises(TypeError, match=r"'retries' is no option.*max_retries"):
        read_options({"retries": 3})


def test_metadata_is_merged_and_holds_the_tenant() -> None:
    read = read_options({"metadata": {"a": 1}}, {"metadata": {"b": 2}, "tenant": "acme"})
    assert json.loads(read["metadata"]) == {"a": 1, "b": 2, "tenant_id": "acme"}


def test_two_different_tenants_are_refused() -> None:
    with pytest.raises(InvalidInput, match="differ"):
        read_options({"tenant": "a", "metadata": {"tenant_id": "b"}})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("delay", math.nan),
        ("delay", math.inf),
        ("delay", 10**400),
        ("delay", "60"),
        ("delay", True),
        ("max_retries", 1.5),
        ("max_retries", True),
        ("max_retries", 2**31),
        ("queue", 5),
        ("queue", "a\x00b"),
        ("queue", "\ud800"),
        ("metadata", [1]),
        ("metadata", {"a": math.nan}),
        ("scheduled_at", "2026-07-01T09:00:00Z"),
        ("scheduled_at", datetime(2026, 7, 1, 9)),
        ("expires_at", datetime.min.replace(tzinfo=timezone(timedelta(hours=1)))),
        ("tenant", 7),
    ],
)
def test_a_bad_value_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(InvalidInput) as refusal:
        read_options({name: value})
    assert refusal.value.field is not None
    assert refusal.value.field.startswith(name)
    assert refusal.value.value


def test_a_naive_time_is_refused_with_a_remedy() -> None:
    with pytest.raises(InvalidInput, match=r"no time zone.*aware datetime"):
        read_options({"scheduled_at": datetime(2026, 7, 1, 9)})


def test_the_second_half_past_one_is_its_own_instant() -> None:
    # PEP 495: clocks in New York go back at 02:00 EDT on 2026-11-01.
    autumn = datetime(2026, 11, 1, 1, 30, tzinfo=ZoneInfo("America/New_York"))
    first, second = autumn, autumn.replace(fold=1)
    assert read_options({"scheduled_at": first}) == {
        "scheduled_at": datetime(2026, 11, 1, 5, 30, tzinfo=UTC)
    }
    assert read_options({"scheduled_at": second}) == {
        "scheduled_at": datetime(2026, 11, 1, 6, 30, tzinfo=UTC)
    }

"""What can be a payload, and what is refused before anything is sent."""

import dataclasses
import enum
import json
import math
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec
import pytest

from skiplane import InvalidInput
from skiplane.schema.encode import MAX_DEPTH, decode_json, encode_json


@dataclasses.dataclass
class Point:
    x: float
    y: float


class Mail(msgspec.Struct):
    to: str
    weight: float


class Colour(enum.Enum):
    RED = "red"


class Safe(str):
    """Like Django's SafeString."""


class Float64(float):
    """Like numpy's."""


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value",
    [None, True, 5, "text", [], [1], {}, {"a": None}, {"a": "\\u0000"}, 10**299, nested(MAX_DEPTH)],
)
def test_json_values_pass_as_they_are(value: Any) -> None:
    assert json.loads(encode_json(value)) == value


@pytest.mark.parametrize(
    ("value", "json_form"),
    [
        (datetime(2026, 7, 1, 9, tzinfo=UTC), "2026-07-01T09:00:00Z"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (Decimal("1.10"), "1.10"),
        (b"ab", "YWI="),
        (Colour.RED, "red"),
        (Point(1.0, 2.0), {"x": 1.0, "y": 2.0}),
        (Mail("a", 1.0), {"to": "a", "weight": 1.0}),
        (Safe("x"), "x"),
        (Float64(1.5), 1.5),
        ((1, 2), [1, 2]),
        ({"k": Safe("x"), "n": None}, {"k": "x", "n": None}),
    ],
)
def test_python_values_have_a_json_form(value: Any, json_form: Any) -> None:
    assert json.loads(encode_json(value)) == json_form


@pytest.mark.parametrize(
    ("value", "field", "says"),
    [
        ({"a": math.nan}, "payload.a", "nan"),
        ({"a": [1, {"b": -math.inf}]}, "payload.a[1].b", "-inf"),
        ({"a": None, "b": [Float64("nan")]}, "payload.b[0]", "nan"),
        ({"p": Point(math.nan, 1)}, "payload.p.x", "nan"),
        ({"m": Mail("a", math.inf)}, "payload.m.weight", "inf"),
        ({"a": "x\x00y"}, "payload.a", "NUL"),
        ({"a": {"b": {"c": {"d": ["x\x00"]}}}}, "payload.a.b.c.d[0]", "NUL"),
        ({"x\x00": 1}, "payload (a key)", "NUL"),
        ({"a": "\ud800"}, "payload.a", "surrogate"),
        ({"a": 10**5000}, "payload.a", "digits"),
        ({"a": object()}, "payload.a", "object"),
        ({"a": 1j}, "payload.a", "complex"),
        (nested(MAX_DEPTH + 1), "payload", "levels"),
        (nested(100_000), "payload", "levels"),
    ],
)
def test_what_cannot_be_stored_is_refused_by_its_place(value: Any, field: str, says: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        encode_json(value)
    assert refusal.value.field == field
    assert says in str(refusal.value)
    assert refusal.value.remedy


def test_the_value_in_an_error_is_short_and_printable() -> None:
    with pytest.raises(InvalidInput) as refusal:
        encode_json({"a": "\ud800" * 1000})
    assert refusal.value.value is not None
    assert len(refusal.value.value) <= 100
    refusal.value.value.encode()


def test_a_number_that_no_float_holds_is_read_as_infinity() -> None:
    assert decode_json("[1e400, 2]") == [math.inf, 2]

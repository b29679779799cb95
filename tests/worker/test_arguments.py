"""From payloads to arguments."""

import json
from typing import Any

import msgspec
import pytest

from skiplane.worker.arguments import Arguments, InvalidPayload


class Item(msgspec.Struct):
    """A part of a payload."""

    name: str
    amount: int = 1


def one(value: Any) -> None: ...
def typed(to: str, count: int = 3, *, tags: list[str] | None = None) -> None: ...
def rest(first: int, **more: Any) -> None: ...
def nested(item: Item) -> None: ...
def nothing() -> None: ...
def quoted(value: "int") -> None: ...
def unknown_name(value: "NoSuchType") -> None: ...  # type: ignore[name-defined]  # noqa: F821


@pytest.mark.parametrize(
    ("function", "payload", "expected"),
    [
        (one, {"value": [1]}, (([1],), {})),
        (one, None, ((None,), {})),
        (one, [1, 2], (([1, 2],), {})),
        (typed, {"to": "a"}, (("a", 3), {"tags": None})),
        (typed, {"to": "a", "count": 1, "tags": ["b"]}, (("a", 1), {"tags": ["b"]})),
        (typed, "a", (("a",), {})),
        (rest, {"first": 1, "b": 2, "c": [3]}, ((1,), {"b": 2, "c": [3]})),
        (nested, {"item": {"name": "a"}}, ((Item("a"),), {})),
        (nothing, {}, ((), {})),
        (quoted, {"value": 1}, ((1,), {})),
        (unknown_name, {"value": 1}, ((1,), {})),
    ],
)
def test_a_payload_becomes_arguments(function: Any, payload: Any, expected: Any):
    arguments = Arguments(function, takes_context=False)
    assert arguments.bind(payload) == expected
    assert arguments.bind_json(json.dumps(payload).encode()) == expected
    assert arguments.bind_json(b" \n" + json.dumps(payload).encode()) == expected


@pytest.mark.parametrize(
    ("function", "payload", "part"),
    [
        (typed, {"to": 1}, r"\$\.to"),
        (typed, {}, "to"),
        (typed, {"to": "a", "other": 1}, "other"),
        (nested, {"item": {"name": "a", "amount": "b"}}, r"\$\.item\.amount"),
        (rest, {"first": "a"}, r"\$\.first"),
        (nothing, [1], "positional"),
        (nothing, {"a": 1}, "a"),
    ],
)
def test_what_does_not_fit_names_the_field(function: Any, payload: Any, part: str):
    arguments = Arguments(function, takes_context=False)
    with pytest.raises(InvalidPayload, match=part):
        arguments.bind(payload)
    with pytest.raises(InvalidPayload, match=part):
        arguments.bind_json(json.dumps(payload).encode())


def test_the_context_is_no_part_of_the_payload():
    def function(ctx: Any, to: str) -> None: ...

    assert Arguments(function, takes_context=True).bind({"to": "a"}) == (("a",), {})


def test_numbers_out_of_range_are_refused():
    with pytest.raises(InvalidPayload):
        Arguments(one, takes_context=False).bind_json(b'{"value": 1e400}')
    with pytest.raises(InvalidPayload):
        Arguments(one, takes_context=False).bind_json(b'{"value": ' + b"9" * 5000 + b"}")

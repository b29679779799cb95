"""Saying what is wrong in a document: which field, which value, what would be right."""

import re
from typing import Any, get_args, get_origin, get_type_hints

import msgspec

from ..schema.encode import shown
from .problems import Problem, invalid

_PLACE = re.compile(r" - at `\$\.?(.*)`$")


def blame(message: str, raw: bytes, where: str, kind: Any) -> Problem:
    """Give the problem of a document that is not what was wanted.

    Args:
        message: What the decoder said.
        raw: The document.
        where: What it is: the body, or a field of it.
        kind: What was wanted.
    """
    found = _PLACE.search(message)
    path = _counted(found[1], raw, kind) if found else ""
    text = message[: found.start()] if found else message
    place = path if where == "body" else f"{where}.{path}".replace(".[", "[").rstrip(".")
    unknown = re.search(r"unknown field `(.*)`", text)
    missing = re.search(r"missing required field `(.*)`", text)
    if name := unknown or missing:
        field = f"{place}.{name[1]}" if place else name[1]
        remedy = "Leave it out." if unknown else "Give it."
        return invalid(f"{field} is {'unknown' if unknown else 'missing'}.", field, None, remedy)
    field = place or where
    if "out of range" in text:
        remedy = "Give numbers below 1e300, larger ones as text."
        return invalid(f"{field} is too large a number.", field, None, remedy)
    # The message says what was expected, which is the remedy.
    expected = text.partition(", got")[0]
    remedy = f"Give {expected[9:]}." if expected.startswith("Expected ") else f"{expected}."
    return invalid(f"{text}.", field, _value_at(raw, path), remedy.replace("`", ""))


def _value_at(raw: bytes, path: str) -> str | None:
    """Give what stands at a place such as ``tasks[3].max_retries``; [...] stands for any."""
    try:
        value = msgspec.json.decode(raw)
        for part in re.findall(r"[^.\[\]]+", path):
            if part == "...":
                return None
            value = value[int(part)] if isinstance(value, list) else value[part]
    except (msgspec.DecodeError, RecursionError, KeyError, IndexError, TypeError, ValueError):
        return None
    return shown(value)


def _counted(path: str, raw: bytes, kind: Any) -> str:
    """Put the number into a path such as ``tasks[...].queue``: the decoder does not tell it."""
    name, dots, rest = path.partition("[...]")
    item = _item_type(kind, name) if dots else None
    if item is None:
        return path
    try:
        fields = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
        items = msgspec.json.decode(fields[name], type=list[msgspec.Raw])
    except (msgspec.DecodeError, KeyError):
        return path
    decoder = msgspec.json.Decoder(item)
    for index, one in enumerate(items):
        try:
            decoder.decode(one)
        except msgspec.DecodeError:
            return f"{name}[{index}]{rest}"
    return path


def _item_type(kind: Any, name: str) -> Any:
    """Give what a list of a struct holds, None when there is no such list."""
    if not (isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
        return None
    hint = get_type_hints(kind).get(name)
    for one in (hint, *get_args(hint)):
        if get_origin(one) is list:
            return get_args(one)[0]
    return None

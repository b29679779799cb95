"""Turning Python values into JSON that PostgreSQL stores and every worker can read.

msgspec writes NaN and infinities as null and NUL as an escape that jsonb
refuses, so both are looked for here, before anything is sent. The look costs a
scan of the bytes; the object is walked only when the scan finds a suspect.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from .errors import InvalidInput

# The engine's own limits, met here so that the error can name the argument.
MAX_DEPTH = 100
MAX_DIGITS = 300
_FIRST_TOO_LONG = 10**MAX_DIGITS


def _plain(value: Any) -> Any:
    # msgspec knows the exact types only; numpy.float64 and Django's SafeString
    # are subclasses.
    for kind in (str, int, float):
        if isinstance(value, kind):
            return kind.__str__(value) if kind is str else kind(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__qualname__} is no JSON value")


_encoder = msgspec.json.Encoder(enc_hook=_plain)


def encode_json(value: Any, name: str = "payload") -> bytes:
    """Encode a value as JSON for a jsonb column.

    Datetimes, UUIDs, Decimals, bytes, enums, sets, dataclasses and msgspec
    structs become what msgspec makes of them.

    Args:
        value: What to encode.
        name: What it is called in errors; empty when its keys are the names.

    Raises:
        InvalidInput: It holds NaN, an infinity, a NUL character, a lone
            surrogate, an integer of more than 300 digits, a type that JSON has
            no form for, or more than 100 levels. The field names the place.
    """
    try:
        data = _encoder.encode(value)
    except (TypeError, ValueError, RecursionError, AttributeError) as error:
        raise _blame(value, name, error) from error
    if (
        (b"null" in data and not _nulls_are_none(value))
        or b"\\u0000" in data
        or data.count(b"[") + data.count(b"{") > MAX_DEPTH
    ):
        fault = next(_faults(_builtins(value), name), None)
        if fault is not None:
            raise fault
    return data


def check_value(value: Any, name: str = "payload") -> None:
    """Look at every part of a value that was read from JSON.

    Raises:
        InvalidInput: As encode_json; the field names the place.
    """
    fault = next(_faults(value, name), None)
    if fault is not None:
        raise fault


def decode_json(text: str | bytes) -> Any:
    """Decode JSON from the database.

    A number that no float can hold, stored by SQL, becomes an infinity instead
    of an error: one such row must not break a list.
    """
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return json.loads(text)


def _nulls_are_none(value: Any) -> bool:
    # The json module refuses NaN at the speed of C; a walk would cost five
    # times as much for every payload with a None in it.
    try:
        json.dumps(_builtins(value), allow_nan=False)
    except (ValueError, RecursionError):
        return False
    return True


def _builtins(value: Any) -> Any:
    try:
        return msgspec.to_builtins(value, str_keys=True, enc_hook=_plain)
    except RecursionError:
        return value


def _blame(value: Any, name: str, error: Exception) -> InvalidInput:
    fault = next(_faults(value, name), None)
    if fault is not None:
        return fault
    name = name or "payload"
    return InvalidInput(
        f"{name} cannot be written as JSON: {error}.", name, shown(value), "Send plain data."
    )


def _faults(root: Any, name: str) -> Iterator[InvalidInput]:
    """Yield what is wrong, in the order in which it stands in the value."""
    # A stack of our own: the values looked at may be nested too deeply for recursion.
    stack: list[tuple[Any, str, int]] = [(root, name, 1)]
    while stack:
        value, path, depth = stack.pop()
        if depth > MAX_DEPTH + 1:
            yield InvalidInput(
                f"{name or 'payload'} is nested more than {MAX_DEPTH} levels deep.",
                name or "payload",
                None,
                "Send flatter data, or store it elsewhere and send its address.",
            )
            return
        problem = _problem(value)
        if problem is not None:
            yield InvalidInput(f"{path} {problem[0]}.", path, shown(value), problem[1])
        stack.extend(reversed([(v, p, depth + 1) for v, p in _children(value, path)]))


def _children(value: Any, path: str) -> Iterator[tuple[Any, str]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if isinstance(key, str) and _problem(key) is not None:
                yield key, f"{path or 'payload'} (a key)"
            yield inner, f"{path}.{key}" if path else str(key)
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray):
        for index, inner in enumerate(value):
            yield inner, f"{path}[{index}]"
    elif msgspec.inspect.is_struct(value) or hasattr(value, "__dataclass_fields__"):
        fields = getattr(value, "__struct_fields__", None) or value.__dataclass_fields__
        for field in fields:
            yield getattr(value, field, None), f"{path}.{field}" if path else field


def _problem(value: Any) -> tuple[str, str] | None:
    if isinstance(value, str):
        return _text_problem(value)
    if isinstance(value, float) and not math.isfinite(value):
        return f"is {value!r}, which JSON cannot hold", "Send a finite number or null."
    if isinstance(value, int) and abs(value) >= _FIRST_TOO_LONG:
        return f"has more than {MAX_DIGITS} digits", "Send it as text."
    if isinstance(value, Mapping | Sequence | None | bool | int | float):
        return None
    try:
        _encoder.encode(value)
    except TypeError:
        kind = type(value).__qualname__
        return f"is of type {kind}, which JSON has no form for", "Send plain data."
    except (ValueError, RecursionError, AttributeError):
        return None  # something inside is at fault, and is looked at next
    return None


def _text_problem(value: str) -> tuple[str, str] | None:
    if "\x00" in value:
        return "holds a NUL character, which PostgreSQL cannot store", "Remove it."
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            return "holds a lone surrogate, which is no text", "Decode the bytes correctly."
    return None


def check_text(name: str, value: Any) -> str:
    """Give a text argument back.

    Raises:
        InvalidInput: It is no text, or one that PostgreSQL cannot store.
    """
    if not isinstance(value, str):
        raise InvalidInput(f"{name} is not text.", name, shown(value), "Give a str.")
    problem = _text_problem(value)
    if problem is not None:
        raise InvalidInput(f"{name} {problem[0]}.", name, shown(value), problem[1])
    return str.__str__(value)


def shown(value: Any) -> str:
    """Give a short text of any value, for an error."""
    # A repr may be endless, may fail, and an integer's may be refused.
    try:
        text = repr(value)
    except Exception:
        text = f"<{type(value).__qualname__}>"
    text = text.encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= 100 else text[:97] + "..."

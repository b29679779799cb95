"""Cursors of lists: opaque, and good only for the list that they came from."""

import base64
import hashlib
from typing import Any

import msgspec

from .problems import Problem, invalid

_DIGEST = 8


def _digest(scope: Any) -> bytes:
    return hashlib.blake2b(msgspec.json.encode(scope), digest_size=_DIGEST).digest()


def write_cursor(place: str | None, *scope: Any) -> str | None:
    """Give a cursor; ``scope`` is what makes the list: its name, filters, the caller's tenant."""
    if place is None:
        return None
    return base64.urlsafe_b64encode(_digest(scope) + place.encode()).decode().rstrip("=")


def read_cursor(text: str | None, *scope: Any) -> str | None:
    """Read a cursor.

    Raises:
        Problem: It is none of ours, or of another list.
    """
    if text is None:
        return None
    try:
        raw = base64.urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
        place = raw[_DIGEST:].decode("ascii")
    except (ValueError, UnicodeError):
        raise _refused(text) from None
    if raw[:_DIGEST] != _digest(scope):
        raise _refused(text)
    return place


def _refused(text: str) -> Problem:
    return invalid(
        "This cursor does not belong to this list.",
        "cursor",
        text,
        "Pass next_cursor of the page before, unchanged, with the same filters and the same key.",
    )

"""Reading requests: bodies, queries, headers. Everything bad is named with its field."""

import re
from datetime import datetime
from typing import Any, TypeVar
from urllib.parse import parse_qsl, unquote_to_bytes
from uuid import UUID

import msgspec
from litestar import Request

from ..schema.encode import check_value, shown
from ..schema.errors import InvalidInput
from .blame import blame
from .problems import Problem, invalid

T = TypeVar("T")

MAX_DEPTH = 100
MAX_PAYLOAD = 1_048_576
MAX_METADATA = 16_384
_LONG_NUMBER = re.compile(rb"[0-9]{300}")
_CONTENT_TYPE = re.compile(
    r"application/(?:json|[a-z0-9.+-]+\+json)\s*(?:;\s*charset\s*=\s*\"?utf-?8\"?\s*)?", re.I
)


async def read_json(request: "Request[Any, Any, Any]", kind: type[T]) -> T:
    """Decode the body.

    Raises:
        Problem: It is no JSON, of the wrong media type, or something in it is wrong.
    """
    raw = await read_body(request)
    _check_media_type(request)
    return decode(raw, kind)


async def read_body(request: "Request[Any, Any, Any]") -> bytes:
    """Give the body; the gate has bounded its size."""
    # Not request.body(), which parses headers again for every one.
    parts = []
    while True:
        message: Any = await request.receive()
        if message["type"] == "http.disconnect":
            raise Problem("bad_request", "The client has gone.")
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return parts[0] if len(parts) == 1 else b"".join(parts)


def _check_media_type(request: "Request[Any, Any, Any]") -> None:
    if not _CONTENT_TYPE.fullmatch(request.headers.get("content-type", "").strip()):
        raise Problem(
            "unsupported_media_type",
            "The body must be JSON in UTF-8.",
            "content-type",
            request.headers.get("content-type", "")[:200],
            "Send it with the header `Content-Type: application/json`.",
        )
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise Problem(
            "unsupported_media_type",
            "Compressed bodies are not taken.",
            "content-encoding",
            request.headers["content-encoding"][:200],
            "Send the body as it is.",
        )


async def read_optional(request: "Request[Any, Any, Any]", kind: type[T]) -> T:
    """Decode the body where there may be none; then as if it were empty."""
    raw = await read_body(request)
    if not raw:
        return kind()
    _check_media_type(request)
    return decode(raw, kind)


_decoders: dict[Any, "msgspec.json.Decoder[Any]"] = {}


def _decoder(kind: type[T]) -> "msgspec.json.Decoder[T]":
    found = _decoders.get(kind)
    if found is None:
        found = _decoders[kind] = msgspec.json.Decoder(kind)
    return found


def decode(raw: bytes, kind: type[T], where: str = "body") -> T:
    """Decode JSON text into a type, naming what is wrong."""
    try:
        return _decoder(kind).decode(raw)
    except msgspec.ValidationError as error:
        raise blame(str(error), raw, where, kind) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _malformed(error, raw, where) from None
    except RecursionError:
        raise _too_deep(where) from None


def _malformed(error: Exception, raw: bytes, where: str) -> Problem:
    if "out of range" in str(error):
        return invalid(
            "A number is too large.", where, None, "Give numbers below 1e300, larger ones as text."
        )
    return Problem(
        "malformed_json",
        f"This is not JSON: {error}.",
        where,
        shown(raw[:60]) if raw else None,
        "Send one JSON document in UTF-8 (NaN and Infinity are no JSON).",
    )


def _too_deep(where: str) -> Problem:
    return invalid(
        f"It is nested more than {MAX_DEPTH} levels deep.", where, None, "Send flatter data."
    )


def storable(raw: bytes, where: str, most: int) -> Any:
    """Check JSON that is stored as it is, and give its value.

    Raises:
        Problem: It holds what PostgreSQL or a worker cannot read; the field names the place.
    """
    if len(raw) > most:
        raise Problem(
            "too_large",
            f"{where} is larger than {most} bytes.",
            where,
            f"{len(raw)} bytes",
            "Store large data elsewhere and send its address.",
        )
    value = decode(raw, object, where)
    if (
        b"\\u0000" in raw
        or raw.count(b"[") + raw.count(b"{") > MAX_DEPTH
        or _LONG_NUMBER.search(raw)
    ):
        try:
            check_value(value, where)
        except InvalidInput as error:
            raise invalid(error.message, error.field or where, error.value, error.remedy) from None
    return value


def task_id(request: "Request[Any, Any, Any]", name: str = "task_id") -> UUID:
    """Read an id from the path. What is no UUID is no id of anything: 404."""
    text = str(request.path_params[name])
    try:
        return UUID(text)
    except ValueError:
        raise Problem(
            "not_found",
            f"No {name.removesuffix('_id')} has this id.",
            name,
            text[:100],
            "Give an id as it was given to you.",
        ) from None


def name_in_path(request: "Request[Any, Any, Any]", place: int = 4) -> str:
    """Read a name from the path, as it was encoded: it may hold slashes.

    Args:
        request: The request.
        place: Which part of the path; 4 is the one after /api/v1/things/.
    """
    raw: bytes = request.scope["raw_path"]
    try:
        return unquote_to_bytes(raw.split(b"/")[place]).decode()
    except (IndexError, UnicodeDecodeError):
        raise Problem("bad_request", "The path is not UTF-8.", "path") from None


def tenant_filter(bound: str | None, asked: str | None) -> tuple[str | None, bool]:
    """Give the tenant to filter by, and whether nothing can be found."""
    if bound is not None and asked not in (None, bound):
        return bound, True
    return bound or asked, False


class Query:
    """The query of a request; every parameter is asked for, and none may be left over."""

    def __init__(self, request: "Request[Any, Any, Any]", known: frozenset[str]) -> None:
        """Parse it.

        Raises:
            Problem: A parameter is unknown, or given twice where that means nothing.
        """
        raw = request.scope["query_string"]
        try:
            pairs = parse_qsl(raw.decode("ascii"), keep_blank_values=True, errors="strict")
        except (UnicodeDecodeError, ValueError):
            raise Problem("bad_request", "The query is not UTF-8.", "query") from None
        self.values: dict[str, list[str]] = {}
        for name, value in pairs:
            if name not in known:
                raise invalid(
                    f"{name[:100]} is no parameter.",
                    name[:100],
                    value,
                    f"Known are {', '.join(sorted(known)) or 'none'}.",
                )
            if "\0" in value:
                raise invalid(f"{name} holds a NUL character.", name, shown(value), "Remove it.")
            self.values.setdefault(name, []).append(value)

    def text(self, name: str) -> str | None:
        """Give a text parameter, None when it is not given."""
        found = self.values.get(name)
        if found is None:
            return None
        if len(found) > 1:
            raise invalid(f"{name} is given twice.", name, found[1], "Give it once.")
        if not found[0] or len(found[0]) > 1000:
            raise invalid(f"{name} is empty or too long.", name, found[0], "Leave it out.")
        return found[0]

    def texts(self, name: str) -> list[str] | None:
        """Give a parameter that may be repeated or hold several by commas."""
        found = self.values.get(name)
        return None if found is None else [part for text in found for part in text.split(",")]

    def names(self, name: str) -> list[str] | None:
        """Give a parameter that may be repeated; a comma is a letter of it."""
        return self.values.get(name)

    def number(self, name: str, default: int, least: int, most: int) -> int:
        """Give a whole number in a range."""
        text = self.text(name)
        if text is None:
            return default
        if re.fullmatch(r"[0-9]{1,9}", text) and least <= int(text) <= most:
            return int(text)
        raise invalid(
            f"{name} is no whole number from {least} to {most}.",
            name,
            text,
            f"Give one from {least} to {most}.",
        )

    def flag(self, name: str) -> bool:
        """Give whether a parameter is true."""
        text = self.text(name)
        if text not in (None, "true", "false"):
            raise invalid(f"{name} is neither true nor false.", name, text, "Give true or false.")
        return text == "true"

    def uuid(self, name: str) -> UUID | None:
        """Give an id."""
        text = self.text(name)
        try:
            return None if text is None else UUID(text)
        except ValueError:
            raise invalid(f"{name} is no UUID.", name, text, "Give an id.") from None

    def instant(self, name: str) -> datetime | None:
        """Give an instant."""
        text = self.text(name)
        if text is None:
            return None
        try:
            found = msgspec.convert(text.replace(" ", "+"), datetime)
        except msgspec.ValidationError:
            found = None
        if found is None or found.tzinfo is None:
            raise invalid(
                f"{name} is no instant.",
                name,
                text,
                "Give RFC 3339 text with an offset, such as 2026-04-04T09:00:00Z.",
            )
        return found

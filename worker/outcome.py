"""How an attempt ended: results as JSON texts, errors as texts that can be stored.

This is the one place where text from tasks is made storable. A failure report
that cannot be written would leave its task running for ever, so nothing here
raises, whatever the error's own methods do.
"""

import itertools
import math
import os
import re
import traceback
from collections.abc import Iterable
from typing import Any, Literal

import msgspec

from ..schema.errors import PermanentError, Postpone, Retry
from .arguments import InvalidPayload
from .registry import TaskDefinition

Kind = Literal["error", "permanent", "timeout", "lost", "release", "postpone"]

TYPE_BYTES = 200
MESSAGE_BYTES = 8 * 1024
DETAIL_BYTES = 32 * 1024
RESULT_BYTES = 1024 * 1024
_FRAMES = 40
_HERE = os.path.dirname(__file__) + os.sep
_CUT = " … (cut)"
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")

_encode = msgspec.json.Encoder().encode


class Failure(msgspec.Struct, omit_defaults=True, gc=False):
    """Why an attempt did not succeed; its texts are clean.

    Attributes:
        kind: What the engine makes of it, see finish_tasks.
        error_type: Class of the error.
        error_message: Its text.
        error_detail: Where it happened.
        retry_after_seconds: The next attempt comes no sooner.
        delay_seconds: Of a postponed task: when it runs again.
    """

    kind: Kind
    error_type: str | None = None
    error_message: str | None = None
    error_detail: str | None = None
    retry_after_seconds: float | None = None
    delay_seconds: float | None = None


class ResultNotStorable(Exception):
    """What a task returned cannot be stored as JSON."""


def encode_result(value: Any) -> str:
    """Give a result as JSON text.

    Decimals, dates, UUIDs, sets, bytes (base64), dataclasses and msgspec structs
    have a JSON form; other objects have none.

    Raises:
        ResultNotStorable: With the reason. Running the task again would not help.
    """
    if value is None:
        return "null"
    try:
        data = _encode(value)
        text = data.decode()
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise ResultNotStorable(f"The result cannot be stored as JSON: {error}.") from error
    # msgspec writes a float that is no number as null, without a word.
    if "null" in text and _has_no_number(value):
        raise ResultNotStorable("The result holds NaN or an infinity, which JSON cannot.")
    if "\\u0000" in text and _NUL.search(text):
        raise ResultNotStorable("The result holds a NUL character, which PostgreSQL cannot store.")
    if len(data) > RESULT_BYTES:
        raise ResultNotStorable(
            f"The result has {len(data)} bytes; the limit is {RESULT_BYTES}. Store a reference."
        )
    return text


def _has_no_number(value: Any) -> bool:
    todo = [msgspec.to_builtins(value)]
    while todo:
        item = todo.pop()
        if isinstance(item, float) and not math.isfinite(item):
            return True
        if isinstance(item, dict):
            todo.extend(itertools.chain(item, item.values()))
        elif isinstance(item, list | tuple | set | frozenset):
            todo.extend(item)
    return False


def failure_from(error: BaseException, definition: TaskDefinition | None = None) -> Failure:
    """Give the failure that an exception means.

    Args:
        error: Raised by a task function, or on the way to it.
        definition: Its task type, which may call some errors permanent.
    """
    failure = describe(error, _kind(error, definition))
    if isinstance(error, Retry) and error.after is not None:
        failure.retry_after_seconds = _seconds(error.after)
    if isinstance(error, Postpone):
        failure.delay_seconds = _seconds(error.delay) or 0.0
    return failure


def describe(error: BaseException, kind: Kind) -> Failure:
    """Give a failure of a kind with an exception's texts."""
    return Failure(
        kind,
        clean(_type_name(error), TYPE_BYTES),
        clean(_message(error), MESSAGE_BYTES),
        clean(_detail(error), DETAIL_BYTES),
    )


def _kind(error: BaseException, definition: TaskDefinition | None) -> Kind:
    if isinstance(error, Postpone):
        return "postpone"
    if isinstance(error, Retry):
        return "error"
    if isinstance(error, PermanentError | InvalidPayload | ResultNotStorable):
        return "permanent"
    if definition is None:
        return "error"
    try:
        opinion = definition.classify_error(error) if definition.classify_error else None
    except Exception:
        opinion = None  # a classifier that fails has no opinion
    if opinion in ("permanent", "retry"):
        return "permanent" if opinion == "permanent" else "error"
    return "permanent" if isinstance(error, definition.permanent_errors) else "error"


def _seconds(value: Any) -> float | None:
    try:
        seconds = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return max(0.0, seconds) if math.isfinite(seconds) else None


def clean(text: str, limit: int) -> str:
    """Make text storable: no NUL, no lone surrogates, at most ``limit`` bytes of UTF-8."""
    kept = text[: limit + 1].replace("\x00", "")
    data = kept.encode("utf-8", "surrogatepass")
    if len(text) <= limit and len(data) <= limit and b"\xed" not in data:
        return kept
    data = kept.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()
    if len(text) <= limit and len(data) <= limit:
        return data.decode()
    return data[: limit - len(_CUT.encode())].decode("utf-8", "ignore") + _CUT


def _type_name(error: BaseException) -> str:
    kind = type(error)
    if kind.__module__ in ("builtins", "__main__", InvalidPayload.__module__, __name__):
        return kind.__qualname__
    return f"{kind.__module__}.{kind.__qualname__}"


def _message(error: BaseException) -> str:
    try:
        text = str(error)
    except BaseException as inner:  # a method of the task's; even an exit there is only a bad text
        return f"(the error has no text: its __str__ raised {type(inner).__name__})"
    return text


def _detail(error: BaseException) -> str:
    try:
        frames = error.__traceback__
        while frames is not None and frames.tb_frame.f_code.co_filename.startswith(_HERE):
            frames = frames.tb_next  # the worker's own say nothing about the task
        told = traceback.TracebackException(
            type(error), error, frames, limit=-_FRAMES, compact=True
        )
        return _limited(told.format())
    except BaseException as inner:
        return f"(no traceback: formatting it raised {type(inner).__name__})"


def _limited(lines: Iterable[str]) -> str:
    # The end says most: it names the error and the frame that raised it.
    kept: list[str] = [line[:DETAIL_BYTES] for line in lines]
    size = 0
    for index in range(len(kept) - 1, -1, -1):
        size += len(kept[index])
        if size > DETAIL_BYTES // 2:
            return "(cut)\n" + "".join(kept[index + 1 :] or kept[-1:])
    return "".join(kept)

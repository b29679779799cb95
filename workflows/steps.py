"""The pieces of workflows: tasks with their arguments, one after another or side by side."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, Unpack

from ..schema.encode import check_text, encode_json, shown
from ..schema.errors import InvalidInput
from ..schema.options import SubmitOptions, read_options

if TYPE_CHECKING:
    from ..app import Skiplane


class Step(NamedTuple):
    """A task with its arguments, not submitted yet. ``Task.step`` makes one.

    Attributes:
        task_type: The task's type.
        payload: Its arguments as JSON.
        options: Its options, with the engine's names and values.
        app: The app that it is from, None when only the type is known.
    """

    task_type: str
    payload: bytes
    options: Mapping[str, Any]
    app: "Skiplane | None" = None


class Chain(tuple["Shape", ...]):
    """Parts that run one after another."""


class Group(tuple["Shape", ...]):
    """Parts that run side by side."""


Shape: TypeAlias = Step | Chain | Group


def step(task_type: str, payload: Any = None, **options: Unpack[SubmitOptions]) -> Step:
    """Give a step of a type that may be defined elsewhere.

    Args:
        task_type: Its name.
        payload: Any JSON value; None is an empty dict.
        options: As in a submission, without ``idempotency_key``.
    """
    document = encode_json({} if payload is None else payload)
    return Step(check_text("task_type", task_type), document, read_options(options))


def chain(*parts: Any) -> Chain:
    """Make parts run one after another: each begins when all of the part before SUCCEEDED.

    Args:
        parts: Steps, tasks without arguments, chains and groups.

    Raises:
        InvalidInput: A part is none of these.
    """
    return Chain(as_shape(part, "chain") for part in parts)


def group(*parts: Any) -> Group:
    """Make parts run side by side.

    Args:
        parts: As for chain, or one iterable of them: ``group(f.step(n) for n in range(9))``.

    Raises:
        InvalidInput: A part is none of these.
    """
    if len(parts) == 1 and not isinstance(parts[0], Step | Chain | Group):
        parts = tuple(parts[0]) if isinstance(parts[0], Iterable) else parts
    return Group(as_shape(part, "group") for part in parts)


def as_shape(part: Any, where: str) -> Shape:
    """Read a part of a workflow: a task stands for its step without arguments."""
    if isinstance(part, Step | Chain | Group):
        return part
    if callable(made := getattr(part, "step", None)):
        step: Step = made()
        return step
    raise InvalidInput(
        f"{where} was given something that is no step.",
        where,
        shown(part),
        "Give task.step(...), a task, a chain or a group.",
    )

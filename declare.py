"""Declaring task functions: the ``@app.task`` decorator."""

import inspect
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Literal,
    ParamSpec,
    Protocol,
    TypeVar,
    Unpack,
    cast,
    overload,
)

from .schema.encode import check_text, shown
from .schema.errors import InvalidInput
from .schema.limits import LIMITS, TypeLimits, read_limits
from .schema.options import TaskOptions, read_options
from .task import Task
from .worker.registry import Registry, TaskDefinition

if TYPE_CHECKING:
    from .app import Skiplane
    from .worker.context import Context, SyncContext

P = ParamSpec("P")
R = TypeVar("R")

RESERVED = "connection"


class TypeOptions(TaskOptions, TypeLimits, total=False):
    """What a declaration may say: defaults of submissions, and limits of the type."""


class Declarator(Protocol):
    """What ``app.task(...)`` gives: a decorator for each shape of task function."""

    @overload
    def __call__(self, f: "Callable[Concatenate[Context, P], Awaitable[R]]", /) -> Task[P, R]: ...
    @overload
    def __call__(self, f: "Callable[Concatenate[SyncContext, P], R]", /) -> Task[P, R]: ...
    @overload
    def __call__(self, f: Callable[P, Awaitable[R]], /) -> Task[P, R]: ...
    @overload
    def __call__(self, f: Callable[P, R], /) -> Task[P, R]: ...


class Declaring:
    """The part of an app that knows its task functions.

    Attributes:
        registry: All of them, for the worker.
    """

    def __init__(self) -> None:
        self.registry = Registry()

    def task(
        self,
        name: str | None = None,
        *,
        mode: Literal["process", "thread"] | None = None,
        permanent_errors: tuple[type[BaseException], ...] = (),
        classify_error: Callable[[BaseException], str | None] | None = None,
        **options: Unpack[TypeOptions],
    ) -> Declarator:
        """Declare a task function.

        Its first parameter is the context when it is named ``ctx`` or annotated
        as Context (SyncContext for a plain ``def``). All others are the payload,
        and are checked against their annotations.

        Args:
            name: The task type; by default the function's module and name.
            mode: Where a ``def`` runs: in a pool process, which can be killed
                when it is cancelled or late, or in a thread, which cannot. An
                ``async def`` runs on the worker's event loop.
            permanent_errors: Exceptions after which another try is useless.
            classify_error: Called with an exception; gives ``"permanent"``,
                ``"retry"``, or None for no opinion.
            options: Defaults for submissions, see TaskOptions; and limits of the
                type over the whole fleet, see TypeLimits, which its workers tell
                the database and which an operator may replace.

        Raises:
            InvalidInput: An option, or the function's shape, cannot be used.
            ValueError: The name is taken.
        """
        if callable(name):
            raise InvalidInput(
                "app.task was given the function itself.",
                "name",
                shown(name),
                "Write @app.task() with parentheses.",
            )
        if name is not None:
            check_text("name", name)
        limits = {key: value for key, value in options.items() if key in LIMITS}
        read_limits(limits)
        rest = {key: value for key, value in options.items() if key not in LIMITS}
        checked = _checked_options(cast(TaskOptions, rest))

        def declare(function: Callable[..., Any]) -> Task[Any, Any]:
            definition = TaskDefinition(
                name=name or _default_name(function),
                function=function,
                mode=_mode(function, mode),
                takes_context=takes_context(function),
                queue=checked.get("queue", "default"),
                options={key: value for key, value in checked.items() if key != "queue"},
                limits=limits,
                permanent_errors=permanent_errors,
                classify_error=classify_error,
            )
            _check_parameters(function)
            self.registry.add(definition)
            return Task(cast("Skiplane", self), definition)

        return cast(Declarator, declare)


def takes_context(function: Callable[..., Any]) -> bool:
    """Say whether a function's first parameter is the context."""
    parameters = list(inspect.signature(function).parameters.values())
    if not parameters:
        return False
    first = parameters[0]
    kind = first.annotation
    kind_name = kind if isinstance(kind, str) else getattr(kind, "__name__", "")
    return first.name == "ctx" or kind_name.rpartition(".")[2] in ("Context", "SyncContext")


def _checked_options(options: TaskOptions) -> dict[str, Any]:
    checked = read_options(options)
    if "metadata" in checked:
        checked["metadata"] = options["metadata"]  # merged with a submission's own
    return checked


def _mode(
    function: Callable[..., Any], mode: Literal["process", "thread"] | None
) -> Literal["async", "process", "thread"]:
    plain = inspect.unwrap(function)
    if inspect.isgeneratorfunction(plain) or inspect.isasyncgenfunction(plain):
        raise InvalidInput(
            f"{plain.__qualname__} is a generator, which would never be run.",
            "function",
            plain.__qualname__,
            "Use return instead of yield.",
        )
    if not inspect.iscoroutinefunction(plain):
        if mode not in (None, "process", "thread"):
            raise InvalidInput("mode is not known.", "mode", shown(mode), "Give process or thread.")
        return mode or "process"
    if mode is not None:
        raise InvalidInput(
            f"{plain.__qualname__} is async, and runs on the event loop.",
            "mode",
            shown(mode),
            "Leave mode out, or make it a plain def.",
        )
    return "async"


def _check_parameters(function: Callable[..., Any]) -> None:
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name == RESERVED:
            raise InvalidInput(
                f"A task cannot have a parameter named {RESERVED}: submit takes it for itself.",
                RESERVED,
                None,
                "Rename the parameter.",
            )
        if parameter.kind is parameter.VAR_POSITIONAL:
            raise InvalidInput(
                f"A payload cannot carry *{parameter.name}.",
                parameter.name,
                None,
                "Take a list instead.",
            )


def _default_name(function: Callable[..., Any]) -> str:
    module = function.__module__
    if module == "__main__":
        # The worker imports the same file under its real name.
        main = sys.modules["__main__"]
        spec = getattr(main, "__spec__", None)
        file = getattr(main, "__file__", None)
        module = spec.name if spec else Path(file).stem if file else module
    return f"{module}.{function.__qualname__}"

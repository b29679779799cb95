"""The task functions that a worker knows."""

import inspect
from collections.abc import Callable
from typing import Any, Literal

import msgspec

from .arguments import Arguments, Bound

Mode = Literal["async", "process", "thread"]


class TaskDefinition(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """One task type and the function that does its work.

    Attributes:
        name: The task type.
        function: What is called. ``async def`` or ``def``.
        mode: Where it runs: on the event loop, in a pool process that can be
            killed, or in a thread that cannot.
        takes_context: Whether its first parameter is the context.
        queue: Where submissions go.
        options: Defaults for submitting, by the names of submit_task without
            ``p_``.
        limits: Limits of the type over the fleet, see TypeLimits.
        permanent_errors: Exceptions after which another try is useless.
        classify_error: Called with an exception; gives ``permanent``,
            ``retry``, or None for "no opinion".
    """

    name: str
    function: Callable[..., Any]
    mode: Mode
    takes_context: bool = False
    queue: str = "default"
    options: dict[str, Any] = {}
    limits: dict[str, Any] = {}
    permanent_errors: tuple[type[BaseException], ...] = ()
    classify_error: Callable[[BaseException], str | None] | None = None


class Registry:
    """Task definitions by name."""

    def __init__(self) -> None:
        self._definitions: dict[str, TaskDefinition] = {}
        self._arguments: dict[str, Arguments] = {}

    def add(self, definition: TaskDefinition) -> None:
        """Add a definition.

        Raises:
            ValueError: The name is taken, or the mode does not fit the function.
        """
        if definition.name in self._definitions:
            raise ValueError(
                f"The task type {definition.name!r} is defined twice; give one another name."
            )
        if definition.mode == "async" and not inspect.iscoroutinefunction(
            inspect.unwrap(definition.function)
        ):
            raise ValueError(
                f"The task type {definition.name!r} has mode 'async' but no async function."
            )
        self._definitions[definition.name] = definition

    def get(self, name: str) -> TaskDefinition | None:
        """Give a definition; None when there is none of that name."""
        return self._definitions.get(name)

    def names(self) -> list[str]:
        """Give all names, in the order of definition."""
        return list(self._definitions)

    def modes(self) -> set[Mode]:
        """Give the modes that occur."""
        return {definition.mode for definition in self._definitions.values()}

    def arguments(self, definition: TaskDefinition) -> Arguments:
        """Give how a definition's function is called; made at the first use."""
        found = self._arguments.get(definition.name)
        if found is None:
            found = Arguments(definition.function, definition.takes_context)
            self._arguments[definition.name] = found
        return found

    def call_arguments(self, definition: TaskDefinition, payload: Any) -> Bound:
        """Give the arguments that a payload stands for.

        Args:
            definition: Whose function is to be called.
            payload: Python values, or the JSON text as bytes.

        Returns:
            Positional and keyword arguments, without the context.

        Raises:
            InvalidPayload: The payload does not fit; the message names the field.
        """
        arguments = self.arguments(definition)
        if isinstance(payload, bytes | msgspec.Raw):
            return arguments.bind_json(payload)
        return arguments.bind(payload)

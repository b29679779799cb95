"""A task function that can be submitted."""

import copy
import functools
import inspect
import re
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, Unpack, overload
from uuid import UUID

import msgspec

from .handle import Handle
from .schema.call import Call
from .schema.encode import encode_json, shown
from .schema.errors import InvalidInput
from .schema.options import SubmitOptions, read_options
from .schema.producer import batches, submit_task
from .schema.records import Submitted
from .schema.tracing import span
from .worker.arguments import InvalidPayload
from .worker.registry import TaskDefinition
from .workflows.steps import Step

if TYPE_CHECKING:
    from .app import Skiplane

P = ParamSpec("P")
R = TypeVar("R")


class Task(Generic[P, R]):
    """A task function. Calling it runs it here and now; submitting it runs it on a worker.

    Attributes:
        name: The task type.
        app: The app that it belongs to.
        definition: What the worker knows of it.
    """

    __name__: str
    __qualname__: str

    def __init__(self, app: "Skiplane", definition: TaskDefinition) -> None:
        functools.update_wrapper(self, definition.function)
        self.name = definition.name
        self.definition = definition
        self.app = app
        self._arguments = app.registry.arguments(definition)
        self._layer: Mapping[str, Any] = {}
        self._options = read_options(_defaults(definition))
        self._connection: Any = None

    def __repr__(self) -> str:
        return f"<Task {self.name}>"

    def __reduce__(self) -> str:
        # By its name, as the function would be: it holds an app with connections.
        return self.definition.function.__qualname__

    def __copy__(self) -> "Task[P, R]":
        # copy.copy would go by __reduce__ and give the task itself.
        other: Task[P, R] = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        return other

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function itself, context first when it takes one."""
        return self.definition.function(*args, **kwargs)

    def options(self, *, connection: Any = None, **options: Unpack[SubmitOptions]) -> "Task[P, R]":
        """Give a copy that submits with these options.

        Raises:
            TypeError: No option has that name.
            InvalidInput: A value is refused.
        """
        other = copy.copy(self)
        other._layer = {**self._layer, **options}
        other._options = read_options(_defaults(self.definition), other._layer)
        other._connection = connection if connection is not None else self._connection
        return other

    # The second form is for the arguments beside which a connection is given:
    # there is no way to write "P, and one keyword more", and none is needed,
    # since no task has a parameter of that name.
    @overload
    async def submit(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R]: ...
    @overload
    async def submit(self, *args: Any, connection: Any, **kwargs: Any) -> Handle[R]: ...
    async def submit(self, /, *args: Any, connection: Any = None, **kwargs: Any) -> Handle[R]:  # type: ignore[misc]
        """Submit the task, in one round trip.

        The arguments are those of the function without its context. They are
        checked against its annotations, as the worker will do it, before
        anything is sent.

        Args:
            args: Positional arguments of the function.
            connection: Submit inside the transaction that is open there.
            kwargs: Keyword arguments of the function.

        Raises:
            InvalidInput: An argument does not fit or cannot be sent as JSON.
            IdempotencyConflict: The key was used with another body.
        """
        where = self._connection if connection is None else connection
        with span("skiplane.receive", **{"skiplane.task_type": self.definition.name}):
            call = self._call(args, kwargs)
            with span("skiplane.persist"):
                answer = await self.app.run(call, where)
        return self._handle(answer, where)

    @overload
    def submit_sync(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R]: ...
    @overload
    def submit_sync(self, *args: Any, connection: Any, **kwargs: Any) -> Handle[R]: ...
    def submit_sync(self, /, *args: Any, connection: Any = None, **kwargs: Any) -> Handle[R]:  # type: ignore[misc]
        """Do what ``submit`` does, without an event loop."""
        where = self._connection if connection is None else connection
        with span("skiplane.receive", **{"skiplane.task_type": self.definition.name}):
            call = self._call(args, kwargs)
            with span("skiplane.persist"):
                answer = self.app.run_sync(call, where)
        return self._handle(answer, where)

    async def submit_many(
        self,
        items: Iterable[Any],
        *,
        idempotency_keys: Sequence[str | None] | None = None,
        connection: Any = None,
    ) -> list[UUID]:
        """Submit many tasks with the same options: all or none.

        Args:
            items: For each task a dict of its keyword arguments, or the one
                positional argument of a function that takes one.
            idempotency_keys: A key, or None, for each.
            connection: Submit inside the transaction that is open there.

        Returns:
            Their ids, in order.

        Raises:
            InvalidInput: An argument of one of them is refused; nothing is stored.
        """
        where = self._connection if connection is None else connection
        return await self.app.send_batches(self._batches(items, idempotency_keys), where)

    def submit_many_sync(
        self,
        items: Iterable[Any],
        *,
        idempotency_keys: Sequence[str | None] | None = None,
        connection: Any = None,
    ) -> list[UUID]:
        """Do what ``submit_many`` does, without an event loop."""
        where = self._connection if connection is None else connection
        return self.app.send_batches_sync(self._batches(items, idempotency_keys), where)

    def payload(self, *args: P.args, **kwargs: P.kwargs) -> bytes:
        """Give the checked JSON that a submission with these arguments would send."""
        return self._payload(args, kwargs)

    def checked_payload(self, item: Any) -> msgspec.Raw:
        """Give the checked JSON of a dict of arguments, or of the one argument; None is none."""
        named = {} if item is None else item
        if isinstance(named, Mapping):
            return msgspec.Raw(self._payload((), dict(named)))
        return msgspec.Raw(self._payload((named,), {}))

    def given_options(self) -> dict[str, Any]:
        """Give the options that were set for this task, by their Python names."""
        return {**_defaults(self.definition), **self._layer}

    def step(self, *args: P.args, **kwargs: P.kwargs) -> Step:
        """Give the task with these arguments, checked, as a step of a workflow.

        Raises:
            InvalidInput: An argument does not fit or cannot be sent as JSON.
        """
        return Step(self.name, self._payload(args, kwargs), self._options, self.app)

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call[Submitted]:
        return submit_task(self.name, self._payload(args, kwargs), self._options)

    def _handle(self, answer: Submitted, connection: Any) -> Handle[R]:
        pending = connection is not None
        return Handle(self.app, answer.task_id, answer, kind=self._result_type, pending=pending)

    def _payload(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
        values = self._by_name(args, kwargs) if args else kwargs
        document = encode_json(values, "")
        try:
            self._arguments.bind_json(document)
        except InvalidPayload as error:
            raise self._misfit(error, values) from error
        return document

    def _batches(
        self, items: Iterable[Any], keys: Sequence[str | None] | None
    ) -> Iterator[Call[list[UUID]]]:
        return batches(self.name, self._documents(items), self._options, keys)

    def _documents(self, items: Iterable[Any]) -> Iterator[bytes]:
        for index, item in enumerate(items):
            try:
                if isinstance(item, Mapping):
                    yield self._payload((), item if type(item) is dict else dict(item))
                else:
                    yield self._payload((item,), {})
            except InvalidInput as error:
                field = f"items[{index}].{error.field}"
                message = f"items[{index}]: {error.message}"
                raise InvalidInput(message, field, error.value, error.remedy) from error

    def _by_name(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        names = self._positional
        if len(args) > len(names):
            raise InvalidInput(
                f"{self.name} takes {len(names)} positional arguments, not {len(args)}.",
                None,
                shown(args),
                self._usage,
            )
        values = dict(zip(names, args, strict=False))
        if twice := values.keys() & kwargs.keys():
            name = sorted(twice)[0]
            raise InvalidInput(f"{name} is given twice.", name, shown(kwargs[name]), self._usage)
        return values | kwargs

    def _misfit(self, error: InvalidPayload, values: Mapping[str, Any]) -> InvalidInput:
        text = str(error)
        path = re.search(r" - at `\$\.?(.+)`$", text) or re.search(r"field `(.+?)`$", text)
        field = path[1] if path else None
        value = values.get(field) if field else None
        message = f"{self.name}: {text.replace(' - at `$.', ' - at `')}."
        return InvalidInput(message, field, None if value is None else shown(value), self._usage)

    @functools.cached_property
    def _positional(self) -> list[str]:
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        return [p.name for p in self._signature.parameters.values() if p.kind in kinds]

    @functools.cached_property
    def _signature(self) -> inspect.Signature:
        signature = inspect.signature(self.definition.function)
        if not self.definition.takes_context:
            return signature
        return signature.replace(parameters=list(signature.parameters.values())[1:])

    @functools.cached_property
    def _usage(self) -> str:
        shape = self._signature.replace(return_annotation=inspect.Signature.empty)
        return f"The function is {self.definition.function.__name__}{shape}."

    @functools.cached_property
    def _result_type(self) -> Any:
        try:
            kind = typing.get_type_hints(self.definition.function).get("return", Any)
            msgspec.json.Decoder(kind)
        except (NameError, TypeError, AttributeError, RecursionError):
            return Any
        # "-> None" with ctx.set_result() is no contradiction.
        return Any if kind is type(None) else kind


def _defaults(definition: TaskDefinition) -> dict[str, Any]:
    return {"queue": definition.queue, **definition.options}

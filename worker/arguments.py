"""From a payload to the arguments of a task function, validated by its annotations."""

import inspect
import typing
from collections.abc import Callable
from functools import cached_property
from typing import Any

import msgspec

Bound = tuple[tuple[Any, ...], dict[str, Any]]

_BRACE = ord("{")
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class InvalidPayload(Exception):
    """The payload does not fit the task function; the message names the field."""


class Arguments:
    """How to call one function.

    A JSON object is the function's keyword arguments; any other value is its
    one positional argument. Values are converted to the parameters' annotated
    types as msgspec does it; a parameter without an annotation takes any value.
    """

    def __init__(self, function: Callable[..., Any], takes_context: bool) -> None:
        """Look at a function's signature once.

        Args:
            function: The task function.
            takes_context: Whether its first parameter is the context, which is
                no part of the payload.
        """
        self._function = function
        parameters = list(inspect.signature(function).parameters.values())
        self._parameters = parameters[1:] if takes_context else parameters
        self._named = [p for p in self._parameters if p.kind not in _VARIADIC]
        self._keyword_only = [p.name for p in self._named if p.kind is p.KEYWORD_ONLY]
        self._positional = len(self._named) - len(self._keyword_only)
        self._rest = any(p.kind is p.VAR_KEYWORD for p in self._parameters)

    @cached_property
    def _hints(self) -> dict[str, Any]:
        try:
            return typing.get_type_hints(self._function, include_extras=True)
        except (NameError, TypeError, AttributeError):
            # A name that exists for type checkers only. The function can run
            # all the same; its values are then taken as they come.
            return {}

    @cached_property
    def _struct(self) -> type[msgspec.Struct]:
        fields = [self._field(parameter) for parameter in self._named]
        return msgspec.defstruct(
            "Payload", fields, kw_only=True, forbid_unknown_fields=not self._rest, gc=False
        )

    @cached_property
    def _decode(self) -> Callable[[Any], msgspec.Struct]:
        return msgspec.json.Decoder(self._struct, dec_hook=_as_it_is).decode

    @cached_property
    def _decode_single(self) -> Callable[[Any], Any]:
        return msgspec.json.Decoder(self._single_type(), dec_hook=_as_it_is).decode

    def _type(self, parameter: inspect.Parameter) -> Any:
        hint = self._hints.get(parameter.name, Any)
        try:
            msgspec.json.Decoder(hint, dec_hook=_as_it_is)
        except (TypeError, RecursionError):  # msgspec has no such type
            return Any
        return hint

    def _field(self, parameter: inspect.Parameter) -> tuple[str, Any] | tuple[str, Any, Any]:
        kind = self._type(parameter)
        if parameter.default is parameter.empty:
            return parameter.name, kind
        default = parameter.default
        return parameter.name, kind, msgspec.field(default_factory=lambda: default)

    def _single_type(self) -> Any:
        required = [p for p in self._named if p.default is p.empty]
        if (
            self._positional == 0
            or len(required) > 1
            or (required and required[0] != self._named[0])
        ):
            raise InvalidPayload(
                "The payload is no JSON object, and the function does not take"
                " exactly one positional argument."
            )
        return self._type(self._named[0])

    def bind_json(self, payload: bytes | msgspec.Raw) -> Bound:
        """Give the arguments for a payload in JSON.

        Raises:
            InvalidPayload: It does not fit, or cannot be read.
        """
        try:
            if not _is_object(payload):
                return (self._decode_single(payload),), {}
            if not self._rest:
                return self._spread(self._decode(payload))
            return self._with_rest(msgspec.json.decode(payload, type=dict[str, Any]))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InvalidPayload(str(error)) from error

    def bind(self, payload: Any) -> Bound:
        """Give the arguments for a payload of Python values; see bind_json."""
        try:
            if not isinstance(payload, dict):
                kind = self._single_type()
                return (msgspec.convert(payload, kind, dec_hook=_as_it_is),), {}
            if self._rest:
                return self._with_rest(payload)
            return self._spread(msgspec.convert(payload, self._struct, dec_hook=_as_it_is))
        except (msgspec.ValidationError, RecursionError) as error:
            raise InvalidPayload(str(error)) from error

    def _spread(self, values: msgspec.Struct) -> Bound:
        found = msgspec.structs.astuple(values)
        if not self._keyword_only:
            return found, {}
        keywords = dict(zip(self._keyword_only, found[self._positional :], strict=True))
        return found[: self._positional], keywords

    def _with_rest(self, payload: dict[str, Any]) -> Bound:
        names = {parameter.name for parameter in self._named}
        known = {key: value for key, value in payload.items() if key in names}
        arguments, keywords = self._spread(msgspec.convert(known, self._struct, dec_hook=_as_it_is))
        return arguments, {**keywords, **{k: v for k, v in payload.items() if k not in names}}


def _is_object(payload: bytes | msgspec.Raw) -> bool:
    view = memoryview(payload)
    if view[0] == _BRACE:
        return True
    return view[0] in b" \t\r\n" and bytes(view).lstrip()[0] == _BRACE


def _as_it_is(_type: type, value: Any) -> Any:
    # Called for classes that msgspec does not know; it then checks the value's
    # class and says which field is wrong.
    return value

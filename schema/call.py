"""A call of the engine: a statement, its parameters, and how to read the answer.

It does no I/O, so that the same call runs on psycopg, SQLAlchemy and Django,
async and sync.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, Generic, LiteralString, NamedTuple, TypeVar
from uuid import UUID

from .encode import check_text, shown
from .errors import InvalidInput
from .options import instant

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
Rows = Sequence[Sequence[Any]]


class Call(NamedTuple, Generic[T_co]):
    """A statement, ready to run. Placeholders are ``%s``, each inside a cast.

    ``repeatable`` says that running it twice does no more than running it once.
    """

    sql: LiteralString
    parameters: tuple[Any, ...]
    read: Callable[[Rows], T_co]
    repeatable: bool = False


class JsonTexts(list[bytes]):
    """JSON documents for one text[] parameter."""


@lru_cache(maxsize=512)
def _function(name: str, parameters: tuple[tuple[str, str], ...], columns: str) -> LiteralString:
    # Literal in all but name: names, types and columns are this package's own.
    arguments = ", ".join(f"p_{key} => cast(%s as {kind})" for key, kind in parameters)
    return f"select {columns} from skiplane.{name}({arguments})"


def call(
    name: str,
    columns: str,
    read: Callable[[Rows], T],
    arguments: Mapping[str, tuple[str, Any]],
    *,
    repeatable: bool = False,
) -> Call[T]:
    # What is not given is left out, so that defaults are the engine's alone.
    given = {key: value for key, value in arguments.items() if value[1] is not None}
    sql = _function(name, tuple((key, cast) for key, (cast, _) in given.items()), columns)
    return Call(sql, tuple(value for _, value in given.values()), read, repeatable)


def uuids(value: Any) -> list[UUID]:
    """Read a uuid[]; psycopg2 gives it as text."""
    if isinstance(value, str):
        value = [UUID(part) for part in value.strip("{}").split(",") if part]
    return list(value or ())


def as_uuid(value: UUID | str, name: str = "task_id") -> UUID:
    """Read a task id, or another one of that name.

    Raises:
        InvalidInput: It is no UUID.
    """
    if isinstance(value, UUID):
        return value
    try:
        return UUID(value)
    except (ValueError, AttributeError, TypeError) as error:
        raise InvalidInput(
            f"{name} is no UUID.", name, shown(value), "Give an id as Skiplane gave it."
        ) from error


def text(name: str, value: str | None) -> tuple[str, str | None]:
    return "text", None if value is None else check_text(name, value)


def texts(name: str, value: str | Sequence[str] | None) -> tuple[str, list[str] | None]:
    """Bind one text or several; an empty list is none."""
    several = [value] if isinstance(value, str) else value
    return "text[]", [check_text(name, one) for one in several] if several else None


def optional_instant(name: str, value: datetime | None) -> tuple[str, datetime | None]:
    return "timestamptz", None if value is None else instant(name, value)


def id_argument(value: UUID | str, name: str = "task_id") -> tuple[str, str]:
    # Text, since psycopg2 cannot bind a UUID.
    return "uuid", str(as_uuid(value, name))

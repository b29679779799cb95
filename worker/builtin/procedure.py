"""``skiplane.sql``: call a procedure that an operator has listed, as a restricted role."""

from typing import Any

import msgspec
import psycopg

from ...schema.errors import NotFound, PermanentError, from_driver
from ...schema.webhook_calls import call_procedure
from ..context import Context

# Classes of SQLSTATE that another try changes nothing about: data, constraints,
# rights and syntax.
_PERMANENT = ("22", "23", "28", "42")


async def run(
    ctx: Context,
    procedure: str,
    arguments: dict[str, Any] | list[Any] = {},  # noqa: B006  msgspec copies it
) -> Any:
    """Call a procedure; what it changes and the task's success commit together.

    Args:
        ctx: The task.
        procedure: Schema and name, with the types of the arguments where several
            procedures have the name.
        arguments: By name, or by place.

    Raises:
        PermanentError: The procedure is not listed, or refuses for good.
        psycopg.Error: It failed in a way that another try may not.
    """
    try:
        async with ctx.transaction() as conn:
            text = msgspec.json.encode(arguments).decode()
            value = await call_procedure(conn, procedure, text)
            ctx.set_result(value)
    except psycopg.Error as error:
        known = from_driver(error)
        if known is not None and isinstance(known, ValueError | PermissionError | NotFound):
            raise PermanentError(f"{known.message} {known.remedy or ''}".strip()) from error
        if (error.sqlstate or "").startswith(_PERMANENT):
            raise PermanentError(str(error)) from error
        raise
    return value

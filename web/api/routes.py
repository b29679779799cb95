"""Making handlers out of the contract, and answers out of JSON."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
from litestar import Request, route
from litestar.handlers import HTTPRouteHandler
from litestar.response.base import ASGIResponse

from ..contract import OPERATIONS

JSON = "application/json"
_encode = msgspec.json.Encoder().encode

AnyRequest = Request[Any, Any, Any]
Handler = Callable[[AnyRequest], Awaitable[Any]]


def handles(method: str, path: str) -> Callable[[Handler], HTTPRouteHandler]:
    """Make a handler for a route of the contract; KeyError when it is not in there."""
    operation = OPERATIONS[method, path]

    def decorate(function: Handler) -> HTTPRouteHandler:
        async def handler(request: AnyRequest) -> ASGIResponse:
            request.scope["state"]["route"] = path
            answer: ASGIResponse = await function(request)
            return answer

        handler.__name__ = operation.name
        handler.__doc__ = function.__doc__
        return route(
            path.replace("}", ":str}"),
            http_method=method,  # type: ignore[arg-type]
            status_code=min(operation.answers),
            opt={"role": operation.role, "fleet": operation.fleet, "operation": operation.name},
            name=operation.name,
        )(handler)

    return decorate


def reply(
    content: Any, status: int = 200, headers: Mapping[str, str] | None = None
) -> ASGIResponse:
    """Answer with JSON: bytes as they are, everything else encoded."""
    body = content if isinstance(content, bytes) else _encode(content)
    return ASGIResponse(body=body, status_code=status, media_type=JSON, headers=dict(headers or {}))


def page(name: str, documents: list[str], cursor: str | None) -> ASGIResponse:
    """Answer with one page of documents as the engine wrote them."""
    body = f'{{"{name}":[{",".join(documents)}],"next_cursor":{_encode(cursor).decode()}}}'
    return reply(body.encode())

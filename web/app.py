"""The application: handlers behind the gate."""

from typing import Any

from litestar import Litestar, Response
from litestar.datastructures import State
from litestar.exceptions import HTTPException

from .access import guard
from .api import (
    analytics,
    dead_letters,
    events,
    fleet,
    keys,
    limits,
    manual,
    probes,
    schedules,
    tasks,
    webhooks,
    workflows,
)
from .api.routes import AnyRequest
from .contract import FLOWS, TASKS
from .dashboard import door
from .dashboard.handlers import HANDLERS as PAGES
from .gate import Gate
from .problems import MEDIA_TYPE, Problem, problem_of
from .services import Services
from .settings import WebSettings

HANDLERS = [
    *tasks.HANDLERS,
    *schedules.HANDLERS,
    *workflows.HANDLERS,
    *dead_letters.HANDLERS,
    *limits.HANDLERS,
    *analytics.HANDLERS,
    *fleet.HANDLERS,
    *keys.HANDLERS,
    *webhooks.HANDLERS,
    *events.HANDLERS,
    *manual.HANDLERS,
    *probes.HANDLERS,
    *PAGES,
]


def create_app(settings: WebSettings, services: Services | None = None) -> Gate:
    """Make the ASGI application.

    Args:
        settings: See WebSettings.
        services: Made before, by whoever must end the streams when the process stops.
    """
    shared = services or Services(settings)
    app = Litestar(
        route_handlers=list(HANDLERS),
        openapi_config=None,
        guards=[guard],
        exception_handlers={HTTPException: _refuse, Exception: _refuse},
        state=State({"services": shared}),
        on_startup=[shared.start],
        on_shutdown=[shared.stop],
        request_max_body_size=None,
        logging_config=None,
        debug=False,
        pdb_on_exception=False,
    )
    most = settings.max_batch_body
    sizes = {"": settings.max_body, TASKS + "/batch": most, FLOWS: most}
    return Gate(app, shared.keys, shared.metrics, sizes, door.Door(shared.sessions))


def _refuse(request: AnyRequest, error: Any) -> "Response[bytes]":
    problem = _of_framework(error) if isinstance(error, HTTPException) else problem_of(error)
    if door.owns(request.scope["path"]):
        status, headers, body = door.refusal(problem, request.scope)
        kind = headers.pop("content-type")
        return Response(content=body, status_code=status, headers=headers, media_type=kind)
    request_id = request.scope["state"].get("request_id")
    return Response(
        content=problem.body(request_id),
        status_code=problem.status,
        headers=problem.headers,
        media_type=MEDIA_TYPE,
    )


def _of_framework(error: HTTPException) -> Problem:
    headers = dict(error.headers or {})
    match error.status_code:
        case 404:
            return Problem("not_found", "There is no such path.", remedy="See /openapi.json.")
        case 405:
            return Problem(
                "method_not_allowed",
                "This path does not take that method.",
                remedy="See /openapi.json.",
                headers=headers,
            )
        case 413:
            return Problem("too_large", "The body is too large.", "body")
        case status if 400 <= status < 500:
            return Problem("bad_request", f"{error.detail}", headers=headers)
        case _:
            return problem_of(error)

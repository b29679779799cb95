"""From templates to answers. Everything that is shown goes through `clean` and is escaped."""

import hashlib
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from litestar import Request
from litestar.response.base import ASGIResponse

from ..problems import Problem
from . import charts, states, words
from .sessions import cookies

FOLDER = Path(__file__).parent
STATIC = FOLDER / "static"
# No script but ours, no markup from script, nothing from elsewhere, in no frame.
CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
    " form-action 'self'; frame-ancestors 'none'; base-uri 'none';"
    " require-trusted-types-for 'script'; trusted-types skiplane"
)
HEADERS = {
    "content-type": "text/html; charset=utf-8",
    "content-security-policy": CSP,
    "referrer-policy": "same-origin",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
}

# Path, label, and whether it concerns all tenants: keys bound to one do not see it.
NAVIGATION = (
    ("/ui", "Overview", "overview", False),
    ("/ui/tasks", "Tasks", "tasks", False),
    ("/ui/workflows", "Workflows", "workflows", False),
    ("/ui/schedules", "Schedules", "schedules", False),
    ("/ui/dead-letters", "Dead letters", "dead", False),
    ("/ui/failures", "Failures", "failures", False),
    ("/ui/queues", "Queues", "queues", True),
    ("/ui/workers", "Workers", "workers", True),
)


def _version(name: str) -> str:
    digest = hashlib.sha256((STATIC / name).read_bytes()).hexdigest()[:12]
    return f"/ui/static/{name}?v={digest}"


def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=words.clean,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters |= words.FILTERS
    made.globals |= {
        "badge": states.badge,
        "attempt_badge": states.attempt_badge,
        "fire_badge": states.fire_badge,
        "css": states.css,
    }
    made.globals |= {"meter": charts.meter, "meter_of": charts.progress}
    made.globals["static"] = {path.name: _version(path.name) for path in STATIC.iterdir()}
    return made


_environment_made = _environment()


def fill(template: str, **context: Any) -> str:
    """Fill in a template."""
    return _environment_made.get_template(template).render(**context)


def _frame(scope: Any) -> dict[str, Any]:
    state = scope.get("state", {})
    visitor = state.get("visitor")
    who = visitor.principal if visitor else None
    theme = cookies(scope).get("skiplane_theme", "")
    return {
        "who": who,
        "csrf": visitor.csrf if visitor else "",
        "theme": theme if theme in ("light", "dark") else "",
        "path": scope["path"],
        "navigation": [
            entry for entry in NAVIGATION if who and not (entry[3] and who.tenant is not None)
        ],
    }


def page(
    request: "Request[Any, Any, Any]", template: str, status: int = 200, **context: Any
) -> ASGIResponse:
    """Answer with a page."""
    body = fill(template, **_frame(request.scope), **context)
    return ASGIResponse(body=body.encode(), status_code=status, headers=HEADERS)


def redirect(where: str, headers: dict[str, str] | None = None) -> ASGIResponse:
    """Answer with another place, after something was done."""
    return ASGIResponse(body=b"", status_code=303, headers={"location": where, **(headers or {})})


def raw(
    text: str, status: int, headers: dict[str, str] | None = None
) -> tuple[int, dict[str, str], bytes]:
    """Give an answer of plain text, in parts."""
    return status, {"content-type": "text/plain; charset=utf-8", **(headers or {})}, text.encode()


def error_page(problem: Problem, scope: Any) -> tuple[int, dict[str, str], bytes]:
    """Give the page of a refusal, in parts."""
    body = fill(
        "error.html",
        problem=problem,
        request_id=scope.get("state", {}).get("request_id"),
        **_frame(scope),
    )
    return problem.status, {**HEADERS, **problem.headers}, body.encode()

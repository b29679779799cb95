"""The dashboard's own door, for the gate: cookies instead of keys, pages instead of problems."""

from typing import Any
from urllib.parse import quote

from ..problems import Problem
from .render import error_page, raw
from .sessions import Sessions

HOME = "/ui"
SIGN_IN = "/ui/sign-in"
EVENTS = "/ui/events"
# What is shown without a session, besides the static files.
_OPEN = frozenset({"/", SIGN_IN})
_STATIC = "/ui/static/"
FRAGMENT = b"x-skiplane-fragment"


def owns(path: str) -> bool:
    """Whether a path is the dashboard's."""
    return path in ("/", HOME) or path.startswith(HOME + "/")


class Door:
    """Lets visitors in."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def admit(self, scope: Any) -> None:
        """Note who comes.

        Raises:
            Problem: Nobody is signed in, and the path is not open.
        """
        path = scope["path"]
        if path.startswith(_STATIC):
            return
        visitor = await self._sessions.visitor(scope)
        if visitor is not None:
            scope["state"]["principal"] = visitor.principal
            scope["state"]["visitor"] = visitor
        elif path not in _OPEN:
            raise Problem("unauthenticated", "Nobody is signed in.", remedy="Sign in.")


def refusal(problem: Problem, scope: Any) -> tuple[int, dict[str, str], bytes]:
    """Give status, headers and body of an answer that says no."""
    headers = dict(scope["headers"])
    if problem.status == 401:
        # A script gets an answer, a person the way in.
        if scope["method"] != "GET" or FRAGMENT in headers or scope["path"] == EVENTS:
            return raw("Nobody is signed in.", 401)
        path = scope["path"]
        if query := scope["query_string"].decode("latin-1"):
            path = f"{path}?{query}"
        where = SIGN_IN if path in ("/", HOME) else f"{SIGN_IN}?next={quote(path, safe='')}"
        return raw("", 303, {"location": where})
    return error_page(problem, scope)

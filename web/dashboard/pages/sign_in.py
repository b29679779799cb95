"""Coming in and going out."""

from urllib.parse import quote

from litestar.response.base import ASGIResponse

from ...problems import Problem
from ..render import STATIC, page, redirect
from ..sessions import check_origin, no_cookie, session_cookie
from ..shows import AnyRequest, asked, form, local, plain_form, services, shows, static

_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_FILES = {path.name: path.read_bytes() for path in STATIC.iterdir() if path.suffix in _TYPES}


@shows("/", "open")
async def root(request: AnyRequest) -> ASGIResponse:
    """Send a browser to the dashboard."""
    return redirect("/ui")


@shows("/ui/static/{name}", "open")
async def file(request: AnyRequest) -> ASGIResponse:
    """Give a file of ours: only those that were there at the start."""
    name = str(request.path_params["name"])
    if name not in _FILES:
        raise Problem("not_found", "There is no such file.")
    return static(_FILES[name], _TYPES[name[name.rindex(".") :]])


@shows("/ui/sign-in", "open")
async def ask(request: AnyRequest) -> ASGIResponse:
    """Ask for a key."""
    where = local(asked(request, ["next"])["next"])
    if request.scope["state"].get("visitor"):
        return redirect(where)
    return page(request, "sign_in.html", next=where, refused=None)


@shows("/ui/sign-in", "open", method="POST")
async def sign_in(request: AnyRequest) -> ASGIResponse:
    """Take a key, give a session."""
    check_origin(request.scope)
    values = await plain_form(request)
    where = local(values.get("next"))
    key = values.get("key", "").strip()
    opened = await services(request).sessions.open(key) if 0 < len(key) <= 200 else None
    if opened is None:
        refused = "This key is not known, or it has been revoked or has expired."
        return page(request, "sign_in.html", 401, next=where, refused=refused)
    return redirect(_ascii(where), {"set-cookie": session_cookie(request.scope, opened)})


def _ascii(where: str) -> str:
    return quote(where, safe="/?&=%+:~,.-_!*'();@$[]")


@shows("/ui/sign-out", method="POST")
async def sign_out(request: AnyRequest) -> ASGIResponse:
    """End the session."""
    await form(request)
    await services(request).sessions.close(request.scope)
    return redirect("/ui/sign-in", {"set-cookie": no_cookie(request.scope)})


HANDLERS = [root, file, ask, sign_in, sign_out]

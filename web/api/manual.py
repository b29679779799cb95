"""The interactive manual: a page of ours that reads the OpenAPI document. It loads nothing else."""

from pathlib import Path

from litestar.response.base import ASGIResponse

from .routes import AnyRequest, handles

_FOLDER = Path(__file__).parents[1] / "manual"


def _file(name: str, media_type: str) -> ASGIResponse:
    return ASGIResponse(body=(_FOLDER / name).read_bytes(), headers={"content-type": media_type})


@handles("GET", "/docs")
async def page(request: AnyRequest) -> ASGIResponse:
    """Give the page."""
    return _file("page.html", "text/html; charset=utf-8")


@handles("GET", "/docs/page.js")
async def script(request: AnyRequest) -> ASGIResponse:
    """Give its script."""
    return _file("page.js", "text/javascript; charset=utf-8")


@handles("GET", "/docs/page.css")
async def style(request: AnyRequest) -> ASGIResponse:
    """Give its style."""
    return _file("page.css", "text/css; charset=utf-8")


HANDLERS = [page, script, style]

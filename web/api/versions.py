"""Versions as ETags."""

import re

from ..problems import Problem
from .routes import AnyRequest

_ETAG = re.compile(r'"v(\d{1,9})"')


def version_of(request: AnyRequest) -> int:
    """Give the version that an edit names.

    Raises:
        Problem: It names none, or what is none.
    """
    given = request.headers.get("if-match", "").strip()
    if not given:
        raise Problem(
            "precondition_required",
            "An edit must name the version that it changes.",
            "If-Match",
            remedy="Read it and send its ETag as If-Match.",
        )
    found = _ETAG.fullmatch(given)
    if found is None:
        raise Problem(
            "stale_version",
            "If-Match is no version.",
            "If-Match",
            given[:100],
            "Read it and send its ETag as If-Match.",
        )
    return int(found[1])

"""The event loop that a worker runs on."""

import asyncio
import sys
from typing import Any

from .children import note


def new_loop() -> asyncio.AbstractEventLoop:
    """Make uvloop's event loop, or the standard one where there is no uvloop."""
    if sys.platform == "win32":
        # psycopg's async side needs a selector.
        return asyncio.SelectorEventLoop()
    import uvloop

    class Loop(uvloop.Loop):
        """A loop that notes what it starts: uvloop does it without subprocess."""

        async def subprocess_exec(self, *arguments: Any, **keywords: Any) -> Any:
            started: Any = await super().subprocess_exec(*arguments, **keywords)
            note(started[0].get_pid())
            return started

        async def subprocess_shell(self, *arguments: Any, **keywords: Any) -> Any:
            started: Any = await super().subprocess_shell(*arguments, **keywords)
            note(started[0].get_pid())
            return started

    return Loop()

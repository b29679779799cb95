"""The event loop that a worker runs on."""

import asyncio
import sys


def new_loop() -> asyncio.AbstractEventLoop:
    """Make uvloop's event loop, or the standard one where there is no uvloop."""
    if sys.platform == "win32":
        # psycopg's async side needs a selector.
        return asyncio.SelectorEventLoop()
    import uvloop

    return uvloop.new_event_loop()

"""An app that can be imported once on a machine, by whoever is first."""

import os
import socket

from skiplane import Context, Skiplane

app = Skiplane()

# Gone with the process that holds it.
_place = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
_place.bind("\0" + os.environ["SKIPLANE_TEST_PLACE"])


@app.task("die_once")
async def die_once(ctx: Context) -> int:
    if ctx.attempt == 1:
        os._exit(1)
    return os.getpid()

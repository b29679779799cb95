"""What a supervisor and its worker processes say to each other."""

from enum import IntEnum

import msgspec

from .settings import WorkerSettings

# On the command pipe, after the orders.
STOP = b"s"
# On the guard pipe: it claims; it has ended as it should, which an exit code
# cannot say, since a task may call os._exit(0).
READY = b"r"
ENDED = b"e"


class Orders(msgspec.Struct):
    """The first line on the command pipe."""

    settings: WorkerSettings
    worker_id: str


class ExitCode(IntEnum):
    """What a worker process's end means to its supervisor."""

    DONE = 0
    UNUSABLE = 2  # it could not start: the app, the settings or the schema
    DRAINED = 3  # an operator asked for it
    RESTART = 4  # something in it is worn out

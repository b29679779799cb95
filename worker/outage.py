"""Trouble with the database: told once, waited out with growing, jittered pauses."""

import random
import threading
import time

import psycopg
import structlog

log = structlog.get_logger(__name__)

LONGEST_PAUSE = 5.0
QUIET_SECONDS = 30.0
# SQLSTATE: connection, out of resources, operator's intervention, I/O errors.
_AWAY = ("08", "53", "57P", "58")


def pause_seconds(failures: int) -> float:
    """Give the pause after so many failures in a row.

    Jittered, since many workers must not come back to a starting server as one.
    """
    return min(LONGEST_PAUSE, 0.1 * 2.0 ** min(failures, 10)) * random.uniform(0.5, 1.0)


def is_outage(error: BaseException) -> bool:
    """Tell whether an error means that the database is away, not that a call is wrong."""
    if isinstance(error, psycopg.Error) and error.sqlstate is not None:
        return error.sqlstate.startswith(_AWAY)
    return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError | OSError)


def one_line(error: BaseException) -> str:
    """Give an error's first line; the driver puts hints on further ones."""
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__


class Outage:
    """What one process says about a database that is away. Thread-safe.

    One line when it goes, one when it is back; of other errors one line in half
    a minute for each loop.

    Attributes:
        progress: When each loop last made progress (monotonic).
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._since: float | None = None
        self._told: dict[str, float] = {}
        self._wrong_since: dict[str, float] = {}
        self.progress: dict[str, float] = {}

    def failed(self, loop: str, error: BaseException) -> None:
        """Note that a loop's turn failed."""
        now = time.monotonic()
        with self._lock:
            if is_outage(error):
                first, self._since = self._since is None, self._since or now
                if first:
                    log.warning(
                        "the database is away; trying until it is back", cause=one_line(error)
                    )
                return
            self._wrong_since.setdefault(loop, now)
            if now - self._told.get(loop, -QUIET_SECONDS) >= QUIET_SECONDS:
                self._told[loop] = now
                log.error(
                    "a loop failed and is tried again",
                    loop=loop,
                    error=one_line(error),
                    error_type=type(error).__name__,
                )

    def worked(self, loop: str) -> None:
        """Note that a loop's turn went well."""
        self.progress[loop] = time.monotonic()
        if self._since is None and not self._wrong_since:
            return
        with self._lock:
            self._wrong_since.pop(loop, None)
            if self._since is not None:
                away = time.monotonic() - self._since
                self._since = None
                log.info("the database is back", away_seconds=round(away, 1))

    def wrong_seconds(self) -> float:
        """Give how long some loop has failed for a cause other than an outage."""
        with self._lock:
            since = min(self._wrong_since.values(), default=None)
        return 0.0 if since is None else time.monotonic() - since

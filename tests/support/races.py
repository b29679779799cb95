"""A second session that runs one call while the test goes on."""

import threading
from typing import Any

from .engine import Engine
from .waiting import backend_waits_for_lock, wait_for_lock, wait_until


class Racer:
    """Runs one call on its engine in a thread, to be waited for."""

    def __init__(self, engine: Engine, function: str, /, **arguments: Any) -> None:
        self.pid = engine.conn.info.backend_pid
        self._rows: list[tuple[Any, ...]] = []
        self._error: BaseException | None = None
        self._thread = threading.Thread(
            target=self._run, args=(engine, function, arguments), daemon=True
        )
        self._thread.start()

    def _run(self, engine: Engine, function: str, arguments: dict[str, Any]) -> None:
        try:
            self._rows = engine.rows(function, **arguments)
        except BaseException as error:
            self._error = error

    def wait_for_lock(self, watcher: Engine) -> "Racer":
        """Wait until the call waits for a lock of another session."""
        wait_for_lock(watcher.conn, self.pid)
        return self

    def rows(self, timeout: float = 30) -> list[tuple[Any, ...]]:
        """Give the rows of the call, or raise what it raised."""
        self._thread.join(timeout)
        assert not self._thread.is_alive(), "the call never came back"
        if self._error:
            raise self._error
        return self._rows

    def wait_settled(self, watcher: Engine) -> "Racer":
        """Wait until the call has ended or waits for a lock of another session."""
        wait_until(
            lambda: not self._thread.is_alive() or backend_waits_for_lock(watcher.conn, self.pid)
        )
        return self

    def result(self, timeout: float = 30) -> Any:
        """Give the value or row of a call that gives one."""
        [row] = self.rows(timeout)
        return row[0] if len(row) == 1 else row

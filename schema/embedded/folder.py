"""The folder of one embedded server: its files, their owner, its lock, its address.

``pg`` holds the database, ``run`` the socket, ``pg.log`` the server's log,
``password`` the password for TCP, ``port`` the last port, ``lock`` is held by
the running server.
"""

import fcntl
import hashlib
import os
import pwd
import re
import secrets
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from .binaries import Account, Binaries, EmbeddedError, run

# sockaddr_un holds 107 bytes on Linux, 103 on macOS and the BSDs.
LONGEST_SOCKET = 103
LARGEST_LOG = 16 * 1024 * 1024


@dataclass(frozen=True)
class Address:
    """Where a server listens; the port is also part of the socket's name."""

    socket_folder: str
    port: int


class DataFolder:
    """The files of one embedded server."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.pg = self.path / "pg"

    def prepare(self) -> Account | None:
        """Make the folder; give the user that the server must run as, None for our own.

        Raises:
            EmbeddedError: The folder cannot be made or reached.
        """
        account = self._account()
        missing = [folder for folder in (self.path, *self.path.parents) if not folder.exists()]
        try:
            for folder in reversed(missing):
                # Passing through is what the server's user needs, whatever our umask.
                folder.mkdir(exist_ok=True)
                folder.chmod(0o711 if account else 0o700)
        except OSError as error:
            raise EmbeddedError(
                f"The data folder {self.path} cannot be made: {error.strerror}. "
                "Name another in SKIPLANE_DATA."
            ) from error
        if account:
            self._check_reachable(account)
        return account

    def _account(self) -> Account | None:
        if os.geteuid() != 0:
            if self.pg.exists() and self.pg.stat().st_uid != os.geteuid():
                raise EmbeddedError(
                    f"The database in {self.path} belongs to user "
                    f"{_name(self.pg.stat().st_uid)}; start it as that user or as root."
                )
            return None
        if self.pg.exists():
            stat = self.pg.stat()
            if stat.st_uid == 0:
                raise EmbeddedError(
                    f"{self.pg} belongs to root, and PostgreSQL never runs as root."
                )
            return Account(_name(stat.st_uid), stat.st_uid, stat.st_gid)
        for name in ("nobody", "postgres"):
            try:
                entry = pwd.getpwnam(name)
            except KeyError:
                continue
            return Account(name, entry.pw_uid, entry.pw_gid)
        raise EmbeddedError(
            "PostgreSQL never runs as root, and this system has no user nobody or postgres."
        )

    def _check_reachable(self, account: Account) -> None:
        try:
            run(["/bin/sh", "-c", 'cd "$1"', "sh", self.path], account)
        except subprocess.CalledProcessError as error:
            raise EmbeddedError(
                f"User {account.name}, as whom the server runs, cannot enter {self.path}: "
                "a folder above it is closed. Name another folder in SKIPLANE_DATA, "
                "such as /var/lib/skiplane."
            ) from error

    def try_lock(self) -> int | None:
        """Take the lock of the running server; None when somebody holds it.

        The server inherits the descriptor, so the lock lasts as long as any of
        its processes: unlike a pid file it says nothing wrong after a kill -9,
        when its number went to another process, or in another container.
        """
        lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            return None
        return lock

    def address(self) -> Address | None:
        """Give the address that the server wrote down, which may be a dead one."""
        try:
            lines = (self.pg / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return None
        # pid, folder, start time, port, folder of the socket, ...
        if len(lines) < 5 or not lines[3].isdigit() or not lines[4]:
            return None
        return Address(lines[4], int(lines[3]))

    def postmaster(self) -> int:
        """Give the process id of a server that is known to run."""
        return int((self.pg / "postmaster.pid").read_text().split("\n", 1)[0])

    def forget_dead_server(self) -> None:
        """Remove its pid file. Call with the lock held.

        PostgreSQL believes in the file as long as its number belongs to some
        process of the same user, which in a container it soon does again.
        """
        (self.pg / "postmaster.pid").unlink(missing_ok=True)

    def initialise(self, binaries: Binaries, account: Account | None, *, sync: bool) -> None:
        """Make the database when there is none. Call with the lock held.

        Raises:
            EmbeddedError: It could not be made, or was made by another version.
        """
        if self.pg.exists():
            self._check_version(binaries)
            return
        # Under another name until it is whole: initdb may be killed half-way.
        scratch = self.path / "pg.new"
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(mode=0o700)
        if account:
            os.chown(scratch, account.uid, account.gid)
        try:
            _initdb(binaries, account, scratch, sync=sync)
        except subprocess.CalledProcessError as error:
            shutil.rmtree(scratch, ignore_errors=True)
            raise EmbeddedError(
                f"The database in {self.path} could not be made: {error.stderr.strip()}"
            ) from error
        _write_access_rules(scratch, account)
        scratch.rename(self.pg)

    def _check_version(self, binaries: Binaries) -> None:
        made_by = (self.pg / "PG_VERSION").read_text().strip()
        found = binaries.version()
        if made_by != str(found):
            raise EmbeddedError(
                f"The database in {self.path} was made by PostgreSQL {made_by}, and the programs "
                f"in {binaries.folder} are {found}: name those of {made_by} in SKIPLANE_PG_BIN, "
                "or dump the database with them and start in another folder."
            )

    def socket_folder(self, account: Account | None) -> Path:
        """Make and give a closed folder whose path is short enough for a socket."""
        folder = self.path / "run"
        longest = len(os.fsencode(folder / ".s.PGSQL.65535"))
        # A comma separates hosts in a DSN.
        if longest > LONGEST_SOCKET or re.search(r'[,"\n]', str(folder)):
            digest = hashlib.sha256(os.fsencode(self.path.resolve())).hexdigest()[:12]
            base = Path("/tmp") if Path("/tmp").is_dir() else Path(tempfile.gettempdir())
            folder = base / f"skiplane-{os.geteuid()}-{digest}"
        owner = account.uid if account else os.geteuid()
        try:
            folder.mkdir(mode=0o700)
            if account:
                os.chown(folder, account.uid, account.gid)
        except FileExistsError:
            stat = folder.lstat()
            if folder.is_symlink() or stat.st_uid != owner or stat.st_mode & 0o077:
                # The name is known and /tmp is everybody's.
                folder = Path(tempfile.mkdtemp(prefix="skiplane-"))
                os.chown(folder, owner, -1)
        return folder

    def password(self) -> str:
        """Give the generated password for connections over TCP."""
        path = self.path / "password"
        try:
            return path.read_text().strip()
        except FileNotFoundError:
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                file.write(password := secrets.token_urlsafe(24))
            return password

    def last_port(self) -> int | None:
        """Give the port of the last start, so that a configured client still finds us."""
        try:
            return int((self.path / "port").read_text())
        except (FileNotFoundError, ValueError):
            return None

    def remember_port(self, port: int) -> None:
        """Keep the port for the next start."""
        (self.path / "port").write_text(f"{port}\n")

    def open_log(self) -> int:
        """Give a descriptor for the server's messages."""
        path = self.path / "pg.log"
        if path.exists() and path.stat().st_size > LARGEST_LOG:
            path.rename(path.with_name("pg.log.1"))
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def log_since(self, offset: int) -> str:
        """Give the server's messages from that byte on."""
        with (self.path / "pg.log").open("rb") as file:
            file.seek(offset)
            return file.read().decode(errors="replace").strip()


def _initdb(binaries: Binaries, account: Account | None, folder: Path, *, sync: bool) -> None:
    command: list[str | Path] = [
        binaries.folder / "initdb",
        f"--pgdata={folder}",
        "--username=postgres",
        "--encoding=UTF8",
        "--data-checksums",
        "--auth-local=peer",
        "--auth-host=scram-sha-256",
        *([] if sync else ["--no-sync"]),
    ]
    try:
        if binaries.version() >= 17:
            # Needs nothing from the system, which may lack every locale but C.
            builtin = ["--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
            run([*command, *builtin], account)
        else:
            run([*command, "--locale=C.UTF-8", "--lc-messages=C"], account)
    except subprocess.CalledProcessError:
        run([*command, "--locale=C"], account)


def _write_access_rules(folder: Path, account: Account | None) -> None:
    # Only root and the server's user can enter the socket's folder; peer says
    # so once more, and needs no password in the DSN.
    users = {_name(os.geteuid()), "root"} | ({account.name} if account else set())
    rules = {
        "pg_hba.conf": (
            "local all all peer map=skiplane\n"
            "local replication postgres peer map=skiplane\n"
            "host all all 127.0.0.1/32 scram-sha-256\n"
            "host all all ::1/128 scram-sha-256\n"
        ),
        "pg_ident.conf": "".join(
            f'skiplane "{user}" {role}\n'
            for user in sorted(users)
            for role in ("postgres", "skiplane")
        ),
    }
    for name, text in rules.items():
        (folder / name).write_text(text)


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)

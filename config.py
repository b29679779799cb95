"""The settings of every Skiplane process.

A setting comes from the first of these that has it: a command-line flag, the
environment, the settings file, the default. The file is TOML with one flat
``name = value`` per setting; it is the one named by SKIPLANE_CONFIG (which must
then exist), else ``skiplane.toml`` in the current directory when there is one.
"""

import difflib
import ipaddress
import os
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import Meta

DEFAULT_FILE = "skiplane.toml"
_ADDRESSES = ("dsn", "listen_dsn")


class ConfigError(Exception):
    """Settings that cannot be used.

    Attributes:
        problems: One sentence for each, with the setting, its value, where it
            came from and what to do. All are found in one go, so that nobody
            has to restart a process once per mistake.
    """

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


def _seconds(low: float, high: float, why: str = "") -> Meta:
    text = f"a number of seconds from {low:g} to {high:g}{why}"
    return Meta(ge=low, le=high, description=text)


def _default_data_dir() -> Path:
    # XDG Base Directory Specification: a relative path in the variable is
    # invalid and must be ignored.
    xdg = Path(os.environ.get("XDG_DATA_HOME", ""))
    if xdg.is_absolute():
        return xdg / "skiplane"
    # PostgreSQL refuses to run as root, and the user that it runs as then cannot
    # enter root's home.
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        return Path("/var/lib/skiplane")
    return Path.home() / ".local" / "share" / "skiplane"


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Every setting, checked. Times are seconds unless the name ends in ``_ms``.

    Attributes:
        dsn: Where PostgreSQL is: a URI or a libpq string, None for the embedded
            server. SKIPLANE_DSN.
        listen_dsn: A direct address for notifications, where ``dsn`` goes through
            a pooler that does not pass them on; None: ``dsn``.
        prepare: Whether a worker uses prepared statements; None: unless pooled.
        data_dir: Absolute path of the embedded server's files. SKIPLANE_DATA.
        lease_seconds: How long a claim stays valid without a heartbeat, and so
            how late the tasks of a crashed worker run again.
        grace_seconds: How long a stopping worker lets running tasks finish.
        kill_grace_seconds: Time between asking a task to stop and killing it. The
            engine takes a task from its worker 10 s after its time-out and has
            the process killed: a longer grace would never be had, and one of just
            10 s would race with that.
        poll_seconds: The longest an idle worker waits when no notification
            arrives; a safety net, not the usual wake-up.
        builtin_tasks: Whether a worker has the task types skiplane.http, .sql, .notify
            and .webhook.
        allow_networks: Networks besides the public ones that skiplane.http and
            webhooks may reach, such as ``10.0.0.0/8, 127.0.0.1``.
        notify_config: Path of an Apprise file: where skiplane.notify sends to.
        metrics_port: Where Prometheus finds a scheduler, or the first process of a
            worker; its others listen on the ports after it. 0: nowhere.
        traces: Whether a worker sends spans to where the OTEL_ variables say.
        tick_ms: Pause between two passes of the scheduler, in milliseconds.
        log_format: ``json`` for machines, ``console`` for people, ``auto`` for
            console on a terminal and JSON elsewhere.
        log_level: The least severe level that is written.
    """

    dsn: Annotated[str | None, Meta(description="like postgresql://user@host:5432/database")] = None
    listen_dsn: Annotated[
        str | None, Meta(description="for notifications, an address without a pooler")
    ] = None
    prepare: Annotated[
        bool | None, Meta(description="true for prepared statements or false for none")
    ] = None
    data_dir: Annotated[Path, Meta(description="a folder")] = msgspec.field(
        default_factory=_default_data_dir
    )
    lease_seconds: Annotated[float, _seconds(1, 3600)] = 10.0
    grace_seconds: Annotated[float, _seconds(0, 86400)] = 30.0
    kill_grace_seconds: Annotated[
        float, _seconds(0, 8, " (the engine takes a task away 10 s after its time-out)")
    ] = 5.0
    poll_seconds: Annotated[float, _seconds(0.1, 3600)] = 5.0
    builtin_tasks: Annotated[
        bool | None, Meta(description="true for the built-in task types or false for none")
    ] = None
    allow_networks: Annotated[
        str | None,
        Meta(description="networks that built-in tasks may reach, like 10.0.0.0/8,127.0.0.1"),
    ] = None
    notify_config: Annotated[
        str | None, Meta(description="the path of an Apprise file, for skiplane.notify")
    ] = None
    metrics_port: Annotated[
        int,
        Meta(ge=0, le=65535, description="a port for Prometheus from 1 to 65535, or 0 for none"),
    ] = 0
    traces: Annotated[
        bool | None, Meta(description="true to send OpenTelemetry traces or false for none")
    ] = None
    tick_ms: Annotated[
        int, Meta(ge=1, le=10_000, description="a whole number of milliseconds from 1 to 10000")
    ] = 25
    log_format: Annotated[
        Literal["auto", "json", "console"], Meta(description="auto, json or console")
    ] = "auto"
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"],
        Meta(description="debug, info, warning or error"),
    ] = "info"

    def __repr__(self) -> str:
        # Settings end up in logs and tracebacks; a DSN may hold a password.
        values = msgspec.structs.asdict(self)
        values.update((name, "***") for name in _ADDRESSES if values[name])
        return f"Config({', '.join(f'{name}={value!r}' for name, value in values.items())})"


SETTINGS: dict[str, msgspec.structs.FieldInfo] = {
    field.name: field for field in msgspec.structs.fields(Config)
}


def env_name(setting: str) -> str:
    """Give the environment variable of a setting, e.g. SKIPLANE_LEASE_SECONDS."""
    return "SKIPLANE_DATA" if setting == "data_dir" else f"SKIPLANE_{setting.upper()}"


def remedy(setting: str) -> str:
    """Say in a few words what a setting takes."""
    return str(get_args(SETTINGS[setting].type)[1].description)


def load_config(flags: Mapping[str, Any] | None = None) -> Config:
    """Read and check all settings.

    Args:
        flags: Settings from the command line by name. None means not given.

    Raises:
        ConfigError: The file cannot be read, or a setting is unknown or bad.
    """
    values: dict[str, Any] = {}
    problems: list[str] = []
    for source, setting, raw in _given(flags or {}):
        if setting not in SETTINGS:
            problems.append(_unknown(setting, source))
            continue
        try:
            values[setting] = _convert(setting, raw)
        except ValueError as error:
            shown = "(not shown, it may hold a password)" if setting in _ADDRESSES else repr(raw)
            problems.append(
                f"{setting} = {shown} from {source} is refused: {error}. "
                f"Give {remedy(setting)}, or leave it out."
            )
    if problems:
        raise ConfigError(problems)
    return Config(**values)


def _given(flags: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """Yield (source, setting, raw value), the weakest source first."""
    path = _file()
    if path is not None:
        for setting, value in _read(path).items():
            yield str(path), setting, value
    for setting in SETTINGS:
        # Set but empty counts as not given: compose files and unit files pass
        # on variables that nobody has set in that form.
        if value := os.environ.get(env_name(setting)):
            yield env_name(setting), setting, value
    for setting, value in flags.items():
        if value is not None:
            yield f"--{setting.replace('_', '-')}", setting, value


def _file() -> Path | None:
    if named := os.environ.get("SKIPLANE_CONFIG"):
        return Path(named)
    return Path(DEFAULT_FILE) if Path(DEFAULT_FILE).is_file() else None


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        reason = f"cannot be read ({error.strerror}). Correct or unset SKIPLANE_CONFIG."
        raise ConfigError([f"The settings file {path} {reason}"]) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError([f"The settings file {path} is not TOML: {error}."]) from error


def _unknown(setting: str, source: str) -> str:
    close = difflib.get_close_matches(setting, SETTINGS, n=1)
    hint = f"Did you mean {close[0]}?" if close else f"Known are {', '.join(SETTINGS)}."
    return f"{setting} from {source} is no setting. {hint}"


def _convert(setting: str, raw: Any) -> Any:
    if setting in _ADDRESSES:
        return _dsn(raw)
    if setting == "data_dir":
        if not isinstance(raw, str | Path):
            raise ValueError("it is not a path")
        return Path(raw).expanduser().absolute()
    if setting == "allow_networks":
        _check_networks(raw)
    # Text from the environment and from flags has no types; "10" is a number
    # there, but a mistake in TOML is not worth telling apart.
    return msgspec.convert(raw, SETTINGS[setting].type, strict=False)


def _check_networks(raw: Any) -> None:
    if not isinstance(raw, str):
        raise ValueError("it is not text")
    for part in filter(None, (part.strip() for part in raw.split(","))):
        ipaddress.ip_network(part)


def _dsn(raw: Any) -> str:
    import psycopg.conninfo  # slow to import, and most settings need no driver

    if not isinstance(raw, str):
        raise ValueError("it is not text")
    try:
        psycopg.conninfo.conninfo_to_dict(raw)
    except psycopg.ProgrammingError:
        # libpq's message quotes parts of the string.
        raise ValueError("it is not a PostgreSQL connection string") from None
    return raw

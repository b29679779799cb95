"""Settings: where they come from, and what is refused."""

import os
import re
from pathlib import Path

import pytest

from skiplane.config import SETTINGS, Config, ConfigError, env_name, load_config, remedy


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ["SKIPLANE_CONFIG", "XDG_DATA_HOME", *map(env_name, SETTINGS)]:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 1000, raising=False)
    monkeypatch.chdir(tmp_path)


def refused(flags: dict[str, object] | None = None) -> str:
    with pytest.raises(ConfigError) as caught:
        load_config(flags)
    return str(caught.value)


def test_nothing_given_means_the_defaults(tmp_path: Path):
    config = load_config()
    assert config == Config()
    assert config.dsn is None
    assert config.lease_seconds == 10.0
    assert config.data_dir == tmp_path / ".local/share/skiplane"


def test_file_beats_default_environment_beats_file_flag_beats_all(
    monkeypatch: pytest.MonkeyPatch,
):
    Path("skiplane.toml").write_text("lease_seconds = 11\n")
    assert load_config().lease_seconds == 11.0
    monkeypatch.setenv("SKIPLANE_LEASE_SECONDS", "12.5")
    assert load_config().lease_seconds == 12.5
    assert load_config({"lease_seconds": 13}).lease_seconds == 13.0


def test_flag_that_was_not_given_changes_nothing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SKIPLANE_TICK_MS", "50")
    assert load_config({"tick_ms": None}).tick_ms == 50


def test_empty_variable_counts_as_not_given(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SKIPLANE_DSN", "")
    monkeypatch.setenv("SKIPLANE_TICK_MS", "")
    assert load_config() == Config()


def test_each_setting_can_come_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    given = {
        "SKIPLANE_DSN": "postgresql://ada@db/app",
        "SKIPLANE_LISTEN_DSN": "postgresql://ada@direct/app",
        "SKIPLANE_PREPARE": "false",
        "SKIPLANE_DATA": str(tmp_path / "pg"),
        "SKIPLANE_LEASE_SECONDS": "20",
        "SKIPLANE_GRACE_SECONDS": "0",
        "SKIPLANE_KILL_GRACE_SECONDS": "1.5",
        "SKIPLANE_POLL_SECONDS": "2",
        "SKIPLANE_TICK_MS": "40",
        "SKIPLANE_LOG_FORMAT": "json",
        "SKIPLANE_LOG_LEVEL": "debug",
        "SKIPLANE_BUILTIN_TASKS": "false",
        "SKIPLANE_ALLOW_NETWORKS": "10.0.0.0/8, ::1",
        "SKIPLANE_NOTIFY_CONFIG": "/etc/apprise.yml",
        "SKIPLANE_METRICS_PORT": "9100",
        "SKIPLANE_TRACES": "true",
    }
    assert set(given) == set(map(env_name, SETTINGS))
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    assert load_config() == Config(
        dsn="postgresql://ada@db/app",
        listen_dsn="postgresql://ada@direct/app",
        prepare=False,
        builtin_tasks=False,
        allow_networks="10.0.0.0/8, ::1",
        notify_config="/etc/apprise.yml",
        metrics_port=9100,
        traces=True,
        data_dir=tmp_path / "pg",
        lease_seconds=20.0,
        grace_seconds=0.0,
        kill_grace_seconds=1.5,
        poll_seconds=2.0,
        tick_ms=40,
        log_format="json",
        log_level="debug",
    )


def test_named_file_is_read_instead_of_the_one_here(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    Path("skiplane.toml").write_text("tick_ms = 30\n")
    (tmp_path / "other.toml").write_text("tick_ms = 31\n")
    monkeypatch.setenv("SKIPLANE_CONFIG", str(tmp_path / "other.toml"))
    assert load_config().tick_ms == 31


def test_named_file_must_exist(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SKIPLANE_CONFIG", "gone.toml")
    message = refused()
    assert "gone.toml" in message
    assert "SKIPLANE_CONFIG" in message


def test_file_that_is_not_toml_is_refused():
    Path("skiplane.toml").write_text("lease_seconds: 10\n")
    assert "skiplane.toml is not TOML" in refused()


def test_unknown_key_in_the_file_is_refused_with_the_likely_name():
    Path("skiplane.toml").write_text("lease_second = 10\n")
    message = refused()
    assert "lease_second from skiplane.toml" in message
    assert "Did you mean lease_seconds?" in message


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("lease_seconds", "ten"),
        ("lease_seconds", "0"),
        ("lease_seconds", "nan"),
        ("lease_seconds", "inf"),
        ("lease_seconds", True),
        ("grace_seconds", "-1"),
        ("kill_grace_seconds", "8.1"),
        ("poll_seconds", "0"),
        ("prepare", "perhaps"),
        ("tick_ms", "2.5"),
        ("tick_ms", "0"),
        ("data_dir", 5),
        ("log_format", "xml"),
        ("log_level", "INFO "),
    ],
)
def test_bad_value_is_refused_with_setting_value_source_and_remedy(setting: str, value: object):
    message = refused({setting: value})
    assert f"{setting} = {value!r}" in message
    assert f"from --{setting.replace('_', '-')}" in message
    assert remedy(setting) in message


@pytest.mark.parametrize("setting", ["dsn", "listen_dsn"])
def test_refused_dsn_never_shows_its_password(setting: str):
    message = refused({setting: "postgresql://ada:s3cret@db:notaport/app?x"})
    assert f"{setting} =" in message
    assert "s3cret" not in message
    assert remedy(setting) in message


def test_printed_settings_never_show_the_dsn():
    secret = "postgresql://ada:s3cret@db/app"
    assert "s3cret" not in repr(Config(dsn=secret, listen_dsn=secret))


def test_kill_grace_that_the_watchdog_would_cut_short_is_refused_with_the_reason():
    assert load_config({"kill_grace_seconds": "8"}).kill_grace_seconds == 8.0
    assert "takes a task away 10 s after its time-out" in refused({"kill_grace_seconds": "10"})


def test_all_problems_are_told_at_once(monkeypatch: pytest.MonkeyPatch):
    Path("skiplane.toml").write_text("colour = 'red'\n")
    monkeypatch.setenv("SKIPLANE_TICK_MS", "fast")
    with pytest.raises(ConfigError) as caught:
        load_config({"log_level": "loud"})
    assert len(caught.value.problems) == 3


def test_data_dir_is_absolute_and_knows_the_home(tmp_path: Path):
    assert load_config({"data_dir": "here"}).data_dir == tmp_path / "here"
    assert load_config({"data_dir": "~/pg"}).data_dir == tmp_path / "pg"


def test_root_keeps_data_where_the_server_can_reach_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0, raising=False)
    assert load_config().data_dir == Path("/var/lib/skiplane")


def test_relative_xdg_data_home_is_ignored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("XDG_DATA_HOME", "relative")
    assert load_config().data_dir == tmp_path / ".local/share/skiplane"
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "xdg"))
    assert load_config().data_dir == tmp_path / "xdg/skiplane"


def test_readme_tells_each_setting_with_its_variable_and_default():
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*) \|", readme, re.MULTILINE))
    assert set(rows) == set(SETTINGS)
    for setting, row in rows.items():
        assert f"`{env_name(setting)}`" in row
        default = SETTINGS[setting].default
        if isinstance(default, str | int | float):
            shown = default if isinstance(default, str) else f"{default:g}"
            assert f"| `{shown}` |" in row or f"| {shown} |" in row

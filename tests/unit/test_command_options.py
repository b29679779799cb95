"""Options that commands take over from the settings."""

import click
import pytest
from click.testing import CliRunner

from skiplane.cli import LazyGroup
from skiplane.commands.options import configured
from skiplane.config import Config


@click.command()
@configured("dsn", "lease_seconds")
@click.argument("word")
def sample(config: Config, word: str) -> None:
    click.echo(f"{word} {config.dsn} {config.lease_seconds}")


@click.command()
@configured("listen_dsn", "prepare")
def pooled(config: Config) -> None:
    click.echo(f"{config.listen_dsn} {config.prepare}")


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CONFIG", "DSN", "LISTEN_DSN", "PREPARE"):
        monkeypatch.delenv(f"SKIPLANE_{name}", raising=False)


def test_option_reaches_the_settings():
    result = CliRunner().invoke(sample, ["hello", "--dsn", "dbname=a", "--lease-seconds", "7"])
    assert result.output == "hello dbname=a 7.0\n"


def test_option_left_out_leaves_the_weaker_sources(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SKIPLANE_LEASE_SECONDS", "8")
    assert CliRunner().invoke(sample, ["hello"]).output == "hello None 8.0\n"


def test_a_switch_is_given_by_its_name_alone_and_beats_the_environment(
    monkeypatch: pytest.MonkeyPatch,
):
    assert CliRunner().invoke(pooled).output == "None None\n"
    monkeypatch.setenv("SKIPLANE_PREPARE", "true")
    monkeypatch.setenv("SKIPLANE_LISTEN_DSN", "dbname=a")
    assert CliRunner().invoke(pooled).output == "dbname=a True\n"
    flags = ["--no-prepare", "--listen-dsn", "dbname=b"]
    assert CliRunner().invoke(pooled, flags).output == "dbname=b False\n"


def test_help_names_unit_default_and_variable():
    text = " ".join(CliRunner().invoke(sample, ["--help"]).output.split())
    assert "seconds from 1 to 3600, default 10.0 (SKIPLANE_LEASE_SECONDS)" in text


def test_bad_setting_ends_the_command_with_a_message(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("skiplane.cli.load_command", lambda name: sample)
    group = LazyGroup(name="skiplane")
    result = CliRunner().invoke(group, ["task", "hello", "--lease-seconds", "soon"])
    assert result.exit_code == 2
    assert "lease_seconds = 'soon' from --lease-seconds" in result.output
    assert "Traceback" not in result.output

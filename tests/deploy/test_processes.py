"""Whatever is deployed starts the roles as they are, and gives them the time that they need."""

import re

import pytest

from skiplane.cli import load_command
from skiplane.config import SETTINGS, Config, env_name, load_config
from skiplane.web.serve import GRACE_SECONDS

from .manifests import COMPOSE, DEPLOY, ROOT, Process, env_file, processes

PROCESSES = processes()
ROLES = {"migrate", "web", "scheduler", "worker"}


@pytest.fixture(autouse=True)
def _nothing_from_outside(monkeypatch: pytest.MonkeyPatch):
    for setting in SETTINGS:
        monkeypatch.delenv(env_name(setting), raising=False)


def test_each_way_runs_every_role():
    for way in ("compose.yaml", "kubernetes", "systemd"):
        assert {p.role for p in PROCESSES if p.where.startswith(way)} == ROLES, way


@pytest.mark.parametrize("process", PROCESSES, ids=str)
def test_command_line_is_understood(process: Process):
    name, *arguments = process.arguments
    # It parses and converts, and does not run.
    load_command(name).make_context(name, arguments)


@pytest.mark.parametrize("process", PROCESSES, ids=str)
def test_settings_are_taken(process: Process, monkeypatch: pytest.MonkeyPatch):
    known = {env_name(setting) for setting in SETTINGS}
    given = {name: value for name, value in process.environment.items() if "SKIPLANE" in name}
    assert "SKIPLANE_DSN" in given
    assert set(given) <= known
    for name, value in given.items():
        monkeypatch.setenv(name, value if value is not None else "postgresql://from-a-secret/db")
    load_config()


def test_every_variable_that_is_named_anywhere_is_a_setting():
    known = {env_name(setting) for setting in SETTINGS} | {"SKIPLANE_CONFIG"}
    files = [COMPOSE, *(path for path in DEPLOY.rglob("*") if path.is_file())]
    # Of compose.yaml itself: what a person gives to fill it in.
    known |= set(env_file(DEPLOY / "compose.env"))
    for path in files:
        named = set(re.findall(r"\bSKIPLANE_[A-Z_]+\b", path.read_text()))
        assert named <= known, (path.name, named - known)


def test_compose_asks_for_no_variable_that_its_example_leaves_out():
    asked = set(re.findall(r"\$\{(\w+)", COMPOSE.read_text()))
    assert asked == set(env_file(DEPLOY / "compose.env"))


@pytest.mark.parametrize("process", [p for p in PROCESSES if p.role == "worker"], ids=str)
def test_a_worker_is_given_longer_than_its_longest_stop(
    process: Process, monkeypatch: pytest.MonkeyPatch
):
    """Its own limit for a process that stops, and what it waits for its leases."""
    for name, value in process.environment.items():
        if value is not None and name.startswith("SKIPLANE_"):
            monkeypatch.setenv(name, value)
    config = load_config()
    assert process.stop_seconds is not None
    assert process.stop_seconds > longest_stop(config)


def longest_stop(config: Config) -> float:
    """Give the seconds after which a stopping worker has killed what is left, and has ended."""
    return config.grace_seconds + config.kill_grace_seconds + config.lease_seconds + 2 + 2


@pytest.mark.parametrize("process", [p for p in PROCESSES if p.role == "web"], ids=str)
def test_web_is_given_longer_than_requests_may_take_to_be_answered(process: Process):
    assert process.stop_seconds is not None
    assert process.stop_seconds > GRACE_SECONDS + 5


def test_no_password_and_no_key_is_in_a_file():
    for path in (COMPOSE, *(path for path in DEPLOY.rglob("*") if path.is_file())):
        text = path.read_text()
        assert not re.search(r"postgres(?:ql)?://\w+:[^@/\s]+@", text), path
        for value in re.findall(r"(?:PASSWORD|PASSWORD__FILE|KEY)\w*\s*[:=][ ]*(.*)", text):
            assert not value or value.startswith(("${", "/run/secrets/")), (path, value)


def test_git_and_images_leave_secrets_out():
    for name in (".gitignore", ".dockerignore"):
        lines = {line.strip("/") for line in (ROOT / name).read_text().splitlines()}
        assert {".env", "deploy/secrets"} <= lines, name

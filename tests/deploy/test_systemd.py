"""The systemd units are taken by systemd, leave tasks their time, and give few rights."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .manifests import SYSTEMD, env_file, unit

SERVICES = sorted(path.name for path in SYSTEMD.glob("*.service"))
RUNNING = [name for name in SERVICES if name != "skiplane-migrate.service"]
ANALYZE = shutil.which("systemd-analyze")
needs_systemd = pytest.mark.skipif(ANALYZE is None, reason="systemd is not installed")


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The units, with programs and folders that exist on this machine."""
    for path in SYSTEMD.iterdir():
        text = re.sub(r"/opt/skiplane/bin/skiplane", sys.executable, path.read_text())
        (tmp_path / path.name).write_text(text.replace("/opt/skiplane/tasks", "/"))
    return tmp_path


@needs_systemd
def test_systemd_takes_the_units(installed: Path):
    units = [*SERVICES, "skiplane.target"]
    done = subprocess.run(
        [str(ANALYZE), "verify", "--man=no", *units],
        cwd=installed,
        capture_output=True,
        text=True,
    )
    # It names what it does not know and goes on: only silence is good, about our units.
    said = [line for line in done.stderr.splitlines() if "skiplane" in line]
    assert done.returncode == 0, done.stderr
    assert not said, done.stderr


@needs_systemd
@pytest.mark.parametrize("name", SERVICES)
def test_units_expose_little(installed: Path, name: str):
    """By systemd's own measure, which goes from 0 to 10."""
    done = subprocess.run(
        [str(ANALYZE), "security", "--offline=true", "--threshold=20", name],
        cwd=installed,
        capture_output=True,
        text=True,
    )
    if "unrecognized option" in done.stderr:
        pytest.skip("this systemd-analyze cannot judge units that are not installed (250 can)")
    assert done.returncode == 0, done.stdout[-200:] + done.stderr


@pytest.mark.parametrize("name", RUNNING)
def test_units_come_back_for_ever(name: str):
    """A worker ends while the database is not migrated; that is no reason to give up."""
    said = unit(name)
    assert said["Restart"] == ["always"]
    assert "RestartPreventExitStatus" not in said
    assert said["StartLimitIntervalSec"] == ["0"]
    assert said["WantedBy"] == ["skiplane.target"]
    assert said["PartOf"] == ["skiplane.target"]


@pytest.mark.parametrize("name", SERVICES)
def test_units_run_as_the_user_that_is_made(name: str):
    (line,) = [x for x in (SYSTEMD / "skiplane.sysusers").read_text().splitlines() if x[0] != "#"]
    kind, user, *_ = line.split()
    assert kind == "u"
    assert unit(name)["User"] == unit(name)["Group"] == [user]


def test_a_stop_leaves_what_tasks_have_started_to_the_worker():
    said = unit("skiplane-worker@.service")
    assert said["KillMode"] == ["mixed"]
    # One process that is out of memory must not stop the others.
    assert said["OOMPolicy"] == ["continue"]


def test_files_of_settings_are_those_that_are_shipped():
    named = {path for name in SERVICES for path in unit(name)["EnvironmentFile"]}
    assert named == {"/etc/skiplane/skiplane.env", "/etc/skiplane/worker-%i.env"}
    assert "SKIPLANE_DSN" in env_file(SYSTEMD / "skiplane.env")
    assert list(env_file(SYSTEMD / "worker-default.env")) == ["WORKER_ARGS"]

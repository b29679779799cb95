"""Prometheus takes the configuration that is shipped."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from .manifests import DEPLOY

FOLDER = DEPLOY / "prometheus"


@pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool is not installed (package prometheus)"
)
def test_prometheus_takes_the_configuration(tmp_path: Path):
    key = tmp_path / "key"
    key.write_text("sk_1_2")
    shutil.copy(FOLDER / "skiplane.rules.yml", tmp_path)
    config = tmp_path / "prometheus.yml"
    text = (FOLDER / "prometheus.yml").read_text()
    config.write_text(re.sub(r"(credentials_file:) .*", rf"\1 {key}", text))
    # With the rules that it names, and the file of the key.
    done = subprocess.run(["promtool", "check", "config", config], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "rules found" in done.stdout

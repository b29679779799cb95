"""The shipped alert rules and dashboard ask for metrics that exist."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
RULES = DEPLOY / "prometheus" / "skiplane.rules.yml"
TESTS = DEPLOY / "prometheus" / "skiplane.test.yml"
BOARD = DEPLOY / "grafana" / "skiplane.json"


@pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool is not installed (package prometheus)"
)
def test_alert_rules_fire_when_they_should():
    done = subprocess.run(["promtool", "test", "rules", TESTS], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_alert_is_tested():
    alerts = re.findall(r"- alert: (\w+)", RULES.read_text())
    assert len(alerts) >= 8
    assert set(alerts) == set(re.findall(r"alertname: (\w+)", TESTS.read_text()))


def test_the_dashboard_is_whole():
    board = json.loads(BOARD.read_text())
    ids = [panel["id"] for panel in board["panels"]]
    assert len(ids) == len(set(ids))
    for panel in board["panels"]:
        assert panel["datasource"]["uid"] == "${datasource}"
        assert all("skiplane_" in target["expr"] for target in panel["targets"])

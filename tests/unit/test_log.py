"""Logs: one form for our own records and for libraries'."""

import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from skiplane.config import Config
from skiplane.log import setup_logging


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


def test_json_has_the_same_form_for_structlog_and_the_standard_library(
    capsys: pytest.CaptureFixture[str],
):
    setup_logging(Config(log_format="json"))
    structlog.get_logger("ours").info("claimed", tasks=3)
    logging.getLogger("theirs").warning("pool is %s", "full")
    ours, theirs = map(json.loads, capsys.readouterr().err.splitlines())
    assert (ours["event"], ours["tasks"], ours["level"]) == ("claimed", 3, "info")
    assert (theirs["event"], theirs["level"]) == ("pool is full", "warning")
    assert set(theirs) == set(ours) - {"tasks"}


def test_auto_is_json_when_nobody_watches(capsys: pytest.CaptureFixture[str]):
    setup_logging(Config(log_format="auto"))
    structlog.get_logger("ours").info("started")
    assert json.loads(capsys.readouterr().err)["event"] == "started"


def test_console_is_for_people(capsys: pytest.CaptureFixture[str]):
    setup_logging(Config(log_format="console"))
    structlog.get_logger("ours").info("started", port=8)
    line = capsys.readouterr().err
    assert "started" in line
    assert "port=8" in line


def test_what_is_below_the_level_is_not_written(capsys: pytest.CaptureFixture[str]):
    setup_logging(Config(log_format="json", log_level="warning"))
    structlog.get_logger("ours").info("quiet")
    logging.getLogger("theirs").info("quiet")
    structlog.get_logger("ours").error("loud")
    assert [json.loads(line)["event"] for line in capsys.readouterr().err.splitlines()] == ["loud"]

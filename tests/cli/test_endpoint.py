"""Commands find a running `skiplane up`, and only a running one."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from skiplane.commands.endpoint import Taken, hold, read_endpoint, write_endpoint

HOLDER = """
import sys, pathlib
from skiplane.commands.endpoint import hold, write_endpoint
with hold(pathlib.Path(sys.argv[1])):
    write_endpoint(pathlib.Path(sys.argv[1]), "host=example")
    print("ready", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def other(tmp_path: Path):
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        yield process
        process.kill()


def test_endpoint_of_a_running_one_is_found(tmp_path: Path, other: "subprocess.Popen[str]"):
    assert read_endpoint(tmp_path) == "host=example"


def test_second_one_is_told_who_has_the_folder(tmp_path: Path, other: "subprocess.Popen[str]"):
    with pytest.raises(Taken) as caught, hold(tmp_path):
        pass
    assert caught.value.pid == other.pid
    # It has not taken anything away from the first.
    assert read_endpoint(tmp_path) == "host=example"


def test_killed_one_is_not_found_and_its_folder_is_free(
    tmp_path: Path, other: "subprocess.Popen[str]"
):
    other.kill()
    other.wait()
    assert (tmp_path / "endpoint.json").exists()
    assert read_endpoint(tmp_path) is None
    with hold(tmp_path):
        pass


def test_endpoint_goes_with_its_process(tmp_path: Path):
    with hold(tmp_path):
        write_endpoint(tmp_path, "host=example password=secret")
        mode = stat.S_IMODE((tmp_path / "endpoint.json").stat().st_mode)
        assert mode == 0o600
    assert not (tmp_path / "endpoint.json").exists()


def test_folder_is_made(tmp_path: Path):
    with hold(tmp_path / "a" / "b"):
        assert os.access(tmp_path / "a" / "b", os.W_OK)


def test_nothing_is_found_where_nothing_ran(tmp_path: Path):
    assert read_endpoint(tmp_path / "none") is None

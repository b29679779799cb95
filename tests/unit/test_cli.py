"""The command line as a whole: its list, its speed, its refusals."""

import subprocess
import sys

import pytest
from click.testing import CliRunner

from skiplane.cli import COMMANDS, load_command, main


@pytest.mark.parametrize("name", COMMANDS)
def test_listed_command_exists_and_says_what_the_list_says(name: str):
    command = load_command(name)
    assert command.name == name
    assert command.get_short_help_str(limit=200) == COMMANDS[name][1]


def test_help_lists_all_commands_without_importing_them():
    code = (
        "import sys; from click.testing import CliRunner; from skiplane.cli import main\n"
        "out = CliRunner().invoke(main, ['--help']).output\n"
        "print(out, [m for m in sys.modules if m.startswith('skiplane.commands.')])"
    )
    out = subprocess.check_output([sys.executable, "-c", code], text=True, timeout=60)
    for name, (_, line) in COMMANDS.items():
        assert name in out
        assert line in out
    assert out.rstrip().endswith("[]")


@pytest.mark.parametrize("option", ["--queues", "--types"])
def test_worker_for_no_names_is_refused(option: str):
    # An unset variable in a unit file must not start a worker on what it was not meant for.
    result = CliRunner().invoke(main, ["worker", "--app", "some.app", option, " , "])
    assert result.exit_code == 2
    assert "it names none" in result.output


def test_unknown_command_is_refused():
    result = CliRunner().invoke(main, ["wroker"])
    assert result.exit_code == 2
    assert "wroker" in result.output

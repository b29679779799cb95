"""The commands in docs/cli.md exist, with these options."""

import re
import shlex
from pathlib import Path

import click
import pytest

from skiplane.cli import COMMANDS, load_command

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = ("cli.md", "flow-control.md")
TEXT = "\n".join((DOCS / page).read_text(encoding="utf-8") for page in PAGES)
BLOCKS = re.findall(r"^```sh\n(.*?)^```", TEXT, re.M | re.S)
LINES = [line for block in BLOCKS for line in block.splitlines()]


@pytest.mark.parametrize("line", LINES)
def test_command_is_understood(line: str):
    program, name, *arguments = shlex.split(line)
    assert program == "skiplane"
    command = load_command(name)
    while isinstance(command, click.Group):
        name, arguments = arguments[0], arguments[1:]
        found = command.get_command(click.Context(command), name)
        assert found is not None
        command = found
    # It parses and converts, and does not run.
    command.make_context(name, arguments)


def test_every_command_is_shown():
    shown = {shlex.split(line)[1] for line in LINES}
    assert shown == set(COMMANDS)

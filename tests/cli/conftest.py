"""Fixtures of the command line's tests."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest

from skiplane.tests.support.engine import Engine

PROGRAM = "from skiplane.cli import main; main(prog_name='skiplane')"


class Said(NamedTuple):
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """Its output as JSON."""
        return json.loads(self.out)


Run = Callable[..., Said]


@pytest.fixture
def bare(tmp_path: Path) -> dict[str, str]:
    """An environment in which no setting is given and nothing runs."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("SKIPLANE_")}
    return {**kept, "SKIPLANE_DATA": str(tmp_path / "data"), "COLUMNS": "200"}


@pytest.fixture
def skiplane(dsn: str, bare: dict[str, str], tmp_path: Path) -> Run:
    """Runs a command on the fresh database, as from a shell."""

    def run(*arguments: str, stdin: str = "", **environment: str) -> Said:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            cwd=tmp_path,
            env={**bare, "SKIPLANE_DSN": dsn, **environment},
        )
        assert "Traceback" not in done.stderr, done.stderr
        return Said(done.returncode, done.stdout, done.stderr)

    return run


@pytest.fixture
def engine(conn: psycopg.Connection[tuple[Any, ...]]) -> Engine:
    """The verbs on the fresh database."""
    return Engine(conn)

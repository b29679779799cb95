"""The tables of docs/scaling.md are what the script makes of inputs that were measured."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from .manifests import ROOT

DOC = ROOT / "docs" / "scaling.md"
TEXT = DOC.read_text(encoding="utf-8")
SCALING = ROOT / "bench" / "scaling.py"
SIZES = ROOT / "bench" / "row_sizes.py"
BLOCK = re.search(r"^```\n(bytes for each.*?)^```", TEXT, re.M | re.S)


def run(script: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, script, *arguments], capture_output=True, text=True)


def given(name: str) -> float:
    """Give an input of the page."""
    found = re.search(rf"^\| `{name}` \| ([\d.,]+) \|", TEXT, re.M)
    assert found is not None, name
    return float(found[1].replace(",", ""))


def measured() -> dict[str, list[float]]:
    """Give the figures of the page's measurement by line: rows, indexes, sum, WAL, CPU."""
    assert BLOCK is not None
    lines = [re.split(r"\s{2,}", line.strip()) for line in BLOCK[1].splitlines()[1:]]
    return {name: [float(x) for x in re.split(r"\s+", " ".join(rest))] for name, *rest in lines}


def test_tables_are_what_the_script_computes(tmp_path: Path):
    copied = tmp_path / "scaling.md"
    copied.write_text(TEXT, encoding="utf-8")
    done = run(SCALING, copied, "--write")
    assert done.returncode == 0, done.stderr
    assert copied.read_text(encoding="utf-8") == TEXT
    printed = run(SCALING).stdout
    for table in printed.strip().split("\n\n"):
        assert table in TEXT


@pytest.mark.parametrize(
    ("name", "value", "was", "now"),
    [
        ("days", "15", "| history of all days | x `days` | 105 TB |", "52.4 TB |"),
        ("post_per_s", "10,000", "rate / `post_per_s` | 30 | 89 |", "`post_per_s` | 5 | 15 |"),
        ("node_cores", "2", "| 2 | 2 | 20 | disk |", "| 13 | 2 | 20 | disk |"),
    ],
)
def test_a_new_figure_changes_what_follows_from_it(
    tmp_path: Path, name: str, value: str, was: str, now: str
):
    copied = tmp_path / "scaling.md"
    assert was in TEXT
    copied.write_text(
        re.sub(rf"^\| `{name}` \| [^|]* \|", f"| `{name}` | {value} |", TEXT, flags=re.M)
    )
    done = run(SCALING, copied)
    assert done.returncode == 0, done.stderr
    assert was not in done.stdout
    assert now in done.stdout


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("", "wal_bytes is missing"),
        ("| `wal_bytes` | much | B | |", "wal_bytes = 'much' is no number"),
        ("| `wal_bytes` | 1 | B | |\n| `wal_bytes` | 2 | B | |", "wal_bytes stands there twice"),
    ],
)
def test_inputs_that_cannot_be_used_are_named(tmp_path: Path, line: str, said: str):
    copied = tmp_path / "scaling.md"
    copied.write_text(re.sub(r"^\| `wal_bytes` \|.*$", line, TEXT, flags=re.M))
    done = run(SCALING, copied, "--write")
    assert done.returncode == 1
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_inputs_are_those_of_the_measurement():
    lines = measured()
    now, later = (
        lines["submitted: task and ready row"],
        lines["submitted for a day with a partition"],
    )
    promoted = lines["promoted: task and ready row"]
    # The end of a task is the same for both.
    assert given("delayed_wal_bytes") == later[3] + promoted[3] - now[3]
    assert given("delayed_cpu_us") == pytest.approx(later[4] + promoted[4] - now[4])
    assert given("timer_bytes") == later[2]
    for name, line in (
        ("ready_bytes", "of these the ready row"),
        ("task_bytes", "and the task"),
        ("outcome_bytes", "finished: outcome with a result"),
        ("attempt_bytes", "failed and to be retried: attempt"),
        ("schedule_bytes", "schedule"),
        ("fire_bytes", "fired by hand: history"),
        ("workflow_bytes", "task of a workflow of 8: besides task, ready"),
    ):
        assert given(name) == lines[line][2], name
    assert given("key_bytes") == pytest.approx(
        lines["submitted with a key: the key's row"][2], abs=1
    )


def test_the_measurement_can_be_made_again():
    """Small, so that only the lines are looked at, and not what they say."""
    done = run(SIZES, "--tasks", "500")
    assert done.returncode == 0, done.stderr
    names = {re.split(r"\s{2,}", line.strip())[0] for line in done.stdout.splitlines()[1:]}
    assert names == set(measured())

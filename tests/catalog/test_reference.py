"""docs/sql-reference.md tells of every public function and view as it is."""

import re
from typing import Any

import psycopg

from skiplane.schema.reference import FILE, reference

Connection = psycopg.Connection[tuple[Any, ...]]


def test_reference_is_up_to_date(conn: Connection):
    assert FILE.read_text(encoding="utf-8") == reference(conn), (
        "run: python -m skiplane.schema.reference"
    )


def test_reference_leaves_out_what_is_private():
    names = re.findall(r"^### (\S+)$", FILE.read_text(encoding="utf-8"), re.M)
    assert {"submit_task", "claim_tasks", "retry_dead_letter", "tasks"} <= set(names)
    assert not [name for name in names if name.startswith("_")]

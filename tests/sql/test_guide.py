"""The examples of the guide for SQL run, in the order in which they stand."""

import re
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from skiplane.tests.support.engine import Connection

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "sql.md"
# As psql reads it: a statement ends with a semicolon, or with \gset, which keeps its columns.
STATEMENT = re.compile(r"(?P<text>[^;\\]+)(?P<end>;|\\gset\n)")


def statements() -> list[tuple[str, bool]]:
    found = []
    for block in re.findall(r"^```sql\n(.*?)^```", GUIDE.read_text(), re.M | re.S):
        parts = list(STATEMENT.finditer(block))
        assert "".join(part[0] for part in parts).strip() == block.strip()
        found += [(part["text"].strip(), part["end"] != ";") for part in parts]
    return found


def filled(text: str, variables: dict[str, object], conn: Connection) -> str:
    def literal(found: re.Match[str]) -> str:
        return sql.Literal(str(variables[found[1]])).as_string(conn)

    return re.sub(r":'(\w+)'", literal, text)


def test_the_guide_runs(conn: Connection):
    variables: dict[str, object] = {}
    last: dict[str, dict[str, Any]] = {}
    for text, keep in statements():
        done = conn.execute(filled(text, variables, conn).encode())
        if done.description is None:
            continue
        rows = done.fetchall()
        names = [column.name for column in done.description]
        if keep:
            variables.update(zip(names, rows[0], strict=True))
        elif rows:
            last[text.split("\n")[0]] = dict(zip(names, rows[0], strict=True))
    answers = {key.split("(")[0].removeprefix("select "): row for key, row in last.items()}
    assert answers["* from skiplane.get_result"]["result"] == {"sent": True}
    assert answers["task_id, duplicate"]["duplicate"] is True
    assert answers["skiplane.cancel_task"]["cancel_task"]["status"] == "CANCELLED"
    assert answers["skiplane.explain_waiting"]["explain_waiting"]


def test_the_refusal_in_the_guide_is_the_engine_s(conn: Connection):
    [shown] = re.findall(r"^```\n(select .*?)^```", GUIDE.read_text(), re.M | re.S)
    statement, said = shown.split(";\n", 1)
    try:
        conn.execute(statement.encode())
    except psycopg.Error as error:
        told = error.diag
    assert said.split("\n")[:3] == [
        f"ERROR:  {told.message_primary}",
        f"DETAIL:  {told.message_detail}",
        f"HINT:  {told.message_hint}",
    ]

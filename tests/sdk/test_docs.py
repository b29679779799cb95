"""The examples in the documentation run, in the order in which they stand."""

import ast
import inspect
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from types import ModuleType
from typing import Any

import psycopg
import pytest
import pytest_asyncio

from skiplane.testing import drain

DOCS = Path(__file__).resolve().parents[2] / "docs"


def blocks(page: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", (DOCS / page).read_text(), re.M | re.S)


async def run_blocks(page: str) -> dict[str, Any]:
    # A module of its own, since annotations and pickling look there.
    module = ModuleType(f"docs_{Path(page).stem}")
    sys.modules[module.__name__] = module
    names = vars(module)
    for number, block in enumerate(blocks(page)):
        code = compile(
            block, f"{page}, block {number}", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        )
        result = eval(code, names)
        if inspect.isawaitable(result):
            await result
    return names


@pytest_asyncio.fixture
async def names(
    request: pytest.FixtureRequest, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[dict[str, Any]]:
    monkeypatch.setenv("SKIPLANE_DSN", dsn)
    made = await run_blocks(request.param)
    yield made
    await made["app"].close()
    made["app"].close_sync()


@pytest.mark.parametrize("names", ["python.md"], indirect=True)
async def test_the_python_guide_runs(names: dict[str, Any]) -> None:
    assert len(names["ids"]) == 2
    assert names["ran"]
    waiting = names["somebody_waits"]
    names["handle"] = await names["send_email"].submit("ann@example.com")
    await drain(names["app"])
    assert await waiting() == "welcome to ann@example.com"


@pytest.mark.parametrize("names", ["transactions.md"], indirect=True)
async def test_the_guide_to_transactions_runs(names: dict[str, Any], dsn: str) -> None:
    tasks = await names["app"].list(task_type="send_invoice")
    assert sorted(task.payload["order_id"] for task in tasks) == [1, 2, 3]
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        await connection.execute("create table account (name text, balance numeric)")
        await connection.execute("insert into account values ('ann', 10)")
        handle = await names["pay"].submit("ann", 3)
        await drain(names["app"])
        assert await handle.result(timeout=30) == {"paid": "3"}
        cursor = await connection.execute("select balance from account")
        assert await cursor.fetchone() == (7,)


@pytest.mark.parametrize("names", ["workflows.md"], indirect=True)
async def test_the_guide_to_workflows_runs(names: dict[str, Any]) -> None:
    await drain(names["app"])
    record, results, nodes = await names["look"]()
    assert (record.status, results["report"]) == ("SUCCEEDED", "Orders: [1, 1, 2, 2, 3, 3]")
    assert nodes[-1] == ("alarm", "CANCELLED")
    assert [node.name for node in names["last"]] == ["archive"]
    assert names["daily"].nodes["report"].after == ["clean", "archive"]
    names["handle"] = await names["daily"].submit()
    await names["steer"]()
    assert await names["handle"].status() == "RUNNING"


@pytest.mark.parametrize("names", ["flow-control.md"], indirect=True)
async def test_the_guide_to_flow_control_runs(names: dict[str, Any], dsn: str) -> None:
    assert names["codes"][0] == "queue_paused"
    assert names["task_types"]["send_email"].rate_limit == "200/s"
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        text = (DOCS / "flow-control.md").read_text()
        for block in re.findall(r"^```sql\n(.*?)^```", text, re.M | re.S):
            await connection.execute(block.encode())
        cursor = await connection.execute(
            "select skiplane.get_task_type('charge_card') ->> 'paused'"
        )
        assert await cursor.fetchone() == ("false",)


def test_every_public_name_is_in_the_guides() -> None:
    import skiplane

    pages = ("python.md", "transactions.md", "workflows.md")
    text = "".join((DOCS / page).read_text() for page in pages)
    words = set(re.findall(r"\w+", text))
    assert set(skiplane.__all__) - words == {"__version__"}

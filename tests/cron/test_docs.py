"""The examples of docs/cron.md run."""

import re
from typing import Any

import psycopg
import pytest

from skiplane.tests.sdk.test_docs import DOCS, names

__all__ = ["names"]


@pytest.mark.parametrize("names", ["cron.md"], indirect=True)
async def test_the_guide_to_schedules_runs(names: dict[str, Any], dsn: str):
    assert [schedule.name for schedule in names["active"]] == ["cleanup-weekly", "cleanup-nightly"]
    assert names["schedule"].payload == {"days": 14}
    text = (DOCS / "cron.md").read_text()
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        for block in re.findall(r"^```sql\n(.*?)^```", text, re.M | re.S):
            await connection.execute(block.encode())
        cursor = await connection.execute("select name from skiplane.cron_tasks order by name")
        assert await cursor.fetchall() == [("cleanup-nightly",), ("cleanup-weekly",), ("report",)]

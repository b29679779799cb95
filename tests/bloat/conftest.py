"""A session that holds a snapshot open while others work, and a count of what a call reads."""

import json
import uuid
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from skiplane.tests.support.engine import Connection, Engine

# What the calls since the last tick have left differs by this much.
NOISE = 300
# Of an index: every entry that a scan came to, also where the row is dead.
# Of a table: the rows of sequential scans.
READ = """
select sum(pg_stat_get_xact_tuples_returned(c.oid))::bigint from pg_class c
where c.relnamespace = 'skiplane'::regnamespace
"""


class Load(Engine):
    """A worker, a producer and a scheduler in one session, on a clock that the test moves."""

    def __init__(self, conn: Connection) -> None:
        super().__init__(conn)
        conn.execute("select set_config('skiplane.now', skiplane.clock()::text, false)")
        self.cursor: Any = None
        self.state: Any = None
        self.lease_id: int | None = None
        self.held: list[uuid.UUID] = []

    def come(self, count: int, **options: Any) -> list[uuid.UUID]:
        """Submit tasks a moment after what was before: at one instant they would be in no order."""
        self.skip(0.001)
        return self.many(count, **options)

    def refresh(self) -> None:
        """Move the marks on, as the scheduler does."""
        self.state = Jsonb(self.value("refresh_lanes", state=self.state))

    def next_batch(self, limit: int, **options: Any) -> list[uuid.UUID]:
        """Finish what is held and claim the next; give what was claimed."""
        stale, self.lease_id, tasks, cursor = self.value(
            "finish_and_claim", **self._call(limit), **options
        )
        assert stale in (None, [])
        self.cursor = Jsonb(cursor)
        self.held = [uuid.UUID(task["task_id"]) for task in json.loads(tasks or "[]")]
        return self.held

    def reads(self, query: str, parameters: Any = None) -> int:
        """Count the index entries and rows that a call reads; what it did is rolled back."""
        with self.conn.transaction(force_rollback=True):
            before = self.one(READ)
            self.conn.execute(query.encode(), parameters)
            return int(self.one(READ) - before)

    def reads_of_claim(self, limit: int, cursor: Any = None) -> int:
        """Count what a claim reads."""
        query = "select * from skiplane.claim_tasks(%s, '{default}', %s, p_cursor => %s)"
        return self.reads(query, [self.worker, limit, cursor])

    def _call(self, limit: int) -> dict[str, Any]:
        return {
            "worker_id": self.worker,
            "lease_id": self.lease_id,
            "task_ids": self.held,
            "results": ["1"] * len(self.held),
            "started_us": None,
            "took_us": None,
            "failures": None,
            "queues": ["default"],
            "limit": limit,
            "cursor": self.cursor,
        }


@pytest.fixture
def load(conn: Connection) -> Load:
    """A worker, a producer and a scheduler."""
    return Load(conn)


@pytest.fixture
def snapshot(dsn: str, load: Load) -> Iterator[Connection]:
    """A session whose snapshot keeps vacuum from removing what is deleted from now on."""
    with psycopg.connect(dsn) as holder:
        holder.execute("set transaction isolation level repeatable read")
        holder.execute("select from skiplane.ready")
        yield holder

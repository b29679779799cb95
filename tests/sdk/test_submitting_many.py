"""Submitting many: in order, all or none."""

import asyncio
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import psycopg
import pytest

from skiplane import IdempotencyConflict, InvalidInput, Skiplane
from skiplane.schema import producer

Connection = psycopg.Connection[tuple[Any, ...]]


def count(conn: Connection) -> int:
    row = conn.execute("select count(*) from skiplane.tasks").fetchone()
    assert row is not None
    return int(row[0])


async def test_many_are_stored_in_order(
    app: Skiplane, conn: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producer, "CHUNK_TASKS", 3)

    @app.task("number", queue="numbers")
    async def number(n: int) -> None: ...

    ids = await number.submit_many([{"n": n} for n in range(10)])
    assert len(set(ids)) == 10
    assert all(isinstance(task_id, UUID) for task_id in ids)
    assert [(await app.get(task_id)).payload for task_id in ids] == [{"n": n} for n in range(10)]
    assert count(conn) == 10


async def test_many_with_one_positional_argument(app: Skiplane) -> None:
    @app.task("number")
    async def number(n: int) -> None: ...

    ids = await number.submit_many(range(2))
    assert [(await app.get(task_id)).payload for task_id in ids] == [{"n": 0}, {"n": 1}]


async def test_many_are_all_or_none(
    app: Skiplane, conn: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producer, "CHUNK_TASKS", 3)

    @app.task("number")
    async def number(n: int) -> None: ...

    items: list[dict[str, Any]] = [{"n": n} for n in range(10)] + [{"n": "ten"}]
    with pytest.raises(InvalidInput, match=r"items\[10\]"):
        await number.submit_many(items)
    with pytest.raises(InvalidInput, match=r"items\[10\]"):
        await asyncio.to_thread(number.submit_many_sync, items)
    with pytest.raises(InvalidInput, match="priority"):
        await app.submit_many("number", range(10), priority="urgent")  # type: ignore[arg-type]
    assert count(conn) == 0
    assert len(await number.submit_many(items[:10])) == 10  # the connection is still good


async def test_many_with_a_key_each(app: Skiplane, conn: Connection) -> None:
    keys = ["a", None, "b"]
    first = await app.submit_many("number", range(3), idempotency_keys=keys)
    again = await app.submit_many("number", range(3), idempotency_keys=keys)
    assert [first[0], first[2]] == [again[0], again[2]]
    assert first[1] != again[1]
    assert count(conn) == 4
    with pytest.raises(IdempotencyConflict):
        await app.submit_many("number", [7], idempotency_keys=["a"])


@pytest.mark.parametrize("keys", [["a"], ["a", "b", "c"], ["a", "a\x00"]])
async def test_many_need_as_many_keys(app: Skiplane, conn: Connection, keys: list[str]) -> None:
    with pytest.raises(InvalidInput, match="idempotency_keys"):
        await app.submit_many("number", range(2), idempotency_keys=keys)
    assert count(conn) == 0


async def test_one_key_cannot_stand_for_many(app: Skiplane, conn: Connection) -> None:
    with pytest.raises(InvalidInput, match="one for each"):
        await app.submit_many("number", range(2), idempotency_key="a")
    assert count(conn) == 0


async def test_none_at_all_are_no_error(app: Skiplane, conn: Connection) -> None:
    assert await app.submit_many("number", []) == []
    assert app.submit_many_sync("number", []) == []
    assert await app.submit_tasks([]) == []
    assert count(conn) == 0


async def test_the_sync_face_of_many(app: Skiplane, conn: Connection) -> None:
    ids = await asyncio.to_thread(app.submit_many_sync, "number", range(5))
    assert len(ids) == 5
    assert count(conn) == 5


async def test_a_mixed_list_is_stored_in_order(app: Skiplane) -> None:
    when = datetime(2027, 1, 1, tzinfo=UTC)
    answers = await app.submit_tasks(
        [
            {"task_type": "a", "payload": {"n": 1}, "priority": "high"},
            {"task_type": "b", "scheduled_at": when, "tenant": "acme"},
        ]
    )
    first, second = [await app.get(answer.task_id) for answer in answers]
    assert (first.task_type, first.payload, first.priority) == ("a", {"n": 1}, "high")
    assert (second.task_type, second.tenant_id, second.scheduled_at) == ("b", "acme", when)


async def test_a_mixed_list_is_all_or_none(app: Skiplane, conn: Connection) -> None:
    with pytest.raises(InvalidInput):
        await app.submit_tasks([{"task_type": "a"}, {"task_type": "b", "priority": "urgent"}])
    with pytest.raises(InvalidInput, match=r"tasks\[1\]\.task_type"):
        await app.submit_tasks([{"task_type": "a"}, {"payload": 1}])
    assert count(conn) == 0

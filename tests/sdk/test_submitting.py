"""Submitting: one, many, with options, and what the engine refuses."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import psycopg
import pytest

from skiplane import IdempotencyConflict, InvalidInput, Skiplane, Status, TooLarge
from skiplane.schema import producer
from skiplane.tests.support import wait_for_lock

Connection = psycopg.Connection[tuple[Any, ...]]


def count(conn: Connection) -> int:
    row = conn.execute("select count(*) from skiplane.tasks").fetchone()
    assert row is not None
    return int(row[0])


async def test_a_submitted_task_is_stored_with_its_options(app: Skiplane) -> None:
    @app.task("send_email", queue="email", max_retries=5, timeout=timedelta(minutes=5))
    async def send_email(to: str) -> None: ...

    handle = await send_email.options(
        priority="high", tenant="acme", metadata={"trace": "x"}, delay=60
    ).submit(to="a@example.com")
    task = await handle.get()
    assert (task.task_type, task.queue, task.priority) == ("send_email", "email", "high")
    assert (task.max_retries, task.timeout_seconds) == (5, 300.0)
    assert task.payload == {"to": "a@example.com"}
    assert task.tenant_id == "acme"
    assert task.metadata["trace"] == "x"
    assert task.status is Status.SCHEDULED
    assert task.scheduled_at is not None
    assert task.created_at is not None
    assert task.scheduled_at - task.created_at == timedelta(seconds=60)


async def test_the_answer_says_what_was_stored(app: Skiplane) -> None:
    handle = await app.submit("anything", {"a": 1})
    assert handle.submitted is not None
    assert handle.submitted.status is Status.PENDING
    assert handle.submitted.created_at.tzinfo is UTC
    assert not handle.duplicate


async def test_a_payload_may_be_any_json_value(app: Skiplane) -> None:
    for value in ("text", 5, [1, 2], {"a": "\\u0000"}, True):
        handle = await app.submit("anything", value)
        assert (await handle.get()).payload == value


async def test_the_sync_face_does_the_same(app: Skiplane) -> None:
    @app.task("add")
    def add(a: int, b: int) -> int:
        return a + b

    def submit() -> Any:
        return add.submit_sync(1, b=2).get_sync()

    task = await asyncio.to_thread(submit)
    assert task.payload == {"a": 1, "b": 2}


@pytest.mark.parametrize(
    ("when", "instant"),
    [
        (
            datetime(2026, 11, 1, 1, 30, fold=1, tzinfo=ZoneInfo("America/New_York")),
            datetime(2026, 11, 1, 6, 30, tzinfo=UTC),
        ),
        (
            datetime(2026, 11, 1, 1, 30, tzinfo=ZoneInfo("America/New_York")),
            datetime(2026, 11, 1, 5, 30, tzinfo=UTC),
        ),
    ],
)
async def test_a_repeated_hour_is_stored_as_the_instant_meant(
    app: Skiplane, when: datetime, instant: datetime
) -> None:
    handle = await app.submit("anything", scheduled_at=when)
    assert (await handle.get()).scheduled_at == instant


async def test_times_do_not_depend_on_the_sessions_zone(
    app: Skiplane, dsn: str, conn: Connection
) -> None:
    conn.execute(
        "do $$ begin execute format('alter database %I set timezone = ''Asia/Tokyo''',"
        " current_database()); end $$"
    )
    when = datetime(2027, 1, 1, 9, tzinfo=UTC)
    handle = await app.submit("anything", scheduled_at=when)
    assert handle.submitted is not None
    assert handle.submitted.scheduled_at == when
    assert str(handle.submitted.scheduled_at).endswith("+00:00")


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"priority": "urgent"}, "priority"),
        ({"queue": ""}, "queue"),
        ({"delay": -1}, "delay_seconds"),
        ({"delay": 1e9}, "delay_seconds"),
        ({"delay": 5, "scheduled_at": datetime(2027, 1, 1, tzinfo=UTC)}, "delay_seconds"),
        ({"scheduled_at": datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)}, "scheduled_at"),
        ({"scheduled_at": datetime(1, 1, 1, tzinfo=UTC)}, "scheduled_at"),
        ({"max_retries": -1}, "max_retries"),
        ({"retry_backoff": "quadratic"}, "retry_backoff"),
        ({"retry_jitter": "some"}, "retry_jitter"),
        ({"timeout": 0}, "timeout_seconds"),
    ],
)
async def test_the_engine_refuses_by_field_value_and_remedy(
    app: Skiplane, options: Any, field: str
) -> None:
    with pytest.raises(InvalidInput) as refusal:
        await app.submit("anything", **options)
    assert refusal.value.field == field
    assert refusal.value.value is not None
    assert refusal.value.remedy
    assert isinstance(refusal.value.__cause__, psycopg.Error)


async def test_a_payload_above_the_limit_is_too_large(app: Skiplane) -> None:
    with pytest.raises(TooLarge) as refusal:
        await app.submit("anything", "x" * 2_000_000)
    assert refusal.value.field == "payload"


async def test_the_same_key_and_body_give_the_first_task(app: Skiplane, conn: Connection) -> None:
    first = await app.submit("anything", {"a": 1, "b": 2}, idempotency_key="k")
    again = await app.submit("anything", {"b": 2, "a": 1}, idempotency_key="k")
    assert again == first
    assert (first.duplicate, again.duplicate) == (False, True)
    assert count(conn) == 1


@pytest.mark.parametrize(
    "changed", [{"payload": {"a": 2}}, {"priority": "high"}, {"task_type": "another"}]
)
async def test_the_same_key_with_another_body_is_a_conflict(
    app: Skiplane, changed: dict[str, Any]
) -> None:
    await app.submit("anything", {"a": 1}, idempotency_key="k")
    other = {"task_type": "anything", "payload": {"a": 1}, **changed}
    with pytest.raises(IdempotencyConflict) as refusal:
        await app.submit(**other, idempotency_key="k")
    assert refusal.value.field == "idempotency_key"


async def test_tenants_have_keys_of_their_own(app: Skiplane) -> None:
    first = await app.submit("anything", idempotency_key="k", tenant="a")
    second = await app.submit("anything", idempotency_key="k", tenant="b")
    assert first != second
    assert not second.duplicate


async def test_twenty_at_once_with_one_key_get_one_task(app: Skiplane, conn: Connection) -> None:
    handles = await asyncio.gather(
        *(app.submit("anything", {"a": 1}, idempotency_key="k") for _ in range(20))
    )
    assert len(set(handles)) == 1
    assert [handle.duplicate for handle in handles].count(False) == 1
    assert count(conn) == 1


async def test_a_key_whose_transaction_rolls_back_goes_to_the_next(
    app: Skiplane, two: tuple[Connection, Connection], conn: Connection
) -> None:
    first, third = two
    first.execute("begin")
    lost = app.submit_sync("anything", idempotency_key="k", connection=first)
    waiting = asyncio.create_task(app.submit("anything", idempotency_key="k"))
    pid = await _pid_of_waiter(conn)
    wait_for_lock(third, pid)
    first.execute("rollback")
    handle = await waiting
    assert not handle.duplicate
    assert handle != lost
    assert count(conn) == 1


async def _pid_of_waiter(conn: Connection) -> int:
    while True:
        await asyncio.sleep(0.01)
        row = conn.execute(
            "select pid from pg_stat_activity where datname = current_database()"
            " and application_name = 'skiplane app' and wait_event_type = 'Lock'"
        ).fetchone()
        if row:
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

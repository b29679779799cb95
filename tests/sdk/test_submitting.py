"""Submitting: one, many, with options, and what the engine refuses."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import psycopg
import pytest

from skiplane import IdempotencyConflict, InvalidInput, Skiplane, Status, TooLarge
from skiplane.schema.encode import MAX_DEPTH
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
    deep: Any = 1
    for _ in range(MAX_DEPTH):
        deep = [deep]
    for value in ("text", 5, [1, 2], {"a": "\\u0000"}, True, {"a": None}, 2**70, 10**299, deep):
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


async def test_an_integer_that_no_float_holds_is_refused(app: Skiplane) -> None:
    with pytest.raises(InvalidInput) as refusal:
        await app.submit("anything", {"a": 10**320})
    assert refusal.value.field == "payload"


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

"""Looking at tasks and steering them."""

import asyncio
import inspect
import math
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import psycopg
import pytest

from skiplane import Conflict, InvalidInput, NotFound, Skiplane, StaleVersion, Status
from skiplane.schema.records import TaskRecord, decode_record
from skiplane.task import Task
from skiplane.testing import drain


async def test_an_unknown_task_is_not_found(app: Skiplane) -> None:
    with pytest.raises(NotFound):
        await app.get(uuid4())
    with pytest.raises(NotFound):
        await app.cancel(uuid4())
    with pytest.raises(InvalidInput, match="UUID"):
        await app.get("7")


async def test_a_list_is_filtered_and_paged(app: Skiplane) -> None:
    ids = await app.submit_many("a", range(5), queue="x")
    await app.submit("b", queue="y", tenant="acme", delay=60)
    assert [task.task_type for task in await app.list(tenant="acme")] == ["b"]
    assert [task.task_type for task in await app.list(status="SCHEDULED")] == ["b"]
    assert len(await app.list(status=["SCHEDULED", "PENDING"])) == 6
    assert await app.list(task_type="a", queue="y") == []
    first = await app.list(queue="x", limit=3)
    second = await app.list(queue="x", limit=3, cursor=first[-1].cursor)
    assert {task.task_id for task in first + second} == set(ids)
    assert [len(first), len(second)] == [3, 2]
    assert await app.list(created_after=datetime.now(UTC) + timedelta(hours=1)) == []
    with pytest.raises(InvalidInput, match="time zone"):
        await app.list(created_after=datetime(2026, 1, 1))


async def test_a_cancelled_task_cannot_be_cancelled_again(app: Skiplane) -> None:
    handle = await app.submit("a")
    task = await app.cancel(handle.id, "not needed", actor="ann")
    assert task.status is Status.CANCELLED
    assert [(action.verb, action.actor) for action in task.actions] == [("cancel", "ann")]
    with pytest.raises(Conflict):
        await handle.cancel()


async def test_a_cancelled_task_can_be_retried(app: Skiplane) -> None:
    handle = await app.submit("a")
    await handle.cancel()
    assert (await handle.retry("needed after all")).status is Status.PENDING
    with pytest.raises(Conflict):
        await handle.retry()


async def test_an_edit_changes_what_it_names(app: Skiplane) -> None:
    handle = await app.submit("a", {"n": 1}, delay=3600)
    task = await handle.get()
    when = datetime(2027, 1, 1, tzinfo=UTC)
    edited = await app.edit(
        handle.id, task.version, payload={"n": 2}, priority="high", scheduled_at=when, timeout=5
    )
    assert edited.payload == {"n": 2}
    assert edited.priority == "high"
    assert edited.scheduled_at == when
    assert edited.timeout_seconds == 5.0
    assert edited.queue == task.queue
    assert edited.version > task.version


async def test_two_editors_cannot_overwrite_each_other(app: Skiplane) -> None:
    handle = await app.submit("a", delay=3600)
    task = await handle.get()
    await app.edit(handle.id, task.version, priority="high")
    with pytest.raises(StaleVersion):
        await app.edit(handle.id, task.version, priority="low")


async def test_dead_letters_are_listed_retried_and_discarded(app: Skiplane) -> None:
    @app.task("fail", max_retries=0, queue="q")
    async def fail(n: int) -> None:
        raise RuntimeError(f"no {n}")

    ids = [str(one) for one in await fail.submit_many(range(3))]
    await drain(app)
    letters = await app.dead_letters(task_type="fail")
    assert sorted(str(letter.task_id) for letter in letters) == sorted(ids)
    assert letters[0].died_at is not None
    assert letters[0].error_type == "RuntimeError"
    assert (await app.retry_dead_letter(ids[0])).status is Status.PENDING
    assert (await app.discard_dead_letter(ids[1], "known")).status is Status.DEAD
    assert [str(letter.task_id) for letter in await app.dead_letters()] == [ids[2]]
    assert await app.retry_dead_letters(queue="q") == 1
    assert await app.retry_dead_letters() == 0
    assert await app.dead_letters() == []
    with pytest.raises(NotFound):
        await app.retry_dead_letter(uuid4())


async def test_attempts_keep_their_errors(app: Skiplane) -> None:
    @app.task("fail", max_retries=1, retry_delay=1, retry_jitter="none")
    async def fail() -> None:
        raise RuntimeError("no")

    handle = await fail.submit()
    await drain(app)
    assert await handle.status() is Status.RETRYING
    await drain(app, ahead=60)
    task = await handle.get()
    assert task.status is Status.DEAD
    assert [(one.attempt, one.error_type) for one in task.attempts] == [
        (1, "RuntimeError"),
        (2, "RuntimeError"),
    ]
    assert "test_verbs.py" in (task.attempts[0].error_detail or "")


def test_every_verb_has_a_sync_twin_with_the_same_arguments() -> None:
    for kind in (Skiplane, Task):
        verbs = [
            name
            for name, member in inspect.getmembers(kind, inspect.iscoroutinefunction)
            if not name.startswith("_")
        ]
        assert len(verbs) >= 2
        for name in verbs:
            twin = inspect.signature(getattr(kind, f"{name}_sync"))
            assert twin == inspect.signature(getattr(kind, name)), name


async def test_the_sync_twins_work(app: Skiplane) -> None:
    def steer() -> list[Status]:
        handle = app.submit_sync("a", {"n": 1}, delay=60)
        seen = [handle.get_sync().status]
        version = handle.get_sync().version
        seen.append(app.edit_sync(handle.id, version, scheduled_at=datetime.now(UTC)).status)
        seen.append(handle.cancel_sync().status)
        seen.append(handle.retry_sync().status)
        assert [task.task_id for task in app.list_sync()] == [handle.id]
        assert app.dead_letters_sync() == []
        assert app.retry_dead_letters_sync() == 0
        return seen

    assert await asyncio.to_thread(steer) == ["SCHEDULED", "PENDING", "CANCELLED", "PENDING"]


DOCUMENT = (
    '{"task_id":"00000000-0000-0000-0000-000000000001","task_type":"a","queue":"q",'
    '"status":"PENDING","scheduled_at":"%s","payload":%s}'
)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("2026-07-01T09:00:00.5Z", datetime(2026, 7, 1, 9, 0, 0, 500_000, tzinfo=UTC)),
        ("infinity", datetime.max.replace(tzinfo=UTC)),
        ("-infinity", datetime.min.replace(tzinfo=UTC)),
        ("294276-12-31T00:00:00.000000Z", datetime.max.replace(tzinfo=UTC)),
        ("0044-03-15T00:00:00Z BC", datetime.min.replace(tzinfo=UTC)),
    ],
)
def test_a_time_that_no_datetime_holds_is_the_nearest(text: str, read: datetime) -> None:
    assert decode_record(DOCUMENT % (text, "{}"), TaskRecord).scheduled_at == read


def test_a_number_that_no_float_holds_does_not_break_a_record() -> None:
    assert decode_record(DOCUMENT % ("infinity", "1e400"), TaskRecord).payload == math.inf


async def test_a_row_set_by_hand_does_not_break_a_list(
    app: Skiplane, conn: psycopg.Connection
) -> None:
    handle = await app.submit("a")
    await app.submit("b")
    conn.execute(
        "update skiplane.task set created_at = 'infinity', scheduled_at = '-infinity'"
        " where id = %s",
        [handle.id],
    )
    assert {task.task_type for task in await app.list()} == {"a", "b"}

"""Pages neither lose nor repeat rows, and cost the same however rare the filter."""

import itertools
import threading
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import psycopg
import pytest

from skiplane.tests.api.conftest import Api
from skiplane.tests.support.engine import Engine

TASKS = "/api/v1/tasks"


def pages(client: httpx.Client, **query: Any) -> list[list[dict[str, Any]]]:
    found = []
    cursor = None
    for _ in range(2000):
        params = {**query, **({"cursor": cursor} if cursor else {})}
        answer = client.get(TASKS, params=params)
        assert answer.status_code == 200, answer.text
        page = answer.json()
        found.append(page["tasks"])
        cursor = page["next_cursor"]
        if cursor is None:
            return found
    raise AssertionError("no last page")


def ids(found: list[list[dict[str, Any]]]) -> list[str]:
    return [task["task_id"] for task in itertools.chain.from_iterable(found)]


@pytest.mark.parametrize(
    "query",
    [
        {},
        {"status": "PENDING"},
        {"status": ["PENDING", "SCHEDULED"]},
        {"tenant_id": "default"},
        {"queue": "default", "task_type": "work"},
    ],
)
def test_rows_of_one_instant_come_once_each(api: Api, dsn: str, query: dict[str, Any]):
    with psycopg.connect(dsn) as conn, conn.transaction():
        before = {str(task) for task in Engine(conn).many(300)}
    client = api.client("reader")
    stop = threading.Event()

    def disturb() -> None:
        with psycopg.connect(dsn, autocommit=True) as other:
            engine = Engine(other)
            while not stop.wait(0.02):
                engine.submit()

    thread = threading.Thread(target=disturb)
    thread.start()
    try:
        seen = ids(pages(client, limit=7, **query))
    finally:
        stop.set()
        thread.join()
    assert len(seen) == len(set(seen))
    assert before <= set(seen)
    assert seen == sorted(seen, reverse=True)


def test_row_that_the_cursor_points_to_may_go(client: httpx.Client, engine: Engine):
    made = [str(task) for task in engine.many(10)]
    first = client.get(TASKS, params={"limit": 4}).json()
    last = first["tasks"][-1]["task_id"]
    engine.conn.execute("delete from skiplane.ready where id = %s", [last])
    engine.conn.execute("delete from skiplane.task where id = %s", [last])
    rest = client.get(TASKS, params={"limit": 10, "cursor": first["next_cursor"]}).json()
    assert [task["task_id"] for task in rest["tasks"]] == sorted(made, reverse=True)[4:]


def test_attempts_do_not_count_as_rows(client: httpx.Client, engine: Engine):
    engine.many(6, retry_delay_seconds=0, retry_jitter="none")
    for _ in range(3):
        engine.fail(engine.claim(6))
    assert [len(page) for page in pages(client, limit=3)][:2] == [3, 3]


def test_each_filter_gives_what_it_says(client: httpx.Client, engine: Engine):
    workflow = uuid.uuid4()
    plain = engine.submit()
    tagged = engine.submit(metadata={"tags": ["red", "x"]})
    by_key = engine.submit(metadata={"tags": {"blue": 1}})
    other = engine.submit("other", queue="q2")
    tenant = engine.submit(metadata={"tenant_id": "b"})
    later = engine.submit(delay_seconds=600)
    engine.conn.execute(
        "update skiplane.task set workflow_id = %s where id = %s", [workflow, plain]
    )

    def found(**query: Any) -> set[str]:
        return set(ids(pages(client, limit=2, **query)))

    def text(*tasks: uuid.UUID) -> set[str]:
        return {str(task) for task in tasks}

    assert found() == text(plain, tagged, by_key, other, tenant, later)
    assert found(tag="red") == text(tagged)
    assert found(tag="blue") == text(by_key)
    assert found(task_type="other") == found(queue="q2") == text(other)
    assert found(tenant_id="b") == text(tenant)
    assert found(workflow_id=str(workflow)) == text(plain)
    assert found(status="SCHEDULED") == text(later)
    now = datetime.now(UTC)
    assert found(created_after=(now + timedelta(minutes=1)).isoformat()) == set()
    assert len(found(created_after=(now - timedelta(minutes=1)).isoformat())) == 6
    assert found(created_before=(now - timedelta(minutes=1)).isoformat()) == set()


def test_every_state_is_found_where_it_is(client: httpx.Client, engine: Engine):
    engine.submit(delay_seconds=600)
    engine.submit(delay_seconds=300_000_000)
    cancelled = engine.submit(queue="c")
    engine.conn.execute("select skiplane.cancel_task(%s)", [cancelled])
    engine.submit(queue="s")
    engine.finish(engine.claim(queues=["s"]))
    engine.submit(queue="d", max_retries=0)
    engine.fail(engine.claim(queues=["d"]))
    engine.submit(queue="f")
    engine.fail(engine.claim(queues=["f"]), kind="permanent")
    engine.submit(queue="r")
    engine.fail(engine.claim(queues=["r"]))
    engine.submit(queue="x")
    engine.claim(queues=["x"])
    engine.submit(queue="p")
    counts = {
        "SCHEDULED": 2,
        "CANCELLED": 1,
        "SUCCEEDED": 1,
        "DEAD": 1,
        "FAILED": 1,
        "RETRYING": 1,
        "RUNNING": 1,
        "PENDING": 1,
        "BLOCKED": 0,
    }
    for status, count in counts.items():
        found = [t["status"] for t in itertools.chain(*pages(client, limit=1, status=status))]
        assert found == [status] * count
    assert len(ids(pages(client, limit=100))) == sum(counts.values())
    assert len(ids(pages(client, limit=2, status="DEAD,FAILED"))) == 2


def test_rare_filter_looks_at_a_bounded_number_of_rows(client: httpx.Client, engine: Engine):
    rare = str(engine.submit("rare"))
    for _ in range(12):
        engine.many(1000)
    first = client.get(TASKS, params={"task_type": "rare"}).json()
    # Twelve thousand rows above it: the first page ends before it comes to them all.
    assert first["tasks"] == []
    assert first["next_cursor"] is not None
    assert ids(pages(client, task_type="rare")) == [rare]

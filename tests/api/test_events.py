"""The stream of events: everything is told, also what was committed late, and it ends."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import psycopg
import pytest

from skiplane.tests.api.conftest import Api, problem, serving
from skiplane.tests.support import wait_until, wait_until_async
from skiplane.tests.support.engine import Engine

EVENTS = "/api/v1/events"


class Listener:
    """Reads a stream in a thread.

    Attributes:
        told: (task_id, status) in the order in which they came.
        place: The last event's id.
        ended: The server has closed the stream.
    """

    def __init__(self, client: httpx.Client, headers: dict[str, str], query: dict[str, Any]):
        self.told: list[tuple[str, str]] = []
        self.documents: list[dict[str, Any]] = []
        self.place: str | None = None
        self.ended = False
        self._stop = threading.Event()
        self._arguments = (client, headers, query)
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        client, headers, query = self._arguments
        with client.stream("GET", EVENTS, params=query, headers=headers, timeout=30) as answer:
            assert answer.status_code == 200
            assert answer.headers["content-type"].startswith("text/event-stream")
            kind, place = "", None
            for line in answer.iter_lines():
                name, _, value = line.partition(": ")
                if name == "event":
                    kind = value
                elif name == "id":
                    place = value
                elif name == "data" and kind == "task":
                    document = json.loads(value)
                    self.documents.append(document)
                    self.told.append((document["task_id"], document["status"]))
                elif not line and place:
                    self.place = place
                if self._stop.is_set():
                    return
        self.ended = True

    def close(self) -> None:
        self._stop.set()
        self._thread.join(20)


@contextmanager
def listening(client: httpx.Client, last: str | None = None, **query: Any) -> Iterator[Listener]:
    headers = {"Last-Event-ID": last} if last else {}
    listener = Listener(client, headers, query)
    try:
        wait_until(lambda: listener.place, what="the stream")
        yield listener
    finally:
        listener.close()


def test_changes_are_told_as_they_happen(client: httpx.Client, engine: Engine):
    with listening(client) as stream:
        task = str(engine.submit(payload={}, metadata={"tenant_id": "a"}))
        later = str(engine.submit(delay_seconds=600))
        engine.fail(engine.claim())
        failing = engine.submit(max_retries=0)
        engine.fail(engine.claim())
        wanted = [
            (task, "PENDING"),
            (later, "SCHEDULED"),
            (task, "RETRYING"),
            (str(failing), "PENDING"),
            (str(failing), "DEAD"),
        ]
        wait_until(lambda: len(stream.told) >= 5, what="five events")
        assert stream.told == wanted
        first = stream.documents[0]
        assert first["tenant_id"] == "a"
        assert set(first) == {
            "task_id", "status", "at", "task_type", "queue", "tenant_id", "workflow_id",
        }  # fmt: skip


def test_filters_and_the_tenant_of_the_key_hold(api: Api, engine: Engine):
    bound, chosen = api.client("reader", "a"), api.client("reader")
    with (
        listening(bound) as own,
        listening(bound, tenant_id="b") as other,
        listening(chosen, queue="q", status="SUCCEEDED") as some,
        listening(chosen) as everything,
    ):
        engine.submit(metadata={"tenant_id": "b"})
        mine = str(engine.submit(metadata={"tenant_id": "a"}))
        done = str(engine.submit(queue="q"))
        engine.finish(engine.claim(queues=["q"]))
        wait_until(lambda: len(everything.told) == 4, what="all events")
        wait_until(lambda: some.told, what="the filtered one")
        wait_until(lambda: own.told, what="the tenant's one")
        was = other.place
        wait_until(lambda: other.place != was, what="another look")
        assert own.told == [(mine, "PENDING")]
        assert other.told == []
        assert some.told == [(done, "SUCCEEDED")]


def test_what_is_committed_late_is_told(client: httpx.Client, engine: Engine, dsn: str):
    with listening(client) as stream, psycopg.connect(dsn) as slow:
        late = str(Engine(slow).submit())
        early = [str(engine.submit()) for _ in range(3)]
        wait_until(lambda: len(stream.told) == 3, what="the others")
        # Well past the window in which changes are looked for again.
        was = stream.place
        wait_until(lambda: stream.place != was, what="another look")
        begun = time.monotonic()
        wait_until(lambda: time.monotonic() - begun > 2.5)
        slow.commit()
        wait_until(lambda: len(stream.told) == 4, what="the late one")
        assert stream.told == [(task, "PENDING") for task in [*early, late]]


def test_resuming_loses_nothing(client: httpx.Client, engine: Engine, dsn: str):
    with psycopg.connect(dsn) as slow:
        late = str(Engine(slow).submit())
        with listening(client) as stream:
            engine.submit()
            wait_until(lambda: stream.told, what="an event")
            was = stream.place
            wait_until(lambda: stream.place != was, what="the place after it")
        missed = [str(engine.submit()) for _ in range(3)]
        begun = time.monotonic()
        wait_until(lambda: time.monotonic() - begun > 2.5)
        slow.commit()
    with listening(client, stream.place) as again:
        wait_until(lambda: len(again.told) >= 4, what="what was missed")
        assert {task for task, _ in again.told} >= {late, *missed}


def test_place_that_is_none_of_ours_is_refused(client: httpx.Client):
    for place in ("1", "AAAA", "eJyrVkrLz1eyUkpKLFKqBQAdegQ0"):
        answer = client.get(EVENTS, headers={"Last-Event-ID": place})
        problem(answer, 422, "invalid_input", "Last-Event-ID")
    problem(client.get(EVENTS, params={"status": "RUNNING"}), 422, "invalid_input", "status")


def test_open_streams_and_waits_end_with_the_server(dsn: str, engine: Engine):
    task = engine.submit()
    with serving(dsn) as api:
        client = api.client()
        with listening(client) as stream:
            answers: list[httpx.Response] = []
            url = f"/api/v1/tasks/{task}/result"
            waiting = threading.Thread(
                target=lambda: answers.append(client.get(url, params={"wait": 60}))
            )
            waiting.start()
            wait_until(lambda: api.server.services.waiting._waiting, what="the wait")
            begun = time.monotonic()
            api.server.should_exit = True
            wait_until(lambda: stream.ended, 30, "the stream to end")
            waiting.join(30)
        assert time.monotonic() - begun < 30
        assert answers[0].status_code == 202


@pytest.mark.timeout(180)
def test_a_thousand_connections_need_few_of_the_database(
    dsn: str, conn: psycopg.Connection[Any], engine: Engine
):
    import asyncio

    many = 1000
    tasks = engine.many(many // 2)

    async def run(api: Api, key: str) -> int:
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
        headers = {"Authorization": f"Bearer {key}"}
        async with httpx.AsyncClient(
            base_url=api.url, headers=headers, limits=limits, timeout=90
        ) as client:
            open_ = asyncio.Semaphore(0)

            async def listen() -> int:
                async with client.stream("GET", EVENTS) as answer:
                    open_.release()
                    async for line in answer.aiter_lines():
                        if '"SUCCEEDED"' in line:
                            return answer.status_code
                return 0

            async def wait(task: Any) -> int:
                url = f"/api/v1/tasks/{task}/result"
                return (await client.get(url, params={"wait": 60})).status_code

            listeners = [asyncio.create_task(listen()) for _ in range(many // 2)]
            for _ in range(many // 2):
                await open_.acquire()
            waiters = [asyncio.create_task(wait(task)) for task in tasks]
            waiting = api.server.services.waiting
            await wait_until_async(lambda: len(waiting._waiting) == len(tasks), 30, "the waits")
            used = await asyncio.to_thread(
                engine.one,
                "select count(*) from pg_stat_activity where application_name = 'skiplane web'",
            )
            claim = await asyncio.to_thread(engine.claim, len(tasks))
            await asyncio.to_thread(engine.finish, claim)
            codes = await asyncio.gather(*listeners, *waiters)
            assert set(codes) == {200}
            return int(used)

    with serving(dsn) as api:
        assert asyncio.run(run(api, api.make_key("reader"))) <= 4

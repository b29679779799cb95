"""Back-pressure: rates of tenants, caps of queues, a database that is away."""

import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import httpx
import psycopg
import pytest

from skiplane.tests.api.conftest import Api, problem, serving
from skiplane.tests.support import Databases, wait_until
from skiplane.tests.support.engine import Engine

TASKS = "/api/v1/tasks"
TASK = {"task_type": "t"}


def setting(conn: psycopg.Connection[Any], **values: Any) -> None:
    for name, value in values.items():
        conn.execute(
            "insert into skiplane.setting (name, value) values (%s, to_jsonb(%s::numeric))"
            " on conflict (name) do update set value = excluded.value",
            [name, value],
        )


def test_rate_of_a_tenant_holds_over_all_processes(dsn: str, conn: psycopg.Connection[Any]):
    rate, burst, seconds = 20, 10, 6.0
    setting(conn, submissions_per_second=rate, submission_burst=burst)
    with ExitStack() as stack:
        servers = [stack.enter_context(serving(dsn)) for _ in range(2)]
        key = servers[0].make_key("producer")
        begun = time.monotonic()
        end = begun + seconds

        def push(api: Api) -> Counter[int]:
            codes: Counter[int] = Counter()
            with httpx.Client(headers={"Authorization": f"Bearer {key}"}) as client:
                while time.monotonic() < end:
                    answer = client.post(f"{api.url}{TASKS}", json=TASK)
                    codes[answer.status_code] += 1
                    if answer.status_code == 429:
                        time.sleep(0.005)
            return codes

        with ThreadPoolExecutor(8) as pool:
            total = sum(pool.map(push, servers * 4), Counter[int]())
        longest = time.monotonic() - begun
    assert set(total) == {202, 429}
    assert 0.85 * (burst + rate * seconds) <= total[202] <= 1.1 * (burst + rate * longest)


def test_refusal_says_when_to_come_again(api: Api, conn: psycopg.Connection[Any]):
    setting(conn, submissions_per_second=0.5, submission_burst=1)
    client = api.client("producer", "a")
    assert client.post(TASKS, json=TASK).status_code == 202
    answer = client.post(TASKS, json=TASK)
    problem(answer, 429, "rate_limited", "tenant_id")
    assert answer.headers["retry-after"] == "2"
    # Another tenant has a budget of its own.
    assert api.client("producer", "b").post(TASKS, json=TASK).status_code == 202


def test_batch_is_charged_whole(api: Api, conn: psycopg.Connection[Any]):
    setting(conn, submissions_per_second=10, submission_burst=20)
    client = api.client("producer", "a")
    batch = {"tasks": [TASK] * 40}
    assert client.post(f"{TASKS}/batch", json=batch).status_code == 202
    answer = client.post(TASKS, json=TASK)
    problem(answer, 429, "rate_limited")
    assert int(answer.headers["retry-after"]) >= 2


def test_few_grants_serve_many_requests(api: Api, conn: psycopg.Connection[Any]):
    client = api.client("producer", "a")
    client.post(TASKS, json=TASK)
    before = conn.execute("select xmin::text from skiplane.submission_budget").fetchone()
    for _ in range(20):
        client.post(TASKS, json=TASK)
    assert conn.execute("select xmin::text from skiplane.submission_budget").fetchone() == before


@pytest.fixture
def crowded(engine: Engine) -> Engine:
    """A queue of ten tasks, counted, with a soft cap of ten."""
    engine.many(10, queue="q")
    setting(engine.conn, queue_soft_cap=10, queue_hard_cap=20)
    engine.conn.execute("select skiplane.refresh_depth()")
    return engine


def queue_of(client: httpx.Client, priority: str) -> str:
    made = client.post(TASKS, json={**TASK, "queue": "q", "priority": priority})
    assert made.status_code == 202
    return str(client.get(f"{TASKS}/{made.json()['task_id']}").json()["queue"])


def test_low_priority_goes_to_the_overflow_and_back(crowded: Engine, api: Api):
    client = api.client()
    wait_until(lambda: api.server.services.pressure.queues, what="the caps to be seen")
    assert queue_of(client, "high") == queue_of(client, "medium") == "q"
    assert queue_of(client, "low") == "q~overflow"
    # Still too much: it stays there.
    crowded.conn.execute("select skiplane.refresh_depth()")
    assert crowded.one("select skiplane.return_overflow()") == 0
    crowded.finish(crowded.claim(12, queues=["q"]))
    crowded.conn.execute("select skiplane.refresh_depth()")
    assert crowded.one("select skiplane.return_overflow()") == 1
    [task] = crowded.claim(5, queues=["q"]).tasks
    assert client.get(f"{TASKS}/{task['task_id']}").json()["queue"] == "q"
    wait_until(lambda: not api.server.services.pressure.queues, what="the queue to be seen free")
    assert queue_of(client, "low") == "q"


def test_full_queue_takes_nothing(crowded: Engine, api: Api):
    crowded.many(10, queue="q")
    crowded.conn.execute("select skiplane.refresh_depth()")
    client = api.client()
    seen = api.server.services.pressure
    wait_until(lambda: seen.queues.get("q", (0, ""))[1] == "full", what="the caps to be seen")
    for priority in ("high", "low"):
        answer = client.post(TASKS, json={**TASK, "queue": "q", "priority": priority})
        problem(answer, 503, "queue_full", "queue")
    assert client.post(TASKS, json={**TASK, "queue": "other"}).status_code == 202
    shown = client.get("/api/v1/queues").json()["queues"]
    assert shown[0]["pressure"] == "full"


class Switch:
    """A database that can be taken away: no new connections, and the old ones are cut."""

    def __init__(self, databases: Databases, name: str) -> None:
        self._admin = databases.admin()
        self._name = name

    def off(self) -> None:
        self._admin.execute(f"alter database {self._name} allow_connections false".encode())
        self._admin.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s",
            [self._name],
        )

    def on(self) -> None:
        self._admin.execute(f"alter database {self._name} allow_connections true".encode())

    def close(self) -> None:
        self.on()
        self._admin.close()


def test_database_that_is_away_is_503_at_once_and_comes_back(databases: Databases):
    with databases.fresh(template=databases.migrated_template()) as name:
        switch = Switch(databases, name)
        try:
            with serving(databases.dsn(name)) as api:
                client = api.client()
                assert client.post(TASKS, json=TASK).status_code == 202
                switch.off()
                for _ in range(5):
                    begun = time.monotonic()
                    problem(client.post(TASKS, json=TASK), 503, "unavailable")
                    problem(client.get(TASKS), 503, "unavailable")
                    assert time.monotonic() - begun < 10
                ready = client.get("/readyz")
                assert ready.status_code == 503
                assert ready.json()["missing"] == ["database"]
                assert client.get("/healthz").status_code == 200
                switch.on()
                wait_until(lambda: client.post(TASKS, json=TASK).status_code == 202, 30, "recovery")
                assert client.get("/readyz").status_code == 200
        finally:
            switch.close()


def test_server_starts_while_the_database_is_away():
    with serving("host=127.0.0.1 port=1 dbname=nothing") as api, httpx.Client() as client:
        headers = {"Authorization": "Bearer sk_x"}
        begun = time.monotonic()
        problem(client.get(f"{api.url}{TASKS}", headers=headers), 503, "unavailable")
        assert time.monotonic() - begun < 10


def test_database_that_does_not_answer_is_503(dsn: str, conn: psycopg.Connection[Any]):
    with serving(dsn) as api:
        client = api.client()
        api.server.services.database.answer_seconds = 0.5
        client.get(TASKS)
        with conn.transaction():
            conn.execute("lock table skiplane.ready in access exclusive mode")
            begun = time.monotonic()
            problem(client.get(f"{TASKS}?status=PENDING"), 503, "unavailable")
            assert time.monotonic() - begun < 10
        wait_until(lambda: client.get(TASKS).status_code == 200, 30, "recovery")


def test_key_in_an_open_transaction_holds_nobody_else_up(api: Api, conn: psycopg.Connection[Any]):
    producer = api.client("producer")
    other = api.client("producer")
    with conn.transaction():
        conn.execute("select skiplane.submit_task('t', p_idempotency_key => 'k')")
        answers: list[httpx.Response] = []
        thread = threading.Thread(
            target=lambda: answers.append(
                producer.post(TASKS, json={**TASK, "idempotency_key": "k"})
            )
        )
        thread.start()
        begun = time.monotonic()
        assert other.post(TASKS, json=TASK).status_code == 202
        assert time.monotonic() - begun < 10
        thread.join(20)
        problem(answers[0], 409, "in_progress", "idempotency_key")
    again = producer.post(TASKS, json={**TASK, "payload": {}, "idempotency_key": "k"})
    assert again.status_code == 200

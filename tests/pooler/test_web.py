"""The REST API behind one pooler of five sessions, where no session lasts."""

from concurrent.futures import ThreadPoolExecutor

import httpx
import psycopg
import pytest

from skiplane.tests.api.conftest import serving
from skiplane.tests.support import Databases, wait_until
from skiplane.tests.support.engine import Engine

from .pgbouncer import running_pooler
from .test_pooler import LOCKS, OWN_SETTINGS, SETTINGS

TASKS = "/api/v1/tasks"


@pytest.mark.parametrize("prepares", [0, 200], ids=["no prepared statements", "prepared"])
def test_every_verb_works_and_leaves_nothing_in_the_sessions(
    databases: Databases, dsn: str, conn: psycopg.Connection[tuple[object, ...]], prepares: int
):
    engine = Engine(conn)
    with (
        running_pooler(dsn, prepares) as pooler,
        # Two processes of four connections each share the pooler's five sessions.
        serving(pooler.dsn, prepare=pooler.prepares or None) as one,
        serving(pooler.dsn, prepare=pooler.prepares or None) as two,
    ):
        key = one.make_key()
        clients = [api.client(key=key) for api in (one, two) for _ in range(4)]
        bound = one.client("producer", "a")

        def work(number: int) -> str:
            client = clients[number % 8]
            body = {"task_type": "t", "queue": "q", "payload": number}
            if number % 5 == 0:
                body["idempotency_key"] = f"k{number % 10}"
                body["payload"] = 0
            made = client.post(TASKS, json=body)
            assert made.status_code in (200, 202), made.text
            task = str(made.json()["task_id"])
            assert client.get(f"{TASKS}/{task}").status_code == 200
            return task

        with ThreadPoolExecutor(8) as pool:
            tasks = list(dict.fromkeys(pool.map(work, range(100))))
        batch = clients[0].post(f"{TASKS}/batch", json={"tasks": [{"task_type": "b"}] * 50})
        assert batch.status_code == 202
        assert bound.post(TASKS, json={"task_type": "t"}).status_code == 202
        assert bound.get(f"{TASKS}/{tasks[0]}").status_code == 404
        with clients[0].stream("GET", "/api/v1/events") as stream:
            lines = stream.iter_lines()
            assert next(line for line in lines if line.startswith("id: "))
            assert clients[1].post(f"{TASKS}/{tasks[0]}/cancel").status_code == 200
            assert next(line for line in lines if "CANCELLED" in line)
        claim = engine.claim(1, queues=["q"])
        with ThreadPoolExecutor(1) as pool:
            url = f"{TASKS}/{claim.ids[0]}/result"
            waiting = pool.submit(clients[2].get, url, params={"wait": 20})
            wait_until(lambda: one.server.services.waiting._waiting, what="the wait")
            engine.finish(claim)
            assert waiting.result(20).status_code == 200
        assert clients[0].get("/readyz").status_code == 200
        for client in clients:
            assert isinstance(client, httpx.Client)
            assert client.get("/metrics").status_code == 200
        assert engine.one("select count(*) from skiplane.task") == len(tasks) + 51
        assert engine.conn.execute(LOCKS, [pooler.server_pids()]).fetchone() == (0,)
        with pooler.all_sessions() as sessions:
            for session in sessions:
                left = {row[0] for row in session.execute(SETTINGS.encode())}
                assert left <= OWN_SETTINGS

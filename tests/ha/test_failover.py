"""The primary dies under load: what was acknowledged is there on the standby, once."""

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import psycopg
import pytest

from skiplane import Skiplane
from skiplane.schema.errors import SkiplaneError
from skiplane.schema.migrate import migrate
from skiplane.tests.api.test_serving import make_key, web
from skiplane.tests.chaos.kills.processes import scheduler, worker
from skiplane.tests.ha.standby import Pair, primary_and_standby
from skiplane.tests.support import wait_until
from skiplane.tests.support.databases import server_folder

TASKS = "/api/v1/tasks"


@pytest.fixture
def pair() -> Iterator[Pair]:
    """A migrated primary and its standby."""
    with server_folder() as folder, primary_and_standby(folder) as made:
        migrate(made.primary.dsn())
        made.start_standby()
        yield made


class Producer(threading.Thread):
    """Submits until it is told to stop, each task again until it is acknowledged.

    Attributes:
        acknowledged: Ids of tasks by their numbers.
        codes: How often each status came, or each kind of error.
    """

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.acknowledged: dict[int, str] = {}
        self.codes: Counter[str] = Counter()
        self.ending = threading.Event()

    def submit(self, number: int) -> str | None:
        """Submit a task; None when it has to be tried again."""
        raise NotImplementedError

    def close(self) -> None:
        """Let go of its connections."""
        raise NotImplementedError

    def run(self) -> None:
        number = 0
        while not self.ending.is_set():
            if task_id := self.submit(number):
                self.acknowledged[number] = task_id
                number += 1
            else:
                time.sleep(0.05)
        self.close()


class OverRest(Producer):
    """Submits over REST."""

    def __init__(self, url: str, headers: dict[str, str]) -> None:
        super().__init__()
        self._client = httpx.Client(base_url=url, headers=headers, timeout=60)

    def submit(self, number: int) -> str | None:
        """See Producer."""
        key = f"rest-{number}"
        body = {"task_type": "quick", "payload": {"n": number}, "idempotency_key": key}
        answer = self._client.post(TASKS, json=body)
        self.codes[str(answer.status_code)] += 1
        # 200: the first try was stored, and only its answer was lost.
        return answer.json()["task_id"] if answer.status_code in (200, 202) else None

    def close(self) -> None:
        """See Producer."""
        self._client.close()


class FromPython(Producer):
    """Submits with the Python package."""

    def __init__(self, dsn: str) -> None:
        super().__init__()
        self._app = Skiplane(dsn)

    def submit(self, number: int) -> str | None:
        """See Producer."""
        try:
            handle = self._app.submit_sync(
                "quick", {"n": number}, idempotency_key=f"python-{number}"
            )
        except SkiplaneError as error:
            self.codes[type(error).__name__] += 1
            return None
        return str(handle.id)

    def close(self) -> None:
        """See Producer."""
        self._app.close_sync()


@contextmanager
def running(pair: Pair, folder: Path) -> Iterator[None]:
    """Run a scheduler and two workers that find whichever server takes writes."""
    env = {"SKIPLANE_DSN": pair.dsn(), "SKIPLANE_CHAOS_FOLDER": str(folder)}
    members = [
        scheduler("scheduler", folder, env),
        *(worker(f"worker{n}", folder, env, "--lease-seconds", "5") for n in (1, 2)),
    ]
    try:
        for member in members:
            member.start()
        yield
        assert all(member.running for member in members), "a process ended by itself"
    finally:
        for member in members:
            member.end()


@pytest.mark.timeout(300)
def test_nothing_acknowledged_is_lost_when_the_standby_takes_over(pair: Pair, tmp_path: Path):
    headers = make_key(pair.dsn())
    with running(pair, tmp_path), web(pair.dsn()) as (_, url):
        rest, python = OverRest(url, headers), FromPython(pair.dsn())
        producers = (rest, python)
        for producer in producers:
            producer.start()
        wait_until(lambda: all(len(p.acknowledged) > 100 for p in producers), 60, "some load")
        pair.primary.kill9()
        before = {p: len(p.acknowledged) for p in producers}
        wait_until(lambda: rest.codes["503"] and python.codes["Unavailable"], 60, "the outage")
        assert httpx.get(f"{url}/healthz").status_code == 200
        assert httpx.get(f"{url}/readyz").json()["missing"] == ["database"]
        pair.promote()
        wait_until(
            lambda: all(len(p.acknowledged) > before[p] + 100 for p in producers),
            120,
            "the load on the standby",
        )
        for producer in producers:
            producer.ending.set()
            producer.join(60)
        assert set(rest.codes) <= {"200", "202", "503"}
        assert set(python.codes) == {"Unavailable"}
        check(pair, producers)


def check(pair: Pair, producers: tuple[Producer, ...]) -> None:
    """Check that every acknowledged task is there once and has ended with its own result."""
    with psycopg.connect(pair.standby_dsn(), autocommit=True) as conn:
        for producer in producers:
            ids = list(producer.acknowledged.values())
            assert len(set(ids)) == len(ids)

            def left(ids: list[str] = ids) -> int:
                row = conn.execute(
                    "select count(*) filter (where not done) from skiplane.get_results(%s::uuid[])",
                    [ids],
                ).fetchone()
                assert row is not None
                return int(row[0])

            wait_until(lambda left=left: left() == 0, 120, "all tasks to end")  # type: ignore[misc]
            found = conn.execute(
                "select task_id::text, status, result from skiplane.get_results(%s::uuid[])", [ids]
            ).fetchall()
            assert {task_id: (status, result) for task_id, status, result in found} == {
                task_id: ("SUCCEEDED", number) for number, task_id in producer.acknowledged.items()
            }
        # Nothing else was made either: each key stands for one task.
        row = conn.execute("select count(*) from skiplane.tasks").fetchone()
        known = sum(len(producer.acknowledged) for producer in producers)
        assert row is not None
        assert known <= row[0] <= known + len(producers)
        assert conn.execute("select count(*) from skiplane.lease").fetchone() == (0,)

"""What workers and schedulers tell Prometheus, and that docs/metrics.md tells the same."""

import re
import socket
import urllib.request
from pathlib import Path
from typing import Any

import psycopg
import pytest
from prometheus_client.parser import text_string_to_metric_families

from skiplane.metrics import MOST_VALUES, OTHERS, Names
from skiplane.schema.pools import SyncPool
from skiplane.schema.watch_calls import autoscale
from skiplane.schema.web_calls import measurements
from skiplane.tests.scheduler.helpers import running_scheduler
from skiplane.tests.support import wait_until
from skiplane.tests.worker.helpers import Tasks, running_worker
from skiplane.web.metrics import Metrics

PAGE = Path(__file__).resolve().parents[2] / "docs" / "metrics.md"
ROW = re.compile(r"^\| `(\w+)` \| (\w+) \|([^|]*)\| ([^|]*) \| ", re.M)

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


@pytest.fixture
def tasks(conn: psycopg.Connection[tuple[Any, ...]]) -> Tasks:
    """The tasks of the fresh database."""
    return Tasks(conn)


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def scrape(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        return str(answer.read().decode())


def samples(text: str) -> Samples:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def told(text: str) -> dict[str, tuple[str, set[str]]]:
    """Names as in the documentation, with kind and labels."""
    found: dict[str, tuple[str, set[str]]] = {}
    for family in text_string_to_metric_families(text):
        if family.name.endswith("_created"):
            continue  # of the client library, for each counter
        name = family.name + ("_total" if family.type == "counter" else "")
        labels = {label for sample in family.samples for label in sample.labels} - {"le"}
        found[name] = (family.type, labels)
    return found


def documented(process: str) -> dict[str, tuple[str, set[str]]]:
    return {
        name: (kind, set(re.findall(r"`(\w+)`", labels)))
        for name, kind, labels, origin in ROW.findall(PAGE.read_text())
        if process in origin.split(", ")
    }


def test_a_worker_counts_what_becomes_of_tasks(dsn: str, tmp_path: Path, tasks: Tasks):
    port = free_port()
    with running_worker(dsn, tmp_path, "--metrics-port", str(port)):
        ids = [tasks.submit("echo", {"value": n}) for n in range(3)]
        ids.append(tasks.submit("typed", {"to": 1}))  # fails for good
        ids.append(tasks.submit("sleep", {"seconds": 0.3}))
        tasks.wait_all(ids)
        # The clock of the database is asked in the heartbeat; what began before is not measured.
        wait_until(
            lambda: tasks.wait(tasks.submit("echo", {"value": 0})) and _delays(port) > 0,
            15,
            "a start delay",
        )
        text = scrape(port)
    found = samples(text)
    execution = "skiplane_task_executions_total"
    assert found[execution, (("outcome", "permanent"), ("task_type", "typed"))] == 1
    assert found[execution, (("outcome", "succeeded"), ("task_type", "echo"))] >= 4
    assert found["skiplane_task_execution_seconds_sum", (("task_type", "sleep"),)] > 0.29
    assert found["skiplane_task_start_delay_seconds_sum", (("task_type", "echo"),)] < 15
    assert found["skiplane_worker_slots", ()] == 10
    assert found["skiplane_worker_running", ()] == 0
    assert found["skiplane_worker_busy_seconds_total", ()] >= 0.3
    assert found["skiplane_loop_progress_age_seconds", (("loop", "event loop"),)] < 5
    exported = told(text)
    # A family without a sample yet has no labels to compare.
    exported["skiplane_task_retries_total"] = ("counter", {"task_type"})
    assert exported == documented("worker")


def _delays(port: int) -> float:
    found = samples(scrape(port))
    return found.get(("skiplane_task_start_delay_seconds_count", (("task_type", "echo"),)), 0)


def test_retries_and_lost_tasks_are_counted(dsn: str, tmp_path: Path, tasks: Tasks):
    port = free_port()
    with running_worker(dsn, tmp_path, "--metrics-port", str(port)):
        running = tasks.submit("sleep", {"seconds": 30})
        tasks.wait(running, "RUNNING")
        tasks.cancel(running)
        wait_until(
            lambda: samples(scrape(port))["skiplane_leases_lost_total", ()] == 1, 15, "the loss"
        )
        retried = tasks.submit("steps", {}, retry_delay_seconds=0)

        def again() -> bool:
            tasks.release_due()
            return tasks.status(retried) == "SUCCEEDED"

        wait_until(again, 60, "a retry")
        found = samples(scrape(port))
    assert found["skiplane_task_retries_total", (("task_type", "steps"),)] == 1
    cancelled = (("outcome", "cancelled"), ("task_type", "sleep"))
    assert found["skiplane_task_executions_total", cancelled] == 1
    assert tasks.status(running) == "CANCELLED"


def test_each_process_has_a_port_that_stays(dsn: str, tmp_path: Path):
    port = free_port()
    with running_worker(
        dsn, tmp_path, "--metrics-port", str(port), "--processes", "2", ready=2
    ) as worker:
        for number in (0, 1):
            names = [
                dict(labels)["name"]
                for name, labels in samples(scrape(port + number))
                if name == "skiplane_worker_info"
            ]
            assert [name.rpartition("/")[2] for name in names] == [str(number)]
        assert worker.process.poll() is None


def test_a_taken_port_is_told_at_the_start(dsn: str, tmp_path: Path):
    with socket.socket() as sock:
        sock.bind(("0.0.0.0", 0))
        sock.listen()
        port = str(sock.getsockname()[1])
        with running_worker(dsn, tmp_path, "--metrics-port", port, ready=0) as worker:
            record = worker.wait_for("the worker cannot start")
            assert f"metrics_port = {port}" in record["cause"]
            assert worker.process.wait(20) == 2


def test_a_scheduler_tells_of_its_loops(dsn: str, tmp_path: Path):
    port = free_port()
    with running_scheduler(dsn, tmp_path, "--metrics-port", str(port)):
        key = ("skiplane_loop_turns_total", (("loop", "promote"), ("outcome", "good")))
        wait_until(lambda: samples(scrape(port)).get(key, 0) > 3, 15, "some turns")
        text = scrape(port)
    assert told(text) == documented("scheduler")
    found = samples(text)
    assert found["skiplane_loop_progress_age_seconds", (("loop", "promote"),)] < 5
    assert found["skiplane_loop_overdue_seconds", (("loop", "promote"),)] < 5


def test_the_web_process_tells_of_the_database(dsn: str, tasks: Tasks):
    tasks.submit("echo", {"value": 1})
    tasks.conn.execute("select skiplane.refresh_depth()")
    pool = SyncPool(dsn, size=1)
    measured = pool.run(measurements())
    needs = pool.run(autoscale())["queues"]
    pool.close()
    web = Metrics()
    web.count("GET", "/healthz", 200, 0.01)
    exported = told(web.render(measured, needs).decode())
    assert exported["skiplane_queue_slots_needed"] == ("gauge", {"queue"})
    for name in ("skiplane_queue_depth", "skiplane_queue_oldest_seconds"):
        assert exported[name] == ("gauge", {"queue", "priority"})
    assert exported == documented("web")


def test_no_label_grows_without_bound():
    names = Names()
    assert len({names(f"type-{n}") for n in range(5 * MOST_VALUES)}) == MOST_VALUES + 1
    assert names("type-0") == "type-0"
    assert names("one more") == OTHERS

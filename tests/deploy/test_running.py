"""The processes run as the Kubernetes manifests start them, and answer where these look."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from skiplane.tests.api.conftest import Api, serving
from skiplane.tests.support import Databases, wait_until
from skiplane.tests.worker.helpers import Tasks

from .manifests import KUBERNETES, containers, kubernetes, processes

PROGRAM = "from skiplane.cli import main; main(prog_name='skiplane')"
OBJECTS = kubernetes()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Pod:
    """A container of a Deployment as a process on this machine, with a port of its own."""

    def __init__(self, kind: dict[str, Any], dsn: str, folder: Path) -> None:
        ((self.container, pod),) = containers(kind)
        self.grace: int = pod["terminationGracePeriodSeconds"]
        self.port = free_port()
        inside = str(self.container["ports"][0]["containerPort"])
        arguments = [
            str(self.port) if argument == inside else argument
            for argument in self.container["args"]
        ]
        where = f"kubernetes {kind['metadata']['name']}"
        (process,) = (process for process in processes() if process.where == where)
        environment = {
            name: dsn if value is None else value for name, value in process.environment.items()
        }
        self.log = folder / f"{kind['metadata']['name']}.log"
        with self.log.open("wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-c", PROGRAM, *arguments],
                stdout=out,
                stderr=subprocess.STDOUT,
                # As in the image: nothing of this machine's, and no home.
                env={"PATH": os.environ["PATH"], "HOME": str(folder), **environment},
                cwd=folder,
            )

    def answers(self, probe: str) -> bool:
        """Ask as the kubelet does."""
        path = self.container[probe]["httpGet"]["path"]
        assert self.process.poll() is None, self.log.read_text()
        try:
            return httpx.get(f"http://127.0.0.1:{self.port}{path}", timeout=5).status_code == 200
        except httpx.HTTPError:
            return False

    def stop(self) -> tuple[int, float]:
        """Stop it; give the exit code and the seconds that it took."""
        began = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(self.grace), time.monotonic() - began


# As docs/deployment.md has it.
RIGHTS = {
    "skiplane-web": "skiplane_operator",
    "skiplane-scheduler": "skiplane_worker",
    "skiplane-worker": "skiplane_worker",
}


@pytest.fixture
def logins(databases: Databases, dsn: str) -> Iterator[dict[str, str]]:
    """A DSN for each Deployment, of a role with no more rights than it needs."""
    name = str(conninfo_to_dict(dsn)["dbname"])
    with contextlib.ExitStack() as stack:
        given = {}
        for deployment, group in RIGHTS.items():
            role = stack.enter_context(databases.role())
            with databases.admin() as admin:
                admin.execute(f"grant {group} to {role.name}".encode())
            given[deployment] = databases.dsn(name, role)
        yield given


@pytest.fixture
def pods(logins: dict[str, str]) -> Iterator[dict[str, Pod]]:
    """Every Deployment, running."""
    folder = Path(tempfile.mkdtemp(prefix="skiplane-deploy-"))
    made: dict[str, Pod] = {}
    try:
        for kind in OBJECTS:
            if kind["kind"] == "Deployment":
                name = kind["metadata"]["name"]
                made[name] = Pod(kind, logins[name], folder)
        yield made
    finally:
        for pod in made.values():
            pod.process.kill()
            pod.process.wait()
        shutil.rmtree(folder)


def test_probes_are_answered_tasks_run_and_a_stop_is_in_time(
    pods: dict[str, Pod], conn: psycopg.Connection[tuple[Any, ...]]
):
    for name, pod in pods.items():
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            if probe in pod.container:
                wait_until(partial(pod.answers, probe), 60, f"{name} {probe}")
    tasks = Tasks(conn)
    # A built-in type: it runs, and ends because nothing private may be called.
    task = tasks.submit("skiplane.http", {"url": "http://127.0.0.1:1/"})
    assert tasks.wait(task)["status"] == "FAILED"
    later = tasks.submit("skiplane.http", {"url": "http://127.0.0.1:1/"}, delay_seconds=1)
    assert tasks.wait(later)["status"] == "FAILED"
    for name, pod in pods.items():
        assert '"level": "error"' not in pod.log.read_text(), pod.log.read_text()
        code, seconds = pod.stop()
        assert code == 0, name
        assert seconds < pod.grace, name


@pytest.fixture
def api(dsn: str) -> Iterator[Api]:
    with serving(dsn) as running:
        yield running


def test_keda_reads_its_figure_where_its_manifest_says(api: Api):
    (scaled,) = (k for k in kubernetes(KUBERNETES / "keda") if k["kind"] == "ScaledObject")
    spec = scaled["spec"]
    (trigger,) = spec["triggers"]
    told = trigger["metadata"]
    url = urlsplit(told["url"])
    (service,) = (kind for kind in OBJECTS if kind["kind"] == "Service")
    assert url.hostname == f"{service['metadata']['name']}.skiplane.svc"
    assert url.port == service["spec"]["ports"][0]["port"]
    worker = next(p for p in processes() if p.where == "kubernetes skiplane-worker")
    asked = parse_qs(url.query)
    assert asked["queue"] == str(worker.option("--queues")).split(",")
    assert asked["max_workers"] == [str(spec["maxReplicaCount"])]
    assert (told["authMode"], told["method"]) == ("apiKey", "header")
    answer = httpx.get(
        f"{api.url}{url.path}?{url.query}", headers={told["keyParamName"]: api.make_key("reader")}
    )
    assert answer.status_code == 200, answer.text
    assert answer.json()[told["valueLocation"]] == 0


def test_the_hpa_reads_a_gauge_that_there_is(api: Api, conn: psycopg.Connection[tuple[Any, ...]]):
    metrics = [
        metric["external"]["metric"]
        for kind in kubernetes(KUBERNETES / "hpa")
        for metric in kind["spec"].get("metrics", ())
        if metric["type"] == "External"
    ]
    (metric,) = metrics
    worker = next(p for p in processes() if p.where == "kubernetes skiplane-worker")
    queue = metric["selector"]["matchLabels"]["queue"]
    assert queue == worker.option("--queues")
    Tasks(conn).submit("t", queue=queue)
    conn.execute("select skiplane.refresh_depth()")
    text = api.client("reader").get("/metrics").text
    assert f'\n{metric["name"]}{{queue="{queue}"}} ' in text
    adapter = (KUBERNETES / "hpa" / "adapter.yaml").read_text()
    assert f"as: {metric['name']}" in adapter


def test_the_hpa_counts_the_tasks_that_one_worker_runs_at_once():
    (metric,) = (
        metric["external"]
        for kind in kubernetes(KUBERNETES / "hpa")
        for metric in kind["spec"]["metrics"]
        if metric["type"] == "External"
    )
    worker = next(p for p in processes() if p.where == "kubernetes skiplane-worker")
    places = int(worker.option("--concurrency") or 10) * int(worker.option("--processes") or 1)
    assert metric["target"] == {"type": "AverageValue", "averageValue": str(places)}

"""The document of the API is whole, its examples are true, and the server keeps to it."""

import re
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from skiplane.tests.api.conftest import Api
from skiplane.tests.support.engine import Engine
from skiplane.web.contract import OPERATIONS, TASKS
from skiplane.web.openapi import build, codes_of
from skiplane.web.problems import CODES

DOCUMENT = build()
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "response_headers_conformance",
)


def test_document_names_every_route_with_shapes_and_errors():
    assert DOCUMENT["openapi"] == "3.1.0"
    named = {
        (method.upper(), path) for path, methods in DOCUMENT["paths"].items() for method in methods
    }
    assert named == set(OPERATIONS)
    for route, operation in OPERATIONS.items():
        made = DOCUMENT["paths"][route[1]][route[0].lower()]
        assert made["summary"]
        for code in codes_of(operation):
            assert str(CODES[code][0]) in made["responses"]
        if operation.body:
            assert made["requestBody"]["content"]["application/json"]["schema"]
        for answer in operation.answers.values():
            assert answer.shape is None or answer.example is not None or route[1] == "/openapi.json"


def test_references_lead_somewhere():
    text = msgspec.json.encode(DOCUMENT).decode()
    for name in re.findall(r'"#/components/schemas/([^"]+)"', text):
        assert name in DOCUMENT["components"]["schemas"]


def test_examples_have_the_shapes_that_they_illustrate():
    for operation in OPERATIONS.values():
        examples = [(operation.body, example) for example in operation.body_examples]
        examples += [(answer.shape, answer.example) for answer in operation.answers.values()]
        for shape, example in examples:
            if shape is not None and example is not None:
                msgspec.json.decode(msgspec.json.encode(example), type=shape)


@pytest.fixture
def existing(client: httpx.Client, engine: Engine) -> dict[str, Any]:
    """Things for the ids in paths: a task that waits, one that is dead, a worker."""
    waiting = client.post(TASKS, json={"task_type": "t", "delay_seconds": 600}).json()["task_id"]
    dead = str(engine.submit(max_retries=0))
    worker = uuid.uuid4()
    engine.rows("register_worker", worker_id=worker, name="w", queues=["default"])
    engine.fail(engine.claim(worker=worker), error_type="Oops")
    flow = {"workflow_name": "w", "tasks": [{"task_id": "a", "task_type": "t"}]}
    cron = {"name": "n", "cron_expression": "0 3 * * *", "task_type": "t"}
    hook = {"name": "h", "url": "https://example.com/hooks"}
    return {
        "hook": client.post("/api/v1/webhooks", json=hook).json()["webhook_id"],
        "task": waiting,
        "dead": dead,
        "worker": str(worker),
        "flow": client.post("/api/v1/workflows", json=flow).json()["workflow_id"],
        "cron": client.post("/api/v1/cron-tasks", json=cron).json()["cron_id"],
    }


def test_documented_examples_are_answered_as_documented(
    client: httpx.Client, existing: dict[str, Any]
):
    # In the order of the document; what ends a task comes after what reads it.
    order = sorted(OPERATIONS, key=lambda r: (r[0] == "DELETE", "retry" in r[1]))
    for method, path in order:
        operation = OPERATIONS[method, path]
        if operation.name in ("stream_events", "discard_dead_letter"):
            continue
        task = existing["dead"] if "/dlq/" in path or path.endswith("/retry") else existing["task"]
        if operation.name == "delete_task":
            task = client.post(TASKS, json={"task_type": "t"}).json()["task_id"]
        if operation.name in ("retry_task", "retry_dead_letter"):
            if client.get(f"{TASKS}/{task}").json()["status"] not in ("DEAD", "CANCELLED"):
                client.delete(f"{TASKS}/{task}")
            if operation.name == "retry_dead_letter":
                continue  # told by its own test: it needs a dead letter each time
        where = path.replace("{task_id}", task).replace("{worker_id}", existing["worker"])
        where = where.replace("{key_id}", "sk_00000000")
        where = where.replace("{workflow_id}", existing["flow"])
        where = where.replace("{webhook_id}", existing["hook"])
        where = where.replace("{cron_id}", existing["cron"])
        for name in ("queue", "task_type", "tenant_id"):
            where = where.replace(f"{{{name}}}", f"some {name}")
        headers = {}
        if operation.name in ("edit_task", "edit_cron_task"):
            headers["If-Match"] = client.get(where).headers["etag"]
        for example in operation.body_examples or (None,):
            answer = client.request(method, where, json=example, headers=headers)
            if operation.name == "revoke_key":
                assert answer.status_code == 404
                continue
            assert answer.status_code in operation.answers, (operation.name, answer.text)
            shape = operation.answers[answer.status_code].shape
            if shape is not None:
                msgspec.json.decode(answer.content, type=shape)


@pytest.mark.timeout(400)
def test_server_keeps_to_its_document(api: Api, existing: dict[str, Any], tmp_path: Path):
    # As when it stops: nothing waits for a minute here. The stream has tests of its own.
    api.server.services.waiting.close()
    command = [
        str(Path(sys.executable).with_name("schemathesis")),
        *("run", f"{api.url}/openapi.json", "--no-color", "--seed", "1"),
        *("-H", f"Authorization: Bearer {api.make_key()}"),
        *("--checks", ",".join(CHECKS), "--exclude-path", "/api/v1/events"),
        *("--phases", "examples,coverage,fuzzing", "--max-examples", "5"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=380, cwd=tmp_path)
    assert done.returncode == 0, done.stdout[-5000:]
    found = re.search(r"(\d+) generated, (\d+) passed", done.stdout)
    assert found is not None
    assert int(found[1]) == int(found[2]) > 500

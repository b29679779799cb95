"""The built-in types in a real worker, which has no app of its own."""

import base64
import hashlib
import hmac
import json
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from skiplane.tests.builtin.receiver import Answer, Received, Receiver
from skiplane.tests.support import wait_until
from skiplane.tests.worker.helpers import Tasks, WorkerCommand, running_worker


@pytest.fixture
def apprise_file(receiver: Receiver, tmp_path: Path) -> Path:
    path = tmp_path / "apprise.yml"
    path.write_text(f"urls:\n  - json://127.0.0.1:{receiver.port}/notify:\n    - tag: oncall\n")
    return path


@pytest.fixture
def worker(dsn: str, tmp_path: Path, apprise_file: Path) -> Iterator[WorkerCommand]:
    options = ("--allow-networks", "127.0.0.1", "--notify-config", str(apprise_file))
    with running_worker(dsn, tmp_path, *options, app="") as made:
        yield made


def verify(secret: str, request: Received) -> None:
    """Do what a receiver does, see docs/webhooks.md."""
    headers = request.headers
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + request.body
    key = base64.b64decode(secret.removeprefix("whsec_"))
    expected = base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
    assert headers["webhook-signature"] == f"v1,{expected}"


def test_http_runs_without_an_app(worker: WorkerCommand, tasks: Tasks, receiver: Receiver):
    done = tasks.wait(tasks.submit("skiplane.http", {"url": f"{receiver.url}/x"}))
    assert done["status"] == "SUCCEEDED", done
    assert done["result"]["status"] == 200
    refused = tasks.wait(tasks.submit("skiplane.http", {"url": "http://169.254.169.254/"}))
    assert refused["status"] == "FAILED"
    assert "--allow-networks" in refused["error_message"]
    bad = tasks.wait(tasks.submit("skiplane.http", {"url": receiver.url, "method": "TRACE"}))
    assert bad["status"] == "FAILED"
    assert "method" in bad["error_message"]


def test_ends_are_delivered_signed_and_tried_again(
    worker: WorkerCommand, tasks: Tasks, receiver: Receiver
):
    receiver.answer = lambda request: Answer(503 if len(receiver.received) == 2 else 200)
    secret = tasks.scalar(
        "select skiplane.create_webhook('n', %s, '{task.succeeded}') ->> 'secret'",
        [f"{receiver.url}/hook"],
    )
    task_id = tasks.submit("skiplane.http", {"url": receiver.url})
    wait_until(lambda: len(receiver.received) >= 2, 15, "a delivery")
    row = tasks.conn.execute(
        "select id::text from skiplane.task where task_type = 'skiplane.webhook'"
    ).fetchone()
    assert row is not None
    tasks.wait(row[0], "RETRYING")
    request = receiver.received[1]
    verify(secret, request)
    event = json.loads(request.body)
    assert event["type"] == "task.succeeded"
    assert event["data"]["task_id"] == task_id
    assert request.headers["webhook-id"] == event["delivery_id"] == row[0]


def test_a_callback_is_signed_with_the_tenants_key(
    worker: WorkerCommand, tasks: Tasks, receiver: Receiver
):
    tasks.submit(
        "skiplane.http",
        {"url": receiver.url},
        callback_url=f"{receiver.url}/callback",
        metadata={"tenant_id": "acme"},
    )
    wait_until(lambda: len(receiver.received) == 2, 15, "the callback")
    assert receiver.received[1].path == "/callback"
    verify(tasks.scalar("select skiplane.callback_secret('acme')"), receiver.received[1])


def test_a_deleted_webhook_gets_nothing(worker: WorkerCommand, tasks: Tasks, receiver: Receiver):
    made = tasks.scalar("select skiplane.create_webhook('n', %s)", [receiver.url])
    with tasks.conn.transaction():
        row = tasks.conn.execute(
            "select skiplane.test_webhook(%s::uuid)::text", [made["webhook_id"]]
        ).fetchone()
        tasks.conn.execute("select skiplane.delete_webhook(%s::uuid)", [made["webhook_id"]])
    assert row is not None
    done = tasks.wait(row[0])
    assert (done["status"], done["result"]["delivered"]) == ("SUCCEEDED", False)
    assert receiver.received == []


def test_messages_go_to_tags_of_the_operators_file(
    worker: WorkerCommand, tasks: Tasks, receiver: Receiver
):
    done = tasks.wait(tasks.submit("skiplane.notify", {"to": ["oncall"], "body": "it burns"}))
    assert done["status"] == "SUCCEEDED", done
    assert b"it burns" in receiver.received[0].body
    unknown = tasks.wait(tasks.submit("skiplane.notify", {"to": ["nobody"], "body": "x"}))
    assert (unknown["status"], len(receiver.received)) == ("FAILED", 1)


def test_a_procedure_commits_with_its_task_as_its_role(worker: WorkerCommand, tasks: Tasks):
    role = f"closer_{uuid.uuid4().hex[:8]}"
    tasks.conn.execute(
        f"create role {role}; grant {role} to current_user;"
        "create schema app; create table app.log (who text);"
        f"grant usage on schema app to {role}; grant insert, select on app.log to {role};"
        "create table app.secret (x text);"
        "create function app.note(word text) returns text language plpgsql as $$"
        " begin insert into app.log values (current_user); return word; end $$;"
        "create function app.peek() returns bigint language sql as"
        " $$ select count(*) from app.secret $$;".encode()
    )
    try:
        for procedure in ("app.note", "app.peek"):
            tasks.scalar("select skiplane.allow_procedure(%s, %s)", [procedure, role])
        call = {"procedure": "app.note", "arguments": {"word": "done"}}
        done = tasks.wait(tasks.submit("skiplane.sql", call))
        assert (done["status"], done["result"]) == ("SUCCEEDED", "done"), done
        assert tasks.scalar("select who from app.log") == role
        peek = tasks.wait(tasks.submit("skiplane.sql", {"procedure": "app.peek"}))
        assert peek["status"] == "FAILED"
        assert "permission denied" in peek["error_message"]
        other = tasks.wait(tasks.submit("skiplane.sql", {"procedure": "app.other"}))
        assert other["status"] == "FAILED"
        assert "not allowed" in other["error_message"]
    finally:
        tasks.conn.execute(b"drop schema app cascade")
        tasks.conn.execute(f"drop role {role}".encode())


def test_built_in_types_can_be_switched_off(dsn: str, tmp_path: Path):
    with running_worker(dsn, tmp_path, "--no-builtin-tasks", app="", ready=0) as worker:
        worker.wait_for("the worker cannot start")
        assert worker.process.wait(20) == 2

"""The contract of dead letters, workers, keys, events and probes."""

from typing import Any

from . import models as m
from . import models_limits as limits
from .contract_parts import (
    CURSOR,
    DLQ,
    LIMIT,
    QUEUE,
    STATUS,
    STRING,
    TASK_ID,
    TENANT,
    TYPE,
    WORKER_ID,
    Answer,
    Operation,
    Parameter,
)


def _number(name: str, least: int, most: int, default: int | None, text: str) -> Parameter:
    schema: dict[str, Any] = {"type": "integer", "minimum": least, "maximum": most}
    return Parameter(name, schema if default is None else {**schema, "default": default}, text)


OPERATIONS: dict[tuple[str, str], Operation] = {
    ("GET", DLQ): Operation(
        "list_dead_letters",
        "reader",
        "List tasks whose retries are used up, newest first.",
        {
            200: Answer(
                "One page.",
                m.DeadLetterList,
                {
                    "dead_letters": [
                        {
                            "task_id": TASK_ID,
                            "task_type": "send_email",
                            "queue": "email-queue",
                            "tenant_id": "acme-corp",
                            "died_at": "2026-04-04T09:07:00Z",
                            "created_at": "2026-04-03T17:21:09Z",
                            "error_type": "SMTPServerDisconnected",
                            "error_message": "Connection unexpectedly closed",
                            "payload": {"to": "user@example.com"},
                        }
                    ],
                    "next_cursor": None,
                },
            )
        },
        parameters=(TYPE, QUEUE, TENANT, LIMIT, CURSOR),
    ),
    ("POST", DLQ + "/{task_id}/retry"): Operation(
        "retry_dead_letter",
        "operator",
        "Run a dead letter again.",
        {200: Answer("It waits to run.", m.TaskRetried, {"task_id": TASK_ID, "status": "PENDING"})},
        body=m.Why,
        body_required=False,
        errors=("not_found", "conflict"),
    ),
    ("POST", DLQ + "/retry-all"): Operation(
        "retry_dead_letters",
        "operator",
        "Run all dead letters of a filter again, as many as go within two seconds.",
        {200: Answer("Done.", m.AllRetried, {"retried": 214, "more": False})},
        parameters=(TYPE, QUEUE, TENANT),
    ),
    ("DELETE", DLQ + "/{task_id}"): Operation(
        "discard_dead_letter",
        "operator",
        "Take a dead letter out of the queue for good; the history stays.",
        {
            200: Answer(
                "It is out.",
                m.Discarded,
                {"task_id": TASK_ID, "status": "DEAD", "discarded": True},
            )
        },
        errors=("not_found", "conflict"),
    ),
    ("GET", "/api/v1/autoscale"): Operation(
        "autoscale",
        "reader",
        "How many workers the queues need so that what waits has started within `target_seconds`:"
        " `desired_workers` for all of them together, and for each. slots = max(running,"
        " ends_per_second x their mean duration) + (depth - held) x seconds_per_task /"
        " max(target_seconds - oldest_seconds, target_seconds / 10), at most the queue's"
        " concurrency limit; desired_workers = slots / slots_per_worker, rounded up.",
        {
            200: Answer(
                "What is needed.",
                limits.Autoscale,
                {
                    "desired_workers": 5,
                    "slots": 44.27,
                    "target_seconds": 60,
                    "queues": [
                        {
                            "queue": "email-queue",
                            "desired_workers": 5,
                            "slots": 44.27,
                            "slots_per_worker": 10.0,
                            "depth": 1204,
                            "held": 0,
                            "running": 40,
                            "oldest_seconds": 3.2,
                            "ends_per_second": 180.0,
                            "seconds_per_task": 0.2,
                            "workers": 4,
                        }
                    ],
                    "counted_at": "2026-04-04T09:00:00Z",
                },
            )
        },
        parameters=(
            Parameter(
                "queue",
                STRING,
                "Only this queue; repeat it for several. None: up to 1,000 that have tasks or"
                " workers.",
            ),
            _number(
                "target_seconds", 1, 86_400, 60, "Within how many seconds to start what waits."
            ),
            _number(
                "slots_per_worker",
                1,
                10_000,
                None,
                "What one worker runs at once. None: the mean of the queue's workers, or 10.",
            ),
            _number("min_workers", 0, 10_000, 0, "At least so many."),
            _number("max_workers", 0, 10_000, 100, "At most so many; not below min_workers."),
        ),
        fleet=True,
    ),
    ("GET", "/api/v1/workers"): Operation(
        "list_workers",
        "reader",
        "The fleet: what each worker process holds and how busy it is.",
        {
            200: Answer(
                "The workers.",
                m.WorkerList,
                {
                    "workers": [
                        {
                            "worker_id": WORKER_ID,
                            "name": "host-1:4711/0",
                            "status": "RUNNING",
                            "queues": ["email-queue"],
                            "concurrency": 10,
                            "holding": 4,
                            "utilisation": 0.4,
                            "up_seconds": 3600.0,
                            "silent_seconds": 0.8,
                        }
                    ]
                },
            )
        },
        fleet=True,
    ),
    ("POST", "/api/v1/workers/{worker_id}/drain"): Operation(
        "drain_worker",
        "operator",
        "Ask a worker to finish what it has and take no more.",
        {
            202: Answer(
                "It was told.",
                m.WorkerDraining,
                {"worker_id": WORKER_ID, "status": "DRAINING"},
            )
        },
        errors=("not_found",),
        fleet=True,
    ),
}

_KEY = {
    "key_id": "sk_5f1d0c9a",
    "name": "billing service",
    "role": "producer",
    "tenant_id": "acme-corp",
    "created_at": "2026-04-03T17:00:00Z",
    "created_by": "api:sk_00c0ffee",
    "expires_at": None,
    "revoked_at": None,
    "last_used_at": None,
}
OPERATIONS |= {
    ("POST", "/api/v1/keys"): Operation(
        "create_key",
        "admin",
        "Make an API key. It is shown this once.",
        {
            201: Answer(
                "The key.",
                m.KeyMade,
                {**_KEY, "key": "sk_5f1d0c9a_n0t-a-real-key"},
            )
        },
        body=m.KeyRequest,
        body_examples=({"name": "billing service", "role": "producer", "tenant_id": "acme-corp"},),
    ),
    ("GET", "/api/v1/keys"): Operation(
        "list_keys",
        "admin",
        "List API keys, newest first; the keys themselves are stored nowhere.",
        {200: Answer("One page.", m.KeyList, {"keys": [_KEY], "next_cursor": None})},
        parameters=(LIMIT, CURSOR),
    ),
    ("DELETE", "/api/v1/keys/{key_id}"): Operation(
        "revoke_key",
        "admin",
        "Revoke an API key. All processes heed it within two seconds.",
        {200: Answer("It is revoked.", m.KeyView, {**_KEY, "revoked_at": "2026-04-05T08:00:00Z"})},
        errors=("not_found",),
    ),
    ("GET", "/api/v1/events"): Operation(
        "stream_events",
        "reader",
        "Changes of state as server-sent events: `task` with {task_id, status, at, task_type,"
        " queue, tenant_id, workflow_id}; status is PENDING or SCHEDULED (submitted), RETRYING, or"
        " how the task ended. `place` carries the id to resume from; `gap` says that there was too"
        " much to tell. Nothing is left out, also when it is committed late; after a reconnect"
        " something may come twice.",
        {200: Answer("The stream.", None, None, "text/event-stream")},
        parameters=(
            STATUS,
            TYPE,
            QUEUE,
            TENANT,
            Parameter("task_id", {"type": "string", "format": "uuid"}, "Only this task's."),
            Parameter("workflow_id", {"type": "string", "format": "uuid"}, "Only this workflow's."),
            Parameter("Last-Event-ID", {"type": "string"}, "Where to go on.", "header"),
        ),
    ),
    ("GET", "/metrics"): Operation(
        "metrics",
        "reader",
        "Numbers for Prometheus: this process's requests and the whole database.",
        {200: Answer("Prometheus text.", None, None, "text/plain")},
        fleet=True,
    ),
    ("GET", "/healthz"): Operation(
        "healthz",
        "open",
        "Whether the process answers.",
        {200: Answer("It does.", m.Health, {"status": "ok"})},
    ),
    ("GET", "/readyz"): Operation(
        "readyz",
        "open",
        "Whether requests can be served, and what is missing.",
        {
            200: Answer(
                "Ready.",
                m.Readiness,
                {
                    "status": "ready",
                    "missing": [],
                    "checks": [{"name": "database", "ok": True, "detail": "it answers"}],
                },
            ),
            503: Answer(
                "Not ready.",
                m.Readiness,
                {
                    "status": "not_ready",
                    "missing": ["database"],
                    "checks": [
                        {"name": "database", "ok": False, "detail": "PostgreSQL cannot be reached"}
                    ],
                },
                headers=(("Retry-After", "Seconds."),),
            ),
        },
    ),
    ("GET", "/openapi.json"): Operation(
        "openapi",
        "open",
        "This document.",
        {200: Answer("OpenAPI 3.1.", dict[str, Any])},
    ),
    ("GET", "/docs"): Operation(
        "manual",
        "open",
        "The interactive manual: this document as a page.",
        {200: Answer("The page.", None, None, "text/html")},
    ),
    ("GET", "/docs/page.js"): Operation(
        "manual_script",
        "open",
        "The script of the manual.",
        {200: Answer("JavaScript.", None, None, "text/javascript")},
    ),
    ("GET", "/docs/page.css"): Operation(
        "manual_style",
        "open",
        "The style of the manual.",
        {200: Answer("CSS.", None, None, "text/css")},
    ),
}

"""The contract of the API: every route with its role, shapes, examples and errors.

Handlers are registered by what stands here, so a route cannot be without an entry;
OpenAPI is written from it, and tests walk it.
"""

from typing import Any, NamedTuple

from . import models as m

TASK_ID = "01a22fd0-9705-73ef-8000-0b77a7d523f5"
WORKER_ID = "6f0c7a52-8f4a-4b6c-9a57-0a3c8f0f4f11"


class Parameter(NamedTuple):
    """One parameter of the query or a header."""

    name: str
    schema: dict[str, Any]
    text: str
    place: str = "query"
    required: bool = False


class Answer(NamedTuple):
    """One answer: its shape (None: no JSON), and headers that come with it."""

    text: str
    shape: Any = None
    example: Any = None
    media_type: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()


class Operation(NamedTuple):
    """One route.

    Attributes:
        role: Least role of the key; ``open`` needs none.
        fleet: It concerns all tenants: keys bound to one are refused.
        other_body: What the body may be instead, when a parameter says so.
        errors: Codes of problems beside those that every route has.
    """

    name: str
    role: str
    text: str
    answers: dict[int, Answer]
    body: Any = None
    other_body: Any = None
    body_required: bool = True
    body_examples: tuple[Any, ...] = ()
    parameters: tuple[Parameter, ...] = ()
    errors: tuple[str, ...] = ()
    fleet: bool = False


_STRING: dict[str, Any] = {"type": "string", "minLength": 1, "maxLength": 200}
_INSTANT: dict[str, Any] = {"type": "string", "format": "date-time"}
_LIMIT = Parameter(
    "limit",
    {"type": "integer", "minimum": 1, "maximum": 1000, "default": 50},
    "Most rows of the page.",
)
_CURSOR = Parameter(
    "cursor",
    {"type": "string", "maxLength": 1000, "minLength": 1},
    "next_cursor of the page before, with the same filters.",
)
_QUEUE = Parameter("queue", _STRING, "Only this queue.")
_TYPE = Parameter("task_type", _STRING, "Only this type.")
_TENANT = Parameter("tenant_id", _STRING, "Only this tenant.")

SUBMISSION: dict[str, Any] = {
    "task_type": "send_email",
    "payload": {
        "to": "user@example.com",
        "subject": "Welcome!",
        "template_id": "onboarding-v2",
    },
    "priority": "high",
    "delay_seconds": 3600,
    "max_retries": 3,
    "retry_backoff": "exponential",
    "retry_delay_seconds": 60,
    "timeout_seconds": 300,
    "idempotency_key": "welcome-user-123",
    "queue": "email-queue",
    "metadata": {"tenant_id": "acme-corp", "correlation_id": "req-abc"},
}
_ACCEPTED = {
    "task_id": TASK_ID,
    "status": "SCHEDULED",
    "scheduled_at": "2026-04-04T09:00:00Z",
    "created_at": "2026-04-03T17:21:09.812345Z",
}
_VIEW: dict[str, Any] = {
    "task_id": TASK_ID,
    "task_type": "send_email",
    "queue": "email-queue",
    "priority": "high",
    "status": "SUCCEEDED",
    "error_type": None,
    "error_message": None,
    "scheduled_at": "2026-04-04T09:00:00Z",
    "created_at": "2026-04-03T17:21:09.812345Z",
    "started_at": "2026-04-04T09:00:00.031Z",
    "completed_at": "2026-04-04T09:00:00.412Z",
    "next_attempt_at": None,
    "duration_ms": 381.0,
    "attempt": 1,
    "max_retries": 3,
    "retry_backoff": "exponential",
    "retry_delay_seconds": 60,
    "retry_max_delay_seconds": 3600,
    "retry_jitter": "equal",
    "timeout_seconds": 300,
    "idempotency_key": "welcome-user-123",
    "estimated_duration_seconds": None,
    "concurrency_key": None,
    "expires_at": None,
    "callback_url": None,
    "metadata": {"tenant_id": "acme-corp", "correlation_id": "req-abc"},
    "tenant_id": "acme-corp",
    "workflow_id": None,
    "task_name": None,
    "worker_id": WORKER_ID,
    "lease_expiry": None,
    "version": 1,
}
_WHOLE = {
    **_VIEW,
    "payload": SUBMISSION["payload"],
    "result": {"message_id": "m-1"},
    "attempts": [
        {
            "attempt": 1,
            "outcome": "succeeded",
            "worker_id": WORKER_ID,
            "started_at": "2026-04-04T09:00:00.031Z",
            "finished_at": "2026-04-04T09:00:00.412Z",
        }
    ],
    "actions": [],
    "checkpoint": None,
    "progress": None,
}
_ETAG = ("ETag", "The version, for If-Match of an edit.")
_SUBMIT = ("rate_limited", "queue_full", "idempotency_conflict", "in_progress")

TASKS = "/api/v1/tasks"
ONE_TASK = TASKS + "/{task_id}"
DLQ = "/api/v1/dlq"
_STATUS = Parameter(
    "status",
    {"type": "string", "examples": ["PENDING,RUNNING"]},
    "Only these states; repeat it, or separate them by commas.",
)

OPERATIONS: dict[tuple[str, str], Operation] = {
    ("POST", TASKS): Operation(
        "submit_task",
        "producer",
        "Submit a task. It is stored durably when this answers.",
        {
            202: Answer(
                "The task is stored.", m.TaskAccepted, _ACCEPTED, headers=(("Location", "Where."),)
            ),
            200: Answer(
                "The idempotency key was used before for the same body: the first task.",
                m.TaskReplayed,
                {**_ACCEPTED, "duplicate": True},
                headers=(("Idempotency-Replayed", "true"),),
            ),
        },
        body=m.TaskSubmission,
        body_examples=(SUBMISSION, {"task_type": "send_email"}),
        parameters=(
            Parameter(
                "Idempotency-Key", _STRING, "Instead of the field idempotency_key.", "header"
            ),
            Parameter("traceparent", {"type": "string"}, "W3C trace to continue.", "header"),
        ),
        errors=_SUBMIT,
    ),
    ("POST", TASKS + "/batch"): Operation(
        "submit_batch",
        "producer",
        "Submit up to 10,000 tasks in one transaction: all or none.",
        {
            202: Answer(
                "All tasks are stored.",
                m.BatchAccepted,
                {"tasks": [{**_ACCEPTED, "duplicate": False}]},
            )
        },
        body=m.Batch,
        body_examples=({"tasks": [{"task_type": "send_email", "payload": {"to": "a@b.c"}}]},),
        errors=_SUBMIT,
    ),
    ("GET", TASKS): Operation(
        "list_tasks",
        "reader",
        "List tasks, newest first, without payload and result. A page looks at a bounded number"
        " of rows: with a rare filter it may be short, or empty, and still have a next one.",
        {200: Answer("One page.", m.TaskList, {"tasks": [_VIEW], "next_cursor": None})},
        parameters=(
            _STATUS,
            _TYPE,
            _QUEUE,
            _TENANT,
            Parameter("workflow_id", {"type": "string", "format": "uuid"}, "Only this workflow's."),
            Parameter("tag", _STRING, "Only with this element, or key, in metadata.tags."),
            Parameter("created_after", _INSTANT, "Submitted at this instant or later."),
            Parameter("created_before", _INSTANT, "Submitted before this instant."),
            _LIMIT,
            _CURSOR,
        ),
    ),
    ("GET", ONE_TASK): Operation(
        "get_task",
        "reader",
        "Read a task with its attempts, its result and what was done to it.",
        {200: Answer("The task.", m.TaskView, _WHOLE, headers=(_ETAG,))},
        errors=("not_found",),
    ),
    ("PUT", ONE_TASK): Operation(
        "edit_task",
        "producer",
        "Change a task that has not started. If-Match names the version that you saw, so that two"
        " editors cannot overwrite each other.",
        {200: Answer("The task after the edit.", m.TaskView, _WHOLE, headers=(_ETAG,))},
        body=m.TaskEdit,
        body_examples=({"priority": "low", "delay_seconds": 600},),
        parameters=(
            Parameter("If-Match", {"type": "string"}, "ETag of the task.", "header", True),
        ),
        errors=("not_found", "conflict", "stale_version", "precondition_required"),
    ),
    ("POST", ONE_TASK + "/cancel"): Operation(
        "cancel_task",
        "producer",
        "Cancel a task that has not ended; a running one is stopped.",
        {
            200: Answer(
                "It is cancelled.",
                m.TaskCancelled,
                {
                    "task_id": TASK_ID,
                    "status": "CANCELLED",
                    "cancelled_at": "2026-04-03T18:00:00Z",
                },
            )
        },
        body=m.Why,
        body_required=False,
        body_examples=({"reason": "sent by hand"},),
        errors=("not_found", "conflict"),
    ),
    ("DELETE", ONE_TASK): Operation(
        "delete_task",
        "producer",
        "The same as cancel; the history stays.",
        {
            200: Answer(
                "It is cancelled.",
                m.TaskCancelled,
                {
                    "task_id": TASK_ID,
                    "status": "CANCELLED",
                    "cancelled_at": "2026-04-03T18:00:00Z",
                },
            )
        },
        errors=("not_found", "conflict"),
    ),
    ("POST", ONE_TASK + "/retry"): Operation(
        "retry_task",
        "operator",
        "Run a FAILED, DEAD or CANCELLED task again, with a fresh budget of retries.",
        {200: Answer("It waits to run.", m.TaskRetried, {"task_id": TASK_ID, "status": "PENDING"})},
        body=m.Why,
        body_required=False,
        body_examples=({"reason": "the mail server is back"},),
        errors=("not_found", "conflict"),
    ),
    ("GET", ONE_TASK + "/result"): Operation(
        "get_result",
        "reader",
        "Read the result, waiting for it up to `wait` seconds.",
        {
            200: Answer(
                "It has ended.",
                m.ResultView,
                {
                    "task_id": TASK_ID,
                    "status": "SUCCEEDED",
                    "done": True,
                    "result": {"message_id": "m-1"},
                    "error_type": None,
                    "error_message": None,
                },
            ),
            202: Answer(
                "It has not ended yet: ask again.",
                m.ResultView,
                {
                    "task_id": TASK_ID,
                    "status": "RUNNING",
                    "done": False,
                    "result": None,
                    "error_type": None,
                    "error_message": None,
                },
            ),
        },
        parameters=(
            Parameter(
                "wait",
                {"type": "integer", "minimum": 0, "maximum": 60, "default": 0},
                "Longest wait in seconds.",
            ),
        ),
        errors=("not_found",),
    ),
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
        parameters=(_TYPE, _QUEUE, _TENANT, _LIMIT, _CURSOR),
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
        parameters=(_TYPE, _QUEUE, _TENANT),
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
    ("GET", "/api/v1/queues"): Operation(
        "list_queues",
        "reader",
        "Depth and age of the queues in which something waits, as last counted.",
        {
            200: Answer(
                "The queues.",
                m.QueueList,
                {
                    "queues": [
                        {
                            "queue": "email-queue",
                            "priority": "high",
                            "depth": 1204,
                            "oldest_seconds": 3.2,
                            "refreshed_at": "2026-04-04T09:00:00Z",
                            "pressure": "none",
                        }
                    ]
                },
            )
        },
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
        parameters=(_LIMIT, _CURSOR),
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
            _STATUS,
            _TYPE,
            _QUEUE,
            _TENANT,
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
}

CRON = "/api/v1/cron-tasks"
ONE_CRON = CRON + "/{cron_id}"
FLOWS = "/api/v1/workflows"
ONE_FLOW = FLOWS + "/{workflow_id}"
_MADE = {
    "cron_id": TASK_ID,
    "name": "daily-report-generation",
    "next_fire_time": "2026-04-06T13:00:00Z",
    "status": "ACTIVE",
}
SCHEDULE: dict[str, Any] = {
    "name": "daily-report-generation",
    "cron_expression": "0 9 * * 1-5",
    "timezone": "America/New_York",
    "task_type": "generate_report",
    "payload": {"report": "sales"},
    "max_retries": 2,
    "timeout_seconds": 600,
    "overlap_policy": "skip",
    "enabled": True,
}
_SCHEDULE_VIEW = {
    **_MADE,
    "cron_expression": "0 9 * * 1-5",
    "timezone": "America/New_York",
    "task_type": "generate_report",
    "payload": {"report": "sales"},
    "reason": None,
    "enabled": True,
    "last_fire_time": None,
    "last_fired_at": None,
    "last_task_id": None,
    "queued": 0,
    "overlap_policy": "skip",
    "missed_policy": "once",
    "missed_limit": 10,
    "jitter_seconds": 0,
    "start_at": None,
    "end_at": None,
    "queue": "default",
    "priority": "medium",
    "max_retries": 2,
    "metadata": None,
    "tenant_id": "default",
    "version": 1,
    "created_at": "2026-04-03T17:21:09.812345Z",
}
WORKFLOW: dict[str, Any] = {
    "workflow_name": "user-onboarding",
    "tasks": [
        {
            "task_id": "create-account",
            "task_type": "create_account",
            "payload": {"email": "user@example.com"},
            "dependencies": [],
        },
        {
            "task_id": "send-welcome-email",
            "task_type": "send_email",
            "payload": {"template_id": "onboarding-v2"},
            "dependencies": ["create-account"],
        },
    ],
}
_FLOW = {
    "workflow_id": TASK_ID,
    "workflow_name": "user-onboarding",
    "status": "RUNNING",
    "tenant_id": "default",
    "task_count": 2,
    "pending": 2,
    "created_at": "2026-04-03T17:21:09.812345Z",
    "completed_at": None,
}
_CHANGED = {"workflow_id": TASK_ID, "status": "CANCELLED"}


def _schedule_verb(name: str, role: str, text: str, *errors: str) -> Operation:
    return Operation(
        name,
        role,
        text,
        {200: Answer("The schedule.", m.ScheduleView, _SCHEDULE_VIEW, headers=(_ETAG,))},
        errors=("not_found", *errors),
    )


OPERATIONS |= {
    ("POST", CRON): Operation(
        "create_cron_task",
        "producer",
        "Make a schedule. One that can never fire, or in an unknown zone, is refused.",
        {201: Answer("It is stored.", m.ScheduleMade, _MADE, headers=(("Location", "Where."),))},
        body=m.ScheduleRequest,
        body_examples=(SCHEDULE,),
        errors=("conflict",),
    ),
    ("GET", CRON): Operation(
        "list_cron_tasks",
        "reader",
        "List schedules, newest first.",
        {
            200: Answer(
                "One page.", m.ScheduleList, {"cron_tasks": [_SCHEDULE_VIEW], "next_cursor": None}
            )
        },
        parameters=(
            Parameter(
                "status",
                {"type": "string", "enum": ["ACTIVE", "PAUSED", "INVALID", "ENDED"]},
                "Only this state.",
            ),
            _TYPE,
            _TENANT,
            _LIMIT,
            _CURSOR,
        ),
    ),
    ("GET", ONE_CRON): _schedule_verb("get_cron_task", "reader", "Read a schedule."),
    ("PUT", ONE_CRON): Operation(
        "edit_cron_task",
        "producer",
        "Change a schedule; If-Match names the version that you saw.",
        {200: Answer("The schedule.", m.ScheduleView, _SCHEDULE_VIEW, headers=(_ETAG,))},
        body=m.ScheduleEdit,
        body_examples=({"cron_expression": "30 9 * * 1-5"},),
        parameters=(
            Parameter("If-Match", {"type": "string"}, "ETag of the schedule.", "header", True),
        ),
        errors=("not_found", "conflict", "stale_version", "precondition_required"),
    ),
    ("DELETE", ONE_CRON): _schedule_verb(
        "delete_cron_task", "producer", "Delete a schedule; tells what it was."
    ),
    ("POST", ONE_CRON + "/pause"): _schedule_verb(
        "pause_cron_task", "producer", "Stop a schedule from firing.", "conflict"
    ),
    ("POST", ONE_CRON + "/resume"): _schedule_verb(
        "resume_cron_task", "producer", "Let a schedule fire again.", "conflict"
    ),
    ("POST", ONE_CRON + "/run"): Operation(
        "run_cron_task",
        "producer",
        "Submit the schedule's task now; its next fire stays where it is.",
        {
            202: Answer(
                "The task is stored.", m.TaskRetried, {"task_id": TASK_ID, "status": "PENDING"}
            )
        },
        errors=("not_found", "conflict"),
    ),
    ("GET", ONE_CRON + "/preview"): Operation(
        "preview_cron_task",
        "reader",
        "The next fire times, by the same computation that fires.",
        {
            200: Answer(
                "The times.",
                m.Fires,
                {"cron_id": TASK_ID, "fire_times": ["2026-04-06T13:00:00Z"]},
            )
        },
        parameters=(
            Parameter(
                "count",
                {"type": "integer", "minimum": 1, "maximum": 1000, "default": 10},
                "How many.",
            ),
        ),
        errors=("not_found",),
    ),
    ("POST", FLOWS): Operation(
        "submit_workflow",
        "producer",
        "Submit a workflow of up to 10,000 tasks, all or none. A cycle, an unknown or a repeated"
        " name is refused.",
        {
            202: Answer(
                "It is stored.",
                m.WorkflowAccepted,
                {
                    "workflow_id": TASK_ID,
                    "status": "RUNNING",
                    "tasks": {"create-account": "PENDING", "send-welcome-email": "BLOCKED"},
                },
                headers=(("Location", "Where."),),
            ),
            200: Answer(
                "The idempotency key was used before for the same workflow: the first one.",
                m.WorkflowAccepted,
                {"workflow_id": TASK_ID, "status": "RUNNING", "tasks": {"a": "PENDING"}},
                headers=(("Idempotency-Replayed", "true"),),
            ),
        },
        body=m.WorkflowRequest,
        body_examples=(WORKFLOW,),
        errors=_SUBMIT,
    ),
    ("GET", FLOWS): Operation(
        "list_workflows",
        "reader",
        "List workflows, newest first.",
        {200: Answer("One page.", m.WorkflowList, {"workflows": [_FLOW], "next_cursor": None})},
        parameters=(
            Parameter("status", {"type": "string"}, "Only these states, by commas."),
            Parameter("workflow_name", _STRING, "Only this name."),
            _TENANT,
            Parameter("created_after", _INSTANT, "Submitted at this instant or later."),
            Parameter("created_before", _INSTANT, "Submitted before this instant."),
            _LIMIT,
            _CURSOR,
        ),
    ),
    ("GET", ONE_FLOW): Operation(
        "get_workflow",
        "reader",
        "Read a workflow, with how many of its tasks are in which state.",
        {
            200: Answer(
                "The workflow.",
                m.WorkflowView,
                {
                    **_FLOW,
                    "tasks": {"PENDING": 1, "BLOCKED": 1},
                    "dag_definition": [],
                    "actions": [],
                },
            )
        },
        errors=("not_found",),
    ),
    ("GET", ONE_FLOW + "/graph"): Operation(
        "workflow_graph",
        "reader",
        "Read a workflow's picture: nodes with states and times, and edges.",
        {200: Answer("The picture.", m.WorkflowPicture, {**_FLOW, "nodes": [], "edges": []})},
        errors=("not_found",),
    ),
    ("POST", ONE_FLOW + "/cancel"): Operation(
        "cancel_workflow",
        "producer",
        "Cancel all tasks of a workflow that have not ended.",
        {200: Answer("It is cancelled.", m.WorkflowChanged, _CHANGED)},
        body=m.Why,
        body_required=False,
        errors=("not_found", "conflict"),
    ),
    ("POST", ONE_FLOW + "/retry"): Operation(
        "retry_workflow",
        "operator",
        "Run again what failed in a workflow, and what did not run because of it.",
        {200: Answer("It runs.", m.WorkflowChanged, {**_CHANGED, "status": "RUNNING"})},
        body=m.Why,
        body_required=False,
        errors=("not_found", "conflict"),
    ),
}
_POST = OPERATIONS["POST", TASKS]
OPERATIONS["POST", TASKS] = _POST._replace(
    answers={
        **_POST.answers,
        201: Answer("With schedule_recurring: the schedule.", m.ScheduleMade, _MADE),
    },
    other_body=m.RecurringTask,
    parameters=(
        *_POST.parameters,
        Parameter(
            "schedule_recurring",
            {"type": "boolean", "default": False},
            "Make a schedule instead: the body has `schedule`, a cron expression.",
        ),
    ),
    errors=(*_POST.errors, "conflict"),
)
